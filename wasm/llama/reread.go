package llama

import "context"

// Reread computes the conversation again, with the tokens that it has, as if what is pinned now had been so from the start:
// what a prompt drops, a pin that comes later does not bring back. If it fails, the conversation stays as it was.
func (s *Session) Reread(ctx context.Context) error {
	return s.busy("reread", func() error {
		if s.run == nil || s.pos == 0 {
			return nil
		}
		was, moments := s.spans, s.moments
		s.spans, s.stale = s.pinFirst(), true
		s.moments = nil // they are of a conversation with other pins
		err := s.settled(ctx)
		s.moments = moments
		if err != nil {
			s.spans = was
			return err
		}
		s.forgetMoments()
		return nil
	})
}

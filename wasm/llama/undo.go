package llama

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrUndo says that there is no moment to go back to: it lies in the middle of a prompt, or beyond the conversation.
var ErrUndo = errors.New("there is no such moment to go back to")

// maxMoments is how many moments are kept for Undo: with those before and after every prompt, the way back to anywhere in
// the last turn, and to the end of the prompt before it, has no prompt to compute.
const maxMoments = 3

// KeepUndo says whether prompts from now on leave checkpoints, before them and after them, from which Undo computes only
// an answer's tokens again; and SetCap one after it. The last ones are kept, in the ledger as cache.Checkpoints.
func (s *Session) KeepUndo(on bool) {
	s.opts.Undo = on
	if !on {
		s.forgetMoments()
	}
}

// Undo goes back to the conversation of its first tokens, those that a next turn begins with among them, as it was when
// it had no more: what the cache holds, and the logits. What was done to the cache at that moment (Pin, Recall) is undone
// too, unless a prompt came next. The moment before a prompt is where its tokens begin; inside a prompt there is none,
// and the error is ErrUndo.
//
// Answers are computed again with the tokens that they had, so chance plays no part, from the last checkpoint of
// KeepUndo before that moment, or else from the start; a full cache just gets shorter. On the same backend the result is
// the same to the last bit, but for prompts that had to be computed again in other pieces. What SetCap did counts as if
// it had been so from the start, unless a checkpoint from after it is kept.
//
// progress gets tokens × layers and may be nil. If it fails or ctx is cancelled, the conversation stays.
func (s *Session) Undo(ctx context.Context, tokens int, progress func(done, total int)) error {
	return s.busy("undo", func() error {
		to, ok := s.moment(tokens)
		switch {
		case !ok:
			return fmt.Errorf("%w: %d of %d tokens", ErrUndo, tokens, s.pos+len(s.pending))
		case len(to.ids) == s.pos && len(to.spans) == len(s.spans):
			err := s.settled(ctx)
			if err == nil {
				s.pending = to.pending
			}
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case len(to.ids) == 0:
			s.Reset()
			return nil
		}
		return s.goBack(ctx, to, progress)
	})
}

// moment is a conversation at one time.
type moment struct {
	ids, pending []int32
	spans        []span
}

// moment finds the time when the conversation had so many tokens.
func (s *Session) moment(tokens int) (moment, bool) {
	if tokens > s.pos && tokens == s.pos+len(s.pending) {
		m, ok := s.moment(s.pos)
		m.pending = s.pending
		return m, ok
	}
	if tokens < 0 || tokens > s.pos {
		return moment{}, false
	}
	at, i := 0, 0
	for ; at < tokens && at+s.spans[i].tokens <= tokens; i++ {
		at += s.spans[i].tokens
	}
	next := i // the tokens after what was done here
	for next < len(s.spans) && s.spans[next].deed != nil {
		next++
	}
	if next < len(s.spans) && s.spans[next].prompt {
		i = next
	}
	m := moment{ids: s.ids[:at:at], spans: slices.Clone(s.spans[:i])}
	switch {
	case at == tokens:
	case s.spans[i].answer():
		part := s.spans[i]
		part.tokens = tokens - at
		m.ids, m.spans = s.ids[:tokens:tokens], append(m.spans, part)
	case tokens-at == s.spans[i].led:
		m.pending = s.ids[at:tokens:tokens]
	default:
		return moment{}, false
	}
	return m, true
}

// goBack makes an earlier moment of the conversation the present one.
func (s *Session) goBack(ctx context.Context, to moment, progress func(done, total int)) (err error) {
	from := s.before(to)
	rest := after(to.spans, from.spans)
	was := *s
	was.logits = slices.Clone(s.logits)
	var now *Checkpoint
	if len(to.ids)-len(from.ids) > 1 && !s.stale {
		if now, err = s.checkpoint(true); err != nil {
			return err
		}
		defer now.Close()
	} else {
		ctx = context.WithoutCancel(ctx) // a token is computed sooner than a way back is kept
	}
	s.watched = false
	if err = s.start(from); err == nil {
		err = s.again(ctx, to.ids[len(from.ids):], rest, progress)
	}
	s.watched, s.rows, s.evicted = was.watched, nil, nil
	if err == nil {
		s.pending = slices.Clone(to.pending)
		if s.moments = s.closeMoments(func(m *Checkpoint) bool { return m.within(s.ids, s.spans) }); len(s.moments) == 0 {
			s.remember()
		}
		s.wished()
		return nil
	}
	if now == nil || s.load(now) != nil {
		s.cache.Reset()
		s.ids, s.spans, s.pos, s.stale = was.ids, was.spans, was.pos, true
		copy(s.logits, was.logits)
	}
	return err
}

// start begins at a checkpoint, or anew if it has nothing.
func (s *Session) start(c *Checkpoint) error {
	if len(c.ids) > 0 {
		return s.load(c)
	}
	s.stale = false
	return s.anew()
}

// before is the latest state before a moment that the session can go back to without computing anything.
func (s *Session) before(to moment) *Checkpoint {
	best := &Checkpoint{s: s}
	for _, m := range s.moments {
		if m.within(to.ids, to.spans) && (m.saved != nil || !s.stale) {
			best = m
		}
	}
	if s.run != nil || s.stale || len(best.ids) == len(to.ids) {
		return best
	}
	// Nothing has left: the cache was once as long as one likes. The logits after its last tokens are not kept.
	n, last := len(to.ids), len(to.spans)-1
	for to.spans[last].deed != nil {
		last--
	}
	spans := slices.Clone(to.spans[:last+1])
	if part := &spans[last]; part.answer() {
		n--
		part.tokens--
	} else {
		n -= part.tokens
		spans = spans[:last]
	}
	if n > len(best.ids) {
		best = &Checkpoint{s: s, ids: to.ids[:n], spans: spans}
	}
	return best
}

// within says that a checkpoint of this conversation is from before it had these tokens.
func (c *Checkpoint) within(ids []int32, spans []span) bool {
	return len(c.ids) <= len(ids) && len(c.spans) <= len(spans)
}

// after is what came after some spans in a conversation that began with them.
func after(all, before []span) []span {
	if len(before) == 0 {
		return all
	}
	rest := slices.Clone(all[len(before)-1:])
	rest[0].tokens -= before[len(before)-1].tokens
	if rest[0].tokens == 0 {
		rest = rest[1:]
	}
	return rest
}

// remember keeps the present moment for Undo, if that is wanted.
func (s *Session) remember() {
	if !s.opts.Undo || s.pos == 0 || s.stale {
		return
	}
	if n := len(s.moments); n > 0 && len(s.moments[n-1].ids) == s.pos && len(s.moments[n-1].spans) == len(s.spans) {
		return
	}
	c, err := s.checkpoint(s.run != nil)
	if err != nil {
		return // without it Undo takes longer
	}
	c.moments = nil
	s.moments = append(s.moments, c)
	if len(s.moments) > maxMoments {
		s.moments[0].Close()
		s.moments = slices.Delete(s.moments, 0, 1)
	}
}

// forgetMoments frees what is kept for Undo.
func (s *Session) forgetMoments() {
	s.moments = s.closeMoments(func(*Checkpoint) bool { return false })
}

// closeMoments frees the moments that do not stay, and gives the others.
func (s *Session) closeMoments(stays func(*Checkpoint) bool) (left []*Checkpoint) {
	for _, m := range s.moments {
		if stays(m) {
			left = append(left, m)
		} else {
			m.Close()
		}
	}
	return left
}

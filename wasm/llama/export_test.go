package llama

import (
	"context"
	"time"
)

// FixPace lets pieces of a prompt have so many rows whatever the clock says. Pieces change the order of sums: only then
// is the same prompt the same to the last bit.
func (m *Model) FixPace(rows int) {
	m.pace = pace{rows: rows, max: rows, now: func() time.Duration { return 0 }}
}

// PinAhead pins tokens that are still to come.
func (s *Session) PinAhead(ctx context.Context, pins []int32) error {
	if err := s.pin(ctx, pins); err != nil {
		return err
	}
	s.did(pinning(pins))
	return nil
}

// Stretch sets how many tokens of an answer are prepared at a time, and says how many were.
func Stretch(n int) int {
	was := stretch
	stretch = n
	return was
}

// Noted is how many bytes the ledger has for when tokens left.
func (s *Session) Noted() (bytes int64) {
	for _, at := range s.gone.at {
		bytes += 4 * int64(cap(at))
	}
	return bytes
}

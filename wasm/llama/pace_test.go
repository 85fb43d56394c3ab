package llama

import (
	"testing"
	"time"
)

// Pieces shrink when an operation is long, grow when all are short, and stay within 1 and the chunk.
func TestPace(t *testing.T) {
	p := newPace(64)
	steps := []struct {
		rows  int // of the piece
		worst time.Duration
		next  int
	}{
		{16, time.Millisecond, 32},
		{32, time.Millisecond, 64},
		{64, time.Millisecond, 64},
		{64, 20 * time.Millisecond, 64},
		{64, 90 * time.Millisecond, 32},
		{5, time.Millisecond, 32}, // the rest of a prompt says nothing
		{32, 90 * time.Millisecond, 16},
		{3, 90 * time.Millisecond, 1},
		{1, 90 * time.Millisecond, 1},
		{1, time.Millisecond, 2},
	}
	for i, s := range steps {
		p.worst = s.worst
		p.adapt(s.rows)
		if p.rows != s.next || p.worst != 0 {
			t.Errorf("step %d: %d rows, want %d", i, p.rows, s.next)
		}
	}
}

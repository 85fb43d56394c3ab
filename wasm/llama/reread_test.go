package llama_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"kvlens/wasm/llama"
)

// A conversation that is read again has its pins as if they had been there before it began; stopped, it is what it was.
func TestReread(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	for _, r := range evicting(t) {
		t.Run(r.name, func(t *testing.T) {
			o := llama.SessionOptions{Recipe: r.Recipe, Tables: anyTables(m), Tokens: 120, Share: 0.5}
			ahead, left := session(t, m, o), session(t, m, o)
			o.Undo = true // checkpoints of the conversation without the pin
			s, stopped := session(t, m, o), session(t, m, o)
			for _, s := range []*llama.Session{s, stopped, left} {
				talk(t, s, 1)
			}
			gone := s.Position() - 12
			for gone > 8 && slices.Contains(held(s)[0][0], int32(gone)) {
				gone--
			}
			for _, s := range []*llama.Session{s, stopped, left} {
				if err := s.Pin(ctx, []int{gone}); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Reread(ctx); err != nil {
				t.Fatal(err)
			}
			if err := ahead.PinAhead(ctx, []int32{int32(gone)}); err != nil {
				t.Fatal(err)
			}
			talk(t, ahead, 1)
			same(t, "read again", s, ahead)
			for l, heads := range held(s) {
				for h, list := range heads {
					if !slices.Contains(list, int32(gone)) {
						t.Errorf("layer %d, KV head %d: %d is not in %v", l, h, gone, list)
					}
				}
			}
			over, cancel := context.WithCancel(ctx)
			cancel()
			if err := stopped.Reread(over); !errors.Is(err, context.Canceled) {
				t.Fatalf("stopped: %v", err)
			}
			prefill(t, stopped, words(3, 4))
			prefill(t, left, words(3, 4))
			same(t, "stopped", stopped, left)
		})
	}
}

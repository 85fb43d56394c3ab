package llama_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"kvlens/wasm/llama"
)

// After another cap, Undo with checkpoints goes back to what was under it; and a turn that fails leaves what was.
func TestUndoAfterAnotherCap(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	for _, r := range evicting(t) {
		for _, part := range []float64{0.6, 1.7} {
			s := session(t, m, llama.SessionOptions{Recipe: r.Recipe, Tables: anyTables(m), Tokens: 90, Undo: true})
			prefill(t, s, words(40, 1))
			generate(t, s, 5)
			if err := s.SetCap(ctx, int64(part*float64(s.Cap()))); err != nil {
				t.Fatal(r.name, err)
			}
			var past []instant
			note := func() {
				i := instant{tokens: s.Position(), held: held(s), logits: slices.Clone(s.Logits())}
				for _, layer := range s.Caps() {
					i.caps = append(i.caps, slices.Clone(layer))
				}
				past = append(past, i)
			}
			note()
			for range 5 {
				if generate(t, s, 1); s.Position() > past[len(past)-1].tokens {
					note()
				}
			}
			before := past[len(past)-1]
			stopped, cancel := context.WithCancel(ctx)
			err := s.Prefill(stopped, words(20, 3), func(done, total int) {
				if done > total/2 {
					cancel()
				}
			})
			if cancel(); !errors.Is(err, context.Canceled) {
				t.Fatal(r.name, err)
			}
			if err := s.Undo(ctx, before.tokens, nil); err != nil {
				t.Fatal(r.name, err)
			}
			before.check(t, r.name+", a failed turn", s)
			for _, i := range slices.Backward(past) {
				if err := s.Undo(ctx, i.tokens, nil); err != nil {
					t.Fatal(r.name, err)
				}
				i.check(t, r.name, s)
			}
		}
	}
}

// What changes nothing makes a session that a failed turn has left otherwise be there again, too: whoever asks can be told.
func TestNothingToUndoAfterAFailedTurn(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	for _, r := range evicting(t) {
		for what, nothing := range map[string]func(s *llama.Session) error{
			"undo": func(s *llama.Session) error { return s.Undo(ctx, s.Position(), nil) },
			"pin":  func(s *llama.Session) error { return s.Pin(ctx, nil) },
		} {
			s := undoer(t, m, r, false)
			prefill(t, s, words(30, 1))
			sets := held(s)
			stopped, cancel := context.WithCancel(ctx)
			err := s.Prefill(stopped, words(20, 3), func(done, total int) {
				if done > total/2 {
					cancel()
				}
			})
			if cancel(); !errors.Is(err, context.Canceled) {
				t.Fatal(r.name, err)
			}
			if err := nothing(s); err != nil || !equalSets(held(s), sets) {
				t.Errorf("%s, %s: %v, holds %v, want %v", r.name, what, err, held(s), sets)
			}
		}
	}
}

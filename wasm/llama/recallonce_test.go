package llama_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"kvlens/wasm/llama"
)

// A recall is nothing where its token has not left: the conversation that is computed again with the token pinned from the
// start, or under a cap with room for all, goes on.
func TestRecallOfWhatHasNotLeft(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	for _, r := range evicting(t) {
		for what, change := range map[string]func(s *llama.Session, position int) error{
			"pinned from the start": func(s *llama.Session, position int) error {
				return errors.Join(s.Pin(ctx, []int{position}), s.Reread(ctx))
			},
			"with room for all": func(s *llama.Session, position int) error {
				err := s.SetCap(ctx, 20*s.Cap())
				stopped, cancel := context.WithCancel(ctx)
				e := s.Prefill(stopped, words(9, 4), func(done, total int) {
					if done > total/2 {
						cancel()
					}
				})
				if cancel(); !errors.Is(e, context.Canceled) {
					return e
				}
				return err
			},
		} {
			s := shaded(t, m, r, false)
			prefill(t, s, words(30, 1))
			generate(t, s, 6)
			position := recallable(t, s)
			if err := s.Recall(ctx, position); err != nil {
				t.Fatal(r.name, err)
			}
			if err := change(s, position); err != nil {
				t.Errorf("%s, %s: %v", r.name, what, err)
				continue
			}
			prefill(t, s, words(3, 5))
			for l, lists := range held(s) {
				for h, now := range lists {
					if what == "pinned from the start" && !slices.Contains(now, int32(position)) {
						t.Errorf("%s, %s: layer %d, KV head %d holds %d, without %d", r.name, what, l, h, now, position)
					}
				}
			}
		}
	}
}

// Undo repeats recalls also when copies are not wanted any more.
func TestUndoWithoutCopies(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	for _, r := range evicting(t) {
		s, other := shaded(t, m, r, false), shaded(t, m, r, false)
		s.KeepUndo(true)
		for _, s := range []*llama.Session{s, other} {
			prefill(t, s, words(30, 1))
			if err := s.Recall(ctx, recallable(t, s)); err != nil {
				t.Fatal(r.name, err)
			}
			generate(t, s, 6)
		}
		tokens := s.Position()
		generate(t, s, 5)
		if err := errors.Join(s.Shadow(false), s.Undo(ctx, tokens, nil)); err != nil {
			t.Fatal(r.name, err)
		}
		if !equalSets(held(s), held(other)) || !slices.Equal(s.Logits(), other.Logits()) {
			t.Errorf("%s: holds %v, want %v", r.name, held(s), held(other))
		}
	}
}

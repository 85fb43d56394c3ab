package llama_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"kvlens/wasm/llama"
)

// A history that happens to another session makes it what the first one was: kept sets, logits, what comes next; what was
// pinned stays pinned. Under other settings it is as after SetRecipe.
func TestHistory(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	for _, r := range evicting(t) {
		o := llama.SessionOptions{Recipe: r.Recipe, Tables: anyTables(m), Budget: 12, Tokens: 90}
		s := session(t, m, o)
		prefill(t, s, words(25, 1))
		answer := generate(t, s, 6)
		h := s.History()
		if h.Tokens() != 31 || !slices.Equal(h.Answer(), answer) {
			t.Fatalf("%s: %d tokens, the answer is %v, want %v", r.name, h.Tokens(), h.Answer(), answer)
		}
		if err := s.Pin(ctx, []int{20, 30}); err != nil {
			t.Fatal(r.name, err)
		}
		generate(t, s, 3)
		prefill(t, s, words(9, 4))
		h = s.History()
		if len(h.Answer()) != 0 || h.Tokens() != 43 {
			t.Errorf("%s: %d tokens, an answer of %v", r.name, h.Tokens(), h.Answer())
		}
		want, next := held(s), slices.Clone(s.Logits())
		pins := s.Pins()
		s.Reset()
		done := 0
		for _, to := range []*llama.Session{s, session(t, m, o)} {
			if err := to.Repeat(ctx, h, true, func(now, total int) { done = now - total }); err != nil || done != 0 {
				t.Fatal(r.name, err, done)
			}
			if !reflect.DeepEqual(held(to), want) || !slices.Equal(to.Logits(), next) || !slices.Equal(to.Pins(), pins) || to.Position() != 43 {
				t.Errorf("%s: repeated, it holds %v, want %v; equal logits: %v", r.name, held(to), want, slices.Equal(to.Logits(), next))
			}
		}
		if err := s.Repeat(ctx, h, true, nil); !errors.Is(err, llama.ErrNotEmpty) {
			t.Errorf("%s: twice: %v", r.name, err)
		}
		other := session(t, m, llama.SessionOptions{Recipe: recipes()[0].Recipe, Tokens: 90})
		if err := other.Repeat(&countdown{ctx, 40}, h, false, nil); !errors.Is(err, context.Canceled) || other.Position() != 0 {
			t.Errorf("%s: stopped: %v, position %d", r.name, err, other.Position())
		}
		if err := other.Repeat(ctx, h, false, nil); err != nil || other.Position() != 43 || !slices.Equal(other.Pins(), pins) {
			t.Errorf("%s: under another recipe: %v, position %d, pins %v", r.name, err, other.Position(), other.Pins())
		}
	}
}

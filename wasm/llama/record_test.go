package llama_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/web/lab/golden"
)

// verdicts are all that a session says.
func verdicts(t testing.TB, s *llama.Session) (out []policy.Verdict) {
	t.Helper()
	for _, heads := range explain(t, s) {
		for _, e := range heads {
			out = append(out, e.Verdicts...)
		}
	}
	return out
}

func sameVerdicts(a, b []policy.Verdict) bool {
	same := func(x, y float32) bool { return x == y || x != x && y != y }
	return slices.EqualFunc(a, b, func(a, b policy.Verdict) bool {
		return same(a.Score, b.Score) && same(a.Threshold, b.Threshold) && a.Rank == b.Rank && a.At == b.At && a.Decision == b.Decision
	})
}

// What was recorded comes back with a checkpoint, with Undo, and when a turn that fails makes all be computed again. A pin
// has the last word from its time on, and none when it is taken away.
func TestRecordsComeBack(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	for _, r := range evicting(t) {
		s := explained(t, m, r.Recipe)
		s.KeepUndo(true)
		prefill(t, s, words(30, 1))
		generate(t, s, 9)
		want, at := verdicts(t, s), s.Position()
		saved, err := s.Save(ctx)
		if err != nil {
			t.Fatal(err)
		}
		kept := s.Kept(0, 0)[2]
		if err := s.Pin(ctx, []int{int(kept)}); err != nil {
			t.Fatal(r.name, err)
		}
		if v := explain(t, s)[0][0].Verdicts[kept]; v.Decision != policy.DecidedPin || int(v.At) != at {
			t.Errorf("%s: pinned at %d: %+v", r.name, at, v)
		}
		if err := s.Pin(ctx, nil); err != nil {
			t.Fatal(err)
		}
		if got := explain(t, s)[0][0].Verdicts[kept]; !sameVerdicts([]policy.Verdict{got}, want[kept:kept+1]) {
			t.Errorf("%s: not pinned any more: %+v, want %+v", r.name, got, want[kept])
		}
		for what, back := range map[string]func() error{
			"checkpoint": func() error {
				generate(t, s, 3)
				return s.Restore(saved)
			},
			"undo": func() error {
				prefill(t, s, words(20, 3))
				return s.Undo(ctx, at, nil)
			},
			"replay": func() error {
				stopped, cancel := context.WithCancel(ctx)
				err := s.Prefill(stopped, words(20, 4), func(done, total int) {
					if done > total/2 {
						cancel()
					}
				})
				cancel()
				if !errors.Is(err, context.Canceled) {
					return err
				}
				_, err = s.Explain(ctx, 0, 0)
				return err
			},
		} {
			if err := back(); err != nil {
				t.Fatal(r.name, what, err)
			}
			if got := verdicts(t, s); !sameVerdicts(got, want) {
				t.Errorf("%s: %s: what is told differs", r.name, what)
			}
		}
		saved.Close()
	}
}

// A pin is the last word about a token from the time when it was pinned last, until a prompt chooses again; it is none
// about a token that has left. The token that waits can be pinned before it is stored.
func TestExplainedPins(t *testing.T) {
	needsScorer(t)
	s := explained(t, exact(t, nil), policy.Recipe{Method: "snapkv"})
	prefill(t, s, words(40, 1))
	generate(t, s, 3)
	var gone int
	kept := s.Kept(0, 0)
	for slices.Contains(kept, int32(gone)) {
		gone++
	}
	stays, waits := int(kept[1]), s.Position()
	pin := func(positions ...int) {
		t.Helper()
		if err := s.Pin(ctx, positions); err != nil {
			t.Fatal(err)
		}
	}
	decided := func(position int, d policy.Decision, at int) {
		t.Helper()
		e, err := s.Explain(ctx, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if v := e.Verdicts[position]; v.Decision != d || int(v.At) != at {
			t.Errorf("token %d: %+v, want %d at %d", position, v, d, at)
		}
	}
	pin(stays, gone, waits)
	decided(stays, policy.DecidedPin, waits)
	decided(gone, policy.DecidedScore, 40)
	generate(t, s, 2)
	decided(waits, policy.DecidedPin, waits+1)
	pin(waits)
	decided(stays, policy.DecidedScore, 40)
	generate(t, s, 2)
	pin(stays, waits)
	decided(stays, policy.DecidedPin, s.Position())
	decided(waits, policy.DecidedPin, waits+1)
	prefill(t, s, words(20, 2))
	decided(stays, policy.DecidedPin, s.Position())
	pin()
	decided(stays, policy.DecidedPin, s.Position())
}

// A record is in the ledger while it is there, as large as Explain says; without one there is nothing, and no explanation.
// One that begins in the middle of a conversation begins with the next.
func TestRecordInTheLedger(t *testing.T) {
	needsScorer(t)
	led := new(cache.Ledger)
	m := load(t, golden.TinyModel(t), newBackend(t, led), led)
	views := func() int64 { return led.Rows()[cache.Views].Allocated }
	for _, method := range []string{"full", "snapkv", "h2o"} {
		o := llama.SessionOptions{Recipe: policy.Recipe{Method: method}, Tokens: 80, Share: 1}
		if method != "full" {
			o.Share = 0.5
		}
		s := session(t, m, o)
		prefill(t, s, words(30, 1))
		if _, err := s.Explain(ctx, 0, 0); !errors.Is(err, llama.ErrNoRecord) || views() != 0 {
			t.Errorf("%s, unrecorded: %v, %d bytes", method, err, views())
		}
		s.Record(true)
		prefill(t, s, words(5, 1))
		if _, err := s.Explain(ctx, 0, 0); !errors.Is(err, llama.ErrNoRecord) || views() != 0 {
			t.Errorf("%s, recorded from the middle: %v, %d bytes", method, err, views())
		}
		s.Reset()
		if _, err := s.Explain(ctx, 0, 0); !errors.Is(err, llama.ErrEmpty) {
			t.Errorf("%s, empty: %v", method, err)
		}
		prefill(t, s, words(30, 1))
		generate(t, s, 6)
		e, err := s.Explain(ctx, 1, 0)
		if err != nil || views() != e.Bytes || (e.Bytes > 0) != (method != "full") {
			t.Fatalf("%s, recorded: %v, %d bytes", method, err, views())
		}
		for _, list := range [][2]int{{-1, 0}, {0, -1}, {9, 0}, {0, 9}} {
			if _, err := s.Explain(ctx, list[0], list[1]); err == nil {
				t.Errorf("list %v is explained", list)
			}
		}
		saved, err := s.Save(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s.Record(false)
		if _, err := s.Explain(ctx, 0, 0); !errors.Is(err, llama.ErrNoRecord) || views() != 0 {
			t.Errorf("%s, ended: %v, %d bytes", method, err, views())
		}
		if err := errors.Join(s.Restore(saved), s.Decode(ctx, 4)); err != nil || views() != 0 {
			t.Errorf("%s: %v, a checkpoint brings back %d bytes that are not wanted", method, err, views())
		}
		saved.Close()
		s.Record(true)
		if err := s.SetRecipe(ctx, policy.Recipe{Method: "tova"}); err != nil {
			t.Fatal(err)
		}
		if e, err := s.Explain(ctx, 1, 0); err != nil || views() != e.Bytes || e.Bytes == 0 {
			t.Errorf("%s, computed again: %v, %d bytes", method, err, views())
		}
		s.Close()
		if views() != 0 || led.Rows()[cache.Checkpoints].Allocated != 0 {
			t.Errorf("%s, closed: %d bytes", method, views())
		}
	}
}

package llama_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/llama"
	"kvlens/wasm/step"
	"kvlens/web/lab/golden"
)

// Settings of every kind, caps that hold nothing, prompts of one token, answers that end at once and a backend that fails:
// what a comparison says is a number, and it leaves no byte.
func TestAnyCompare(t *testing.T) {
	needsScorer(t)
	led := new(cache.Ledger)
	fb := &failing{Backend: newBackend(t, led)}
	m := load(t, golden.TinyModel(t), fb, led)
	m.FixPace(7)
	warm := session(t, m, llama.SessionOptions{Tokens: 400})
	prefill(t, warm, words(300, 1))
	warm.Close()
	base := led.Total().Allocated
	all := recipes()
	n := 0
	for i, r := range all {
		for p, parts := range [][][]int32{{words(1, 3)}, {words(40, 3)}, {words(30, 3), words(1, 4)}, {words(1, 3), words(30, 4)}} {
			for q, max := range []int{1, 2, 9} {
				if (i+p+q)%6 != 0 {
					continue
				}
				for k, b := range []llama.SessionOptions{{Budget: 1}, {Budget: 3}, {Budget: 200}, {Share: 0.1}, {Share: 1}, {Cap: 2000}, {Share: 0.3, Parity: true}, {Budget: 8, Undo: true, Shadow: true, Explain: true}} {
					a := b
					a.Recipe, a.Tables = r.Recipe, anyTables(m)
					b.Recipe, b.Tables = all[(i*3+k)%len(all)].Recipe, anyTables(m)
					o := llama.CompareOptions{Parts: parts, Max: max, Runs: [2]llama.SessionOptions{a, b}}
					if n%3 == 0 {
						o.Gold, o.Other = []int32{3, 4}, []int32{3, 5, 6}
						if max == 1 {
							o.Gold, o.Other = []int32{4}, []int32{5, 6}
						}
					}
					if n%2 == 0 {
						o.Stop = func(id int32) bool { return n%4 == 0 || id%5 == 0 }
					}
					n++
					h := new(heard)
					var err error
					h.Comparison, err = m.Compare(ctx, o, h.events())
					var full *cache.FullError
					if got := led.Total().Allocated; got > base {
						t.Fatalf("%s %+v: %d bytes left", r.name, o.Runs, got-base)
					}
					if err != nil {
						if !errors.As(err, &full) && !errors.Is(err, llama.ErrSmall) && !errors.Is(err, step.ErrMemory) {
							t.Errorf("%s %v: %v", r.name, b, err)
						}
						continue
					}
					for run, x := range h.Runs {
						if !(x.MeanKL >= 0) || x.MaxKL < x.MeanKL-1e-12 || math.IsInf(x.MaxKL, 0) || x.Agree > len(h.IDs) || x.Diverged > max || math.IsInf(x.Rate, 0) || x.Peak < x.Cap {
							t.Errorf("%s: %+v", r.name, x)
						}
						for _, heads := range x.Retained {
							if len(heads) != m.Config().Heads {
								t.Errorf("%d heads", len(heads))
							}
							for _, v := range heads {
								if !(v > 0) || v > 1+1e-6 {
									t.Errorf("%s: retained %g", r.name, v)
								}
							}
						}
						if len(h.free[run]) == 0 || len(h.IDs) == 0 {
							t.Error("nothing said")
						}
					}
					if n%41 == 0 && !b.Undo {
						for c := 1; c < 1<<20; c += 1 + c/3 {
							fb.after = c
							_, err := m.Compare(ctx, o, llama.CompareEvents{})
							done := fb.after > 0
							fb.after = 0
							if got := led.Total().Allocated; got > base {
								t.Fatalf("%s %+v: fail at %d: %d bytes left", r.name, o.Runs, c, got-base)
							}
							if done {
								break
							}
							if err == nil {
								t.Errorf("a failure is lost")
							}
						}
						cx, cancel := context.WithCancel(ctx)
						cancel()
						if _, err := m.Compare(cx, o, llama.CompareEvents{}); !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
					}
				}
			}
		}
	}
}

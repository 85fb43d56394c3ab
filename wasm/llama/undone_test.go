package llama_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/sample"
	"kvlens/wasm/step"
	"kvlens/web/lab/golden"
)

// waiting is a backend that does something while results are waited for.
type waiting struct {
	step.Backend
	read func() error
}

func (w *waiting) Read(b step.Buffer, off int64, dst []byte) error {
	if err := w.Backend.Read(b, off, dst); err != nil || w.read == nil {
		return err
	}
	return w.read()
}

// Stop that is heard, or a backend that fails, while the last results of a turn are waited for: the turn has not been.
func TestFailedRead(t *testing.T) {
	needsScorer(t)
	w := &waiting{}
	m := exact(t, func(inner step.Backend) step.Backend {
		w.Backend = inner
		return w
	})
	for _, watched := range []bool{false, true} {
		for _, method := range []string{"full", "snapkv", "streamingllm"} {
			for name, turn := range map[string]func(context.Context, *llama.Session) error{
				"prompt": func(ctx context.Context, s *llama.Session) error { return s.Prefill(ctx, words(9, 4), nil) },
				"token":  func(ctx context.Context, s *llama.Session) error { return s.Decode(ctx, 5) },
			} {
				for n := 1; ; n++ {
					s, other := small(t, m, policy.Recipe{Method: method}), small(t, m, policy.Recipe{Method: method})
					prefill(t, s, words(11, 1))
					prefill(t, other, words(11, 1))
					if err := s.Watch(watched); err != nil {
						t.Fatal(err)
					}
					stopped, cancel := context.WithCancel(ctx)
					calls := 0
					w.read = func() error {
						if calls++; calls < n {
							return nil
						}
						if cancel(); name == "token" {
							return errBroken
						}
						return nil
					}
					err := turn(stopped, s)
					if w.read = nil; calls < n {
						cancel()
						break
					}
					if err == nil || s.Rows() != nil || s.Position() != 11 {
						t.Errorf("%s: %s, stopped at result %d: %v, position %d", method, name, n, err, s.Position())
					}
					prefill(t, s, words(3, 2))
					prefill(t, other, words(3, 2))
					same(t, method+" "+name, s, other)

					s.Reset()
					prefill(t, s, words(11, 1)) // and with nothing after it
					w.read = func() error { cancel(); return nil }
					if err := s.Prefill(stopped, words(9, 4), nil); !errors.Is(err, context.Canceled) {
						t.Errorf("%s: got %v", method, err)
					}
					w.read = nil
					other.Reset()
					prefill(t, other, words(11, 1))
					if a, b := generate(t, s, 5), generate(t, other, 5); len(a) != 5 || a[0] != b[0] {
						t.Errorf("%s: answers %v, want %v", method, a, b)
					}
				}
			}
		}
	}
}

// A prompt that was read shows: its answer has a token even if Stop comes between the two.
func TestStoppedBeforeTheAnswer(t *testing.T) {
	s := session(t, tiny(t), llama.SessionOptions{Tokens: 40})
	prefill(t, s, words(9, 1))
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	n := 0
	reason, err := s.Generate(stopped, llama.GenerateOptions{Max: 9, Sampler: sample.New(sample.Params{})}, func(llama.Token) error {
		n++
		return nil
	})
	if reason != llama.ReasonStopped || err != nil || n != 1 || s.Position() != 9 {
		t.Errorf("reason %d, %v, %d tokens, position %d", reason, err, n, s.Position())
	}
}

// A recipe that could not be had leaves nothing of itself: neither in what the session says at once nor in what it does
// after it has gone back to a checkpoint.
func TestRecipeThatWasStopped(t *testing.T) {
	m := exact(t, nil)
	s, other := session(t, m, llama.SessionOptions{Tokens: 60}), session(t, m, llama.SessionOptions{Tokens: 60})
	prefill(t, s, words(20, 1))
	prefill(t, other, words(20, 1))
	c, err := s.Save(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := s.SetRecipe(&countdown{ctx, 30}, policy.Recipe{Method: "h2o"}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if s.Caps() != nil || s.Room() > 1000 {
		t.Errorf("caps %v, room %d", s.Caps(), s.Room())
	}
	if err := s.Restore(c); err != nil {
		t.Fatal(err)
	}
	prefill(t, s, words(5, 2))
	prefill(t, other, words(5, 2))
	same(t, "full", s, other)
}

// Where answers grow as published, they end at the cap with all that they hold; and a lower cap, for which nothing can
// leave, is refused.
func TestAnswersThatGrowEndAtTheCap(t *testing.T) {
	m := exact(t, nil)
	growing := 0
	for _, r := range evicting(t) {
		if plan(t, r).Decode.Kind != policy.DecodeCap {
			continue
		}
		s := session(t, m, llama.SessionOptions{Recipe: r.Recipe, Tables: anyTables(m), Tokens: 200, Share: 0.5, Parity: true})
		prefill(t, s, words(60, 1))
		for range 2 {
			reason, err := s.Generate(ctx, llama.GenerateOptions{Max: 999, Sampler: sample.New(sample.Params{})}, drop)
			var full *cache.FullError
			if reason != llama.ReasonFull || !errors.As(err, &full) || full.Room != 0 || s.Stored() != full.Stored || s.Room() != 0 {
				t.Errorf("%s: reason %d, %v; %d stored, room %d", r.name, reason, err, s.Stored(), s.Room())
			}
		}
		before, size := held(s), s.Cap()
		var full *cache.FullError
		if err := s.SetCap(ctx, size/2); !errors.As(err, &full) || full.Cap != size/2&^15 || s.Cap() != size {
			t.Errorf("%s: half the cap: %v", r.name, err)
		}
		if err := s.SetCap(ctx, 2*size); err != nil || s.Room() == 0 || !equalSets(before, held(s)) {
			t.Errorf("%s: twice the cap: %v, room %d", r.name, err, s.Room())
		}
		growing++
	}
	if growing < 10 {
		t.Errorf("%d recipes", growing)
	}
	if err := session(t, m, llama.SessionOptions{}).SetCap(ctx, -16); err == nil {
		t.Error("a cap below 0")
	}
}

// A probe's rows are over positions, also where tokens have left: nobody attends to those.
func TestAttentionAfterEvictions(t *testing.T) {
	m := exact(t, nil)
	for _, r := range evicting(t) {
		if plan(t, r).Store.Virtual {
			continue // a compensation token has a share too
		}
		s := small(t, m, r.Recipe)
		talk(t, s, 1)
		before, at := held(s), int32(s.Position())
		layers := 0
		err := s.DecodeProbe(ctx, 7, func(a *llama.At) error {
			if _, ok := a.Op.(step.Attend); !ok {
				return nil
			}
			rows, err := a.Attention(0)
			if err != nil {
				return err
			}
			for q, row := range rows {
				sum, kept := float32(0), append(before[a.Layer][q*m.Config().KVHeads/len(rows)], at)
				for p, share := range row {
					if sum += share; share != 0 && !slices.Contains(kept, int32(p)) {
						t.Errorf("%s: layer %d, head %d attends to %d, which left", r.name, a.Layer, q, p)
					}
				}
				if sum < 0.999 || sum > 1.001 || len(row) != int(at)+1 {
					t.Errorf("%s: layer %d, head %d: %d shares of %v together", r.name, a.Layer, q, len(row), sum)
				}
			}
			layers++
			return nil
		})
		if err != nil || layers != m.Config().Layers {
			t.Errorf("%s: %d layers, %v", r.name, layers, err)
		}
	}
}

// A session that was closed leaves nothing, also where another cap made another plan of its recipe.
func TestClosedAfterAnotherCap(t *testing.T) {
	led := new(cache.Ledger)
	m := load(t, golden.TinyModel(t), newBackend(t, led), led)
	left := func(resized bool) int64 {
		s := capped(t, m, policy.Recipe{Method: "snapkv"})
		prefill(t, s, words(60, 1))
		if resized {
			if err := s.SetCap(ctx, 2*s.Cap()); err != nil {
				t.Fatal(err)
			}
		}
		s.Close()
		return led.Total().Allocated
	}
	left(false)
	if want, got := left(false), left(true); got != want {
		t.Errorf("%d bytes are left, %d without another cap", got, want)
	}
}

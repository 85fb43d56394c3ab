package llama_test

import (
	"context"
	"errors"
	"testing"

	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/sample"
	"kvlens/wasm/step"
)

// undoing are recipes of every kind of state that a turn changes.
func undoing() []policy.Recipe {
	return []policy.Recipe{
		{Method: "snapkv"},
		{Method: "h2o"},
		{Method: "cake"},
		{Method: "tova"},
		{Method: "razor"},
		{Method: "streamingllm"},
		{Method: "window"},
		{Method: "snapkv", Wraps: []policy.Wrap{{Name: "adakv"}}},
	}
}

// A second prompt that is cancelled, wherever, leaves a session that says what one says which never had it.
func TestCancelledPromptAfterEvictions(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	for _, r := range undoing() {
		points := 0
		for stop := 0; ; stop++ {
			s := small(t, m, r)
			talk(t, s, 1)
			generate(t, s, 3)
			stopped, cancel := context.WithCancel(ctx)
			calls := 0
			err := s.Prefill(stopped, words(20, 2), func(done, total int) {
				if calls++; calls > stop {
					cancel()
				}
			})
			cancel()
			if err == nil {
				break
			}
			points++
			if !errors.Is(err, context.Canceled) || s.Position() != 30+5+10+2 || len(s.IDs()) != s.Position() {
				t.Fatalf("%s: cancelled at %d: %v, position %d", r.Method, stop, err, s.Position())
			}
			prefill(t, s, words(9, 5))
			other := small(t, m, r)
			talk(t, other, 1)
			generate(t, other, 3)
			prefill(t, other, words(9, 5))
			same(t, r.Method, s, other)
		}
		if points < m.Config().Layers-1 {
			t.Errorf("%s: cancelled at %d points", r.Method, points)
		}
	}
}

// brokenScorer is a broken exec that runs recipes.
type brokenScorer struct {
	*brokenExec
	step.Scorer
}

// brokenKeeper is one whose device chooses what stays.
type brokenKeeper struct {
	*brokenExec
	step.Keeper
}

type brokenRecipes struct{ *broken }

func (b brokenRecipes) Compile(p *step.Program) (step.Exec, error) {
	e, err := b.broken.Backend.Compile(p)
	if err != nil {
		return nil, err
	}
	if k, ok := e.(step.Keeper); ok {
		return brokenKeeper{&brokenExec{e, b.broken}, k}, nil
	}
	return brokenScorer{&brokenExec{e, b.broken}, e.(step.Scorer)}, nil
}

// An operation that fails, wherever in a prompt or a step, and then one that fails while the conversation is computed
// again: what comes after equals what comes without.
func TestFailedOperationAfterEvictions(t *testing.T) {
	all, stride := undoing(), 5
	if onGPU {
		all, stride = []policy.Recipe{{Method: "h2o"}, {Method: "streamingllm"}}, 37
	}
	b := &broken{}
	m := exact(t, func(inner step.Backend) step.Backend {
		b.Backend = inner
		return brokenRecipes{b}
	})
	for _, r := range all {
		turns := map[string]func(s *llama.Session) error{
			"prefill": func(s *llama.Session) error { return s.Prefill(ctx, words(9, 3), nil) },
			"decode":  func(s *llama.Session) error { return s.Decode(ctx, 7) },
			"generate": func(s *llama.Session) error {
				_, err := s.Generate(ctx, llama.GenerateOptions{Max: 2, Sampler: sample.New(sample.Params{})}, drop)
				return err
			},
		}
		for name, turn := range turns {
			for n := 1; ; n += stride {
				s := small(t, m, r)
				talk(t, s, 1)
				b.left = n
				err := turn(s)
				if err == nil {
					b.left = 0
					break
				}
				b.left = n // and again, while it is repaired
				if e := turn(s); !errors.Is(err, errBroken) || e != nil && !errors.Is(e, errBroken) {
					t.Fatalf("%s: %s, operation %d: %v, then %v", r.Method, name, n, err, e)
				} else if e == nil {
					t.Fatalf("%s: %s: operation %d did not fail twice", r.Method, name, n)
				}
				b.left = 0
				other := small(t, m, r)
				talk(t, other, 1)
				if name == "generate" { // the first token had been chosen before
					generate(t, other, 1)
				}
				if err := errors.Join(turn(s), turn(other)); err != nil {
					t.Fatal(err)
				}
				same(t, r.Method+" "+name, s, other)
			}
		}
	}
}

// Stop is heard between two tokens of an answer; what is there then is not lost.
func TestStoppedAnswer(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	for _, r := range undoing() {
		s, whole := small(t, m, r), small(t, m, r)
		talk(t, s, 1)
		talk(t, whole, 1)
		stopped, cancel := context.WithCancel(ctx)
		n := 0
		reason, err := s.Generate(stopped, llama.GenerateOptions{Max: 9, Sampler: sample.New(sample.Params{})}, func(llama.Token) error {
			if n++; n == 4 {
				cancel()
			}
			return nil
		})
		if reason != llama.ReasonStopped || err != nil || n != 4 {
			t.Errorf("%s: reason %d, %v, %d tokens", r.Method, reason, err, n)
		}
		generate(t, whole, 4)
		same(t, r.Method, s, whole)
	}
}

// A backend that gathers nothing for recipes runs Full, and says so of others.
func TestErrRecipe(t *testing.T) {
	m := exact(t, func(inner step.Backend) step.Backend { return &broken{Backend: inner} })
	for _, r := range recipes() {
		p := plan(t, r)
		s, err := m.NewSession(llama.SessionOptions{Recipe: r.Recipe, Tokens: 40})
		if r.Method == "full" && err == nil {
			s.Close()
			continue
		}
		if !errors.Is(err, llama.ErrRecipe) {
			t.Errorf("%s (%+v): %v", r.name, p.Decode, err)
		}
	}
	s := session(t, m, llama.SessionOptions{Tokens: 40})
	prefill(t, s, words(20, 1))
	before := stateOf(s)
	if err := s.SetRecipe(ctx, policy.Recipe{Method: "h2o"}); !errors.Is(err, llama.ErrRecipe) || !stateOf(s).equal(before) {
		t.Errorf("got %v", err)
	}
}

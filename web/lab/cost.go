package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/step"
)

// costs is what scoring, selecting and storing take under a recipe.
type costs struct {
	Recipe  string  `json:"recipe"`
	Seconds float64 `json:"seconds"`
	Percent float64 `json:"percent"` // of the rest of the same prefill
}

// costTokens is the prompt at which recipes are measured, and costShare what they may keep of it.
const (
	costTokens = 1024
	costShare  = 0.25
)

// costs measures recipes, separated by ';', on a model of their own.
func (s *source) costs(ctx context.Context, in *modelInput, recipes string) ([]costs, error) {
	led := new(cache.Ledger)
	b, err := openBackend(in.Backend, led)
	if err != nil {
		return nil, err
	}
	w := &watch{Backend: b}
	m, err := llama.Load(ctx, s.File, w, llama.Options{Ledger: led})
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	defer func() {
		m.Close()
		_ = b.Close() // nothing is left to be written
	}()
	var out []costs
	ids := anyTokens(costTokens, m.Config().Vocab)
	for _, text := range strings.Split(recipes, ";") {
		r := recipeInput{Recipe: strings.TrimSpace(text)}
		o, err := r.options(s, costTokens)
		if err != nil {
			return nil, err
		}
		if policy.Find(o.Recipe.Method).Stops { // at the cap; and what it looks up tokens by takes room too
			o.Tokens = 2 * costTokens
		} else {
			o.Share = costShare
		}
		session, err := m.NewSession(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Recipe, err)
		}
		selecting, all, err := w.prefill(ctx, session, ids)
		session.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Recipe, err)
		}
		out = append(out, costs{r.Recipe, selecting.Seconds(), 100 * float64(selecting) / float64(all-selecting)})
	}
	return out, nil
}

// watch is a backend on which the time that recipes take is counted.
type watch struct {
	step.Backend
	took  time.Duration
	since time.Time // while a layer's tokens are selected and stored
}

// Compile compiles a program whose runs are watched.
func (w *watch) Compile(p *step.Program) (step.Exec, error) {
	exec, err := w.Backend.Compile(p)
	scorer, ok := exec.(step.Scorer)
	if err != nil || !ok {
		return exec, err
	}
	return &watchedExec{exec, scorer, w, p.Ops}, nil
}

// prefill measures a prompt: what its recipe took, and all of it.
func (w *watch) prefill(ctx context.Context, s *llama.Session, ids []int32) (selecting, all time.Duration, err error) {
	w.took, w.since = 0, time.Time{}
	begin := time.Now()
	err = s.Prefill(ctx, ids, nil)
	return w.took, time.Since(begin), err
}

// watchedExec is an exec whose recipes are watched: what they gather after each chunk, and all that happens from the
// moment at which a layer is there until its tokens are stored.
type watchedExec struct {
	step.Exec
	step.Scorer
	w   *watch
	ops []step.Op
}

// count adds the time since a moment.
func (w *watch) count(since time.Time) { w.took += time.Since(since) }

// Observe counts as a whole.
func (x *watchedExec) Observe(a *step.Args, layer int) error {
	defer x.w.count(time.Now())
	return x.Scorer.Observe(a, layer)
}

// Input begins what counts.
func (x *watchedExec) Input(a *step.Args, layer int) (*policy.Input, error) {
	x.w.since = time.Now()
	return x.Scorer.Input(a, layer)
}

// Run ends it with the first operation that is no Store. Where nothing is selected, Store alone counts.
func (x *watchedExec) Run(ctx context.Context, a *step.Args, from, to int) error {
	selecting := !x.w.since.IsZero()
	if _, store := x.ops[from].(step.Store); store && !selecting {
		defer x.w.count(time.Now())
	} else if !store && selecting {
		x.w.count(x.w.since)
		x.w.since = time.Time{}
	}
	return x.Exec.Run(ctx, a, from, to)
}

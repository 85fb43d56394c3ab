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
	if err != nil {
		return nil, err
	}
	if keeper, ok := exec.(step.Keeper); ok {
		return &watchedKeeper{exec, keeper, w, p.Ops}, nil
	}
	if scorer, ok := exec.(step.Scorer); ok {
		return &watchedExec{exec, scorer, w, p.Ops}, nil
	}
	return exec, nil
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

// watchedKeeper is the same where the device chooses. What it is asked for it does later, so each piece begins when the one
// before is done, and ends when it is done itself; what it takes to hear that nothing is left to do is not counted.
type watchedKeeper struct {
	step.Exec
	step.Keeper
	w   *watch
	ops []step.Op
}

// timed counts a piece of work.
func (x *watchedKeeper) timed(work func() error) error {
	if err := x.idle(); err != nil {
		return err
	}
	begin := time.Now()
	if err := x.idle(); err != nil {
		return err
	}
	asking := time.Since(begin)
	begin = time.Now()
	err := errors.Join(work(), x.idle())
	x.w.took += max(0, time.Since(begin)-asking)
	return err
}

// idle waits for the device.
func (x *watchedKeeper) idle() error {
	return x.w.Read(x.Scratch(step.X), 0, make([]byte, 4))
}

func (x *watchedKeeper) Observe(a *step.Args, layer int) error {
	return x.timed(func() error { return x.Keeper.Observe(a, layer) })
}

func (x *watchedKeeper) Weigh(a *step.Args, layer int) error {
	return x.timed(func() error { return x.Keeper.Weigh(a, layer) })
}

func (x *watchedKeeper) Highest(layer int, c *policy.Contest) (n []int, err error) {
	err = x.timed(func() error {
		n, err = x.Keeper.Highest(layer, c)
		return err
	})
	return n, err
}

func (x *watchedKeeper) Select(a *step.Args, q *policy.LayerQuotas) error {
	return x.timed(func() error { return x.Keeper.Select(a, q) })
}

func (x *watchedKeeper) Keep(a *step.Args, layer int) error {
	return x.timed(func() error { return x.Keeper.Keep(a, layer) })
}

// Run counts Store, which is all there is where nothing is selected.
func (x *watchedKeeper) Run(ctx context.Context, a *step.Args, from, to int) error {
	run := func() error { return x.Exec.Run(ctx, a, from, to) }
	if _, store := x.ops[from].(step.Store); store {
		return x.timed(run)
	}
	return run()
}

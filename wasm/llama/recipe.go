package llama

import (
	"fmt"
	"maps"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/step"
)

// recipe is what a session does about its cap.
type recipe struct {
	policy.Recipe
	plan      *policy.Plan
	published int           // observation window; the plan has the one in use
	budget    policy.Budget // of the arena
	full      bool          // nothing is scored, nothing leaves
	stops     bool          // nothing leaves
}

// follows is the plan that a backend must know; nil is Full.
func (r *recipe) follows() *policy.Plan {
	if r.full {
		return nil
	}
	return r.plan
}

// setRecipe makes a plan of a recipe, or takes one as it is, and the geometry of its cache. The budget, and what
// follows from it, comes with the arena.
func (s *Session) setRecipe(name policy.Recipe, given *policy.Plan) error {
	r := recipe{Recipe: name, plan: given}
	if given == nil {
		if name.Method == "" {
			r.Method = "full"
		}
		p, err := r.Plan()
		if err != nil {
			return err
		}
		r.plan = p
	}
	r.published = r.plan.Score.Window
	r.stops = r.plan.Decode.Kind == policy.DecodeStop
	r.full = r.stops && r.plan.Store == policy.Store{}
	if err := s.m.runs(r.follows()); err != nil {
		return err
	}
	if s.recipe = r; s.opts.Shadow && !s.copies() {
		return ErrCopies
	}
	if s.opts.Explain && !r.stops && !s.m.records() {
		return ErrRecord
	}
	return nil
}

// Runs says, by the error of NewSession, whether the model's backend runs what the options ask for.
func (m *Model) Runs(o SessionOptions) error {
	return (&Session{m: m, opts: o}).setRecipe(o.Recipe, o.Plan)
}

// geometry is that of the recipe's cache, and of a full one; pages are chosen by the cap later.
func (s *Session) geometry() (own, full cache.Geometry) {
	c, o, p := &s.m.cfg, &s.opts, s.recipe.plan
	full = cache.Geometry{
		Layers: c.Layers, KVHeads: c.KVHeads, HeadDim: c.HeadDim,
		Key: cache.F16, Value: cache.F16, PageK: o.PageK, PageV: o.PageV,
	}
	if o.F32 {
		full.Key, full.Value = cache.F32, cache.F32
	}
	own = full
	own.Scores = p.Decode.Kind == policy.DecodeSums || p.Decode.Kind == policy.DecodeCap
	own.Bound = p.Store.Page
	own.Sums = p.Store.Virtual
	return own, full
}

// size is how many bytes the arena has, and chooses the pages.
func (s *Session) size() (size int64) {
	o := &s.opts
	own, full := s.geometry()
	switch {
	case o.Cap > 0:
		size = o.Cap &^ 15
	case o.Budget > 0 && !o.Parity && !s.recipe.stops:
		n := o.Budget + cache.ReserveFor(o.Budget, s.recipe.plan.PerStep())
		own, size = sizeFor(own, n)
		if s.recipe.plan.Ragged() {
			size = own.RaggedBytes(n * own.Layers * own.KVHeads)
		}
	case o.Share > 0:
		size = full.Share(o.Tokens, o.Share)
	case o.Budget > 0: // as long as the answer gets
		own, size = sizeFor(own, o.Tokens)
	default:
		full, size = sizeFor(full, o.Tokens)
		own.PageK, own.PageV = full.PageK, full.PageV
	}
	s.geo = own.WithPages(size)
	return size
}

// sizeFor chooses the pages of a cache for so many tokens, and its size in bytes: the size in narrow pages decides
// whether the cache is a small one.
func sizeFor(geo cache.Geometry, tokens int) (cache.Geometry, int64) {
	narrow := geo
	if narrow.PageK == 0 {
		narrow.PageK = 2
	}
	if narrow.PageV == 0 {
		narrow.PageV = 2
	}
	geo = geo.WithPages(narrow.FullBytes(tokens))
	return geo, geo.FullBytes(tokens)
}

// budgetFor is what an arena of so many bytes allows.
func (s *Session) budgetFor(size int64) (policy.Budget, error) {
	o := &s.opts
	b := s.geo.Budget(size, s.recipe.plan.PerStep(), s.recipe.plan.Ragged())
	out := policy.Budget{Tokens: b.Tokens, Reserve: b.Reserve, Slots: b.Slots, Prompt: o.Tokens, Parity: o.Parity}
	if o.Budget > 0 {
		out.Tokens, out.Reserve, out.Slots = o.Budget, cache.ReserveFor(o.Budget, s.recipe.plan.PerStep()), 0
	}
	if out.Tokens < 1 {
		return out, fmt.Errorf("%w: %d bytes hold no token beside the reserve", ErrSmall, size)
	}
	return out, nil
}

// fit fills in what follows from the size of the arena: the budget, and the observation window, which is at most a
// quarter of it unless the recipe says otherwise. With a window as large as the budget every method that scores by a
// window would be a sliding window.
func (s *Session) fit(size int64) error {
	if s.recipe.stops {
		return nil
	}
	b, err := s.budgetFor(size)
	if err != nil {
		return err
	}
	s.recipe.budget = b
	method := policy.Find(s.recipe.Method)
	if _, given := s.recipe.Knobs["window"]; given || method == nil || s.opts.Parity {
		return nil
	}
	for _, k := range method.Knobs {
		if k.Name != "window" {
			continue
		}
		fitted := s.recipe.Recipe
		fitted.Knobs = maps.Clone(fitted.Knobs)
		if fitted.Knobs == nil {
			fitted.Knobs = map[string]float64{}
		}
		fitted.Knobs[k.Name] = float64(policy.Observation(int(k.Default), b.Tokens))
		s.recipe.plan, err = fitted.Plan()
	}
	return err
}

// begin makes a run of the plan, with nothing behind it.
func (s *Session) begin() (err error) {
	s.run = nil
	defer s.account()
	if s.recipe.stops {
		return nil
	}
	c := &s.m.cfg
	shape := policy.Shape{Layers: c.Layers, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim}
	if s.run, err = policy.NewRun(s.recipe.plan, shape, s.recipe.budget, s.opts.Tables); err == nil {
		s.run.Record(s.recorded)
	}
	return err
}

// loops are the backend's loops of scoring.
func (m *Model) loops() policy.Loops {
	if l, ok := m.exec.(interface{ Loops() policy.Loops }); ok {
		return l.Loops()
	}
	return policy.GoLoops
}

// runs says whether the backend runs a plan; nil is Full.
func (m *Model) runs(p *policy.Plan) error {
	if _, ok := m.exec.(step.Scorer); ok || p == nil {
		return nil
	}
	k := m.keeper()
	if k == nil {
		return ErrRecipe
	}
	if err := k.Runs(p); err != nil {
		return fmt.Errorf("%w: %w", ErrRecipe, err)
	}
	return nil
}

// follow tells the backend whose plan the next runs are of, and which head tables go with it.
func (m *Model) follow(p *policy.Plan, t *policy.Tables) (err error) {
	if m.followed == p {
		return nil
	}
	switch x := m.exec.(type) {
	case step.Scorer:
		err = x.Follow(p)
	case step.Keeper:
		err = x.Follow(p, t)
	}
	if err == nil {
		m.followed = p
	}
	return err
}

// Recipe is the session's recipe.
func (s *Session) Recipe() policy.Recipe { return s.recipe.Recipe }

// Plan is the recipe as stages, every number filled in. It is not to be changed.
func (s *Session) Plan() *policy.Plan { return s.recipe.plan }

// Window is the observation window in use and the published one; 0 where there is none.
func (s *Session) Window() (used, published int) {
	return s.recipe.plan.Score.Window, s.recipe.published
}

// Budget is what the cap allows a list; zero for recipes that drop nothing.
func (s *Session) Budget() policy.Budget { return s.recipe.budget }

// Caps are the tokens that each list may hold, [layers][n_kv_heads]; nil for recipes that drop nothing and before a
// prompt.
func (s *Session) Caps() [][]int {
	if s.run == nil || s.pos == 0 {
		return nil
	}
	return s.run.Caps()
}

// Scores are the last prompt's scores of a list, over what was stored and the prompt's tokens; nil where position alone
// decides.
func (s *Session) Scores(layer, kvHead int) []float32 {
	if s.run == nil || s.pos == 0 || s.run.Scores(layer) == nil {
		return nil
	}
	return s.run.Scores(layer)[kvHead]
}

// Kept are the positions of the tokens that a list holds, ascending. While an answer runs on a device that chooses them, they
// are not known.
func (s *Session) Kept(layer, kvHead int) []int32 {
	return positions(s.cache.List(layer, kvHead))
}

// positions of a list's tokens, ascending.
func positions(l *cache.List) []int32 {
	order := l.Order()
	out := make([]int32, len(order))
	for i, slot := range order {
		out[i] = int32(l.At[slot])
	}
	return out
}

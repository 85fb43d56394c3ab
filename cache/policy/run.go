package policy

import (
	"fmt"
	"slices"
)

// Run is a plan at work on one session. Layers of a prompt come in order; decoded tokens come layer by layer after it.
// A later prompt of the session calls Prompt again.
type Run struct {
	plan   Plan
	shape  Shape
	budget Budget
	tables *Tables

	mask [][]bool // retrieval heads (HeadsMask), [layers][n_kv_heads]

	fits   bool    // the prompt needs no allocation: everything stays
	fixed  [][]int // what the prompt's lists may hold where scores do not matter, [layers][n_kv_heads]
	caps   [][]int // what lists may hold, [layers][n_kv_heads]; nil for layers not reached
	held   [][]int // what they hold
	scores [][][]float32
	pins   []int32 // ascending
	cake   cascade
	prompt prompt

	rec     *record     // nil unless decisions are recorded
	lowered []bool      // layers whose lists have not come down to a lower budget yet; nil without one
	losses  [][]Verdict // of the last step, [n_kv_heads]
	marked  []bool      // scratch
}

// NewRun checks that a plan suits a model, its tables and a budget. A plan that needs tables which t lacks fails with a
// *TablesError.
func NewRun(p *Plan, s Shape, b Budget, t *Tables) (*Run, error) {
	if s.Layers < 1 || s.KVHeads < 1 || s.Heads < 1 || s.Heads%s.KVHeads != 0 || s.HeadDim < 1 {
		return nil, fmt.Errorf("policy: a model of %d layers, %d heads and %d KV heads of %d channels can't be shared out",
			s.Layers, s.Heads, s.KVHeads, s.HeadDim)
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	if err := t.suits(p, s); err != nil {
		return nil, err
	}
	r := &Run{shape: s, tables: t}
	r.follow(p, b)
	r.caps, r.held = make([][]int, s.Layers), make([][]int, s.Layers)
	r.scores = make([][][]float32, s.Layers)
	for l := range r.held {
		r.held[l] = make([]int, s.KVHeads)
	}
	switch h := &p.Heads; {
	case h.Kind == HeadsMask && h.Duo:
		r.mask = t.DuoMask(s, h.Retrieval)
	case h.Kind == HeadsMask:
		r.mask = t.RazorMask(s, h.Retrieval, h.Echo)
	}
	return r, nil
}

// follow sets plan and budget. Where heads are masked, lists under a cap have room for more than sinks.
func (r *Run) follow(p *Plan, b Budget) {
	r.plan, r.budget = *p, b
	if p.Heads.Kind == HeadsMask && !b.Parity {
		r.plan.Protect.Sinks = min(p.Protect.Sinks, max(1, b.Tokens/4))
	}
}

// Prompt begins a prompt of so many new tokens.
func (r *Run) Prompt(tokens int) {
	clear(r.caps)
	clear(r.scores)
	r.rec.prompt()
	r.cake, r.prompt = cascade{}, prompt{fresh: tokens}
	longest := 0
	for _, held := range r.held {
		longest = max(longest, slices.Max(held)+tokens)
	}
	r.fits = r.fitting(longest)
	r.fixed = r.uniform()
	if !r.fits {
		caps := r.lift(r.trim(slices.Concat(r.allocate(longest)...), r.total()))
		r.fixed = slices.Collect(slices.Chunk(caps, r.shape.KVHeads))
	}
}

// Layer decides what stays of the next layer of the prompt, and, where a method shares a budget as it goes, what stays of
// layers before it: indices then count what stayed of them last. The results are valid until the next call.
func (r *Run) Layer(layer int, in *Input, l Loops) ([]Keep, error) {
	if err := r.check(layer, len(in.Candidates)); err != nil {
		return nil, err
	}
	sc, err := r.prompt.score(&r.plan, r.shape, layer, in, r.tables, l)
	if err != nil {
		return nil, err
	}
	r.scores[layer], sc.pins = sc.Heads, r.pins
	quotas, err := r.Quotas(layer, in.sizes(r.plan.Protect.Sinks), &seen{r, layer, sc, in})
	if err != nil {
		return nil, err
	}
	keeps := make([]Keep, len(quotas))
	for i, q := range quotas {
		if q.Layer != layer {
			keeps[i] = r.again(&q)
			continue
		}
		keeps[i] = r.pick(&q, sc, in.Candidates)
		keeps[i].Sums = r.sums(sc, in, keeps[i].Heads)
	}
	if r.plan.Layers.Kind == LayersCake && !r.fits {
		r.cake.remember(sc, in, keeps[len(keeps)-1].Heads)
	}
	return keeps, nil
}

// check says whether a prompt has begun, and a layer with candidates of so many KV heads can follow.
func (r *Run) check(layer, kvHeads int) error {
	if layer < 0 || layer >= r.shape.Layers || kvHeads != r.shape.KVHeads {
		return fmt.Errorf("policy: layer %d with candidates of %d KV heads, in a model of %d layers and %d KV heads",
			layer, kvHeads, r.shape.Layers, r.shape.KVHeads)
	}
	if r.fixed == nil {
		return fmt.Errorf("policy: layer %d without a prompt", layer)
	}
	return nil
}

// pick chooses as many candidates as quotas say.
func (r *Run) pick(q *LayerQuotas, sc *scored, from []Candidates) Keep {
	keep := Keep{Layer: q.Layer, Heads: make([][]int32, len(from))}
	for h := range from {
		keep.Heads[h] = pick(&r.plan, sc, h, &from[h], q.Lists[h].Limit)
	}
	r.noteSelection(q, sc, from, keep.Heads)
	return keep
}

// room is how many candidates of a layer's lists may stay: what the lists may hold, less what the arena lacks while later
// layers still hold what an earlier prompt's budgets gave them. Those are read by the prompt before they may shrink, so a
// layer whose budget grew begins with less, and the answer fills it.
func (r *Run) room(layer int, sz *Sizes) []int {
	counts, sum := make([]int, r.shape.KVHeads), 0
	for h, n := range sz.Candidates {
		counts[h] = n
		all := r.plan.Decode.Kind == DecodeStop || r.budget.Parity && (r.fits || layer < r.plan.Score.SkipLayers)
		if !all {
			counts[h] = min(counts[h], r.caps[layer][h])
		}
		sum += counts[h]
	}
	if r.plan.Decode.Kind == DecodeStop || r.budget.Parity {
		return counts
	}
	free := r.slots()
	for l, held := range r.held {
		for _, n := range held {
			if l != layer {
				free -= n
			}
		}
	}
	give := func(h int) {
		counts[h]--
		sum--
	}
	for sum > free && slices.Max(counts) > 1 { // the longest list gives first
		longest := slices.Index(counts, slices.Max(counts))
		if !r.oneSet() {
			give(longest)
			continue
		}
		for h, most := 0, counts[longest]; h < len(counts); h++ { // lists of one set give together
			if counts[h] == most {
				give(h)
			}
		}
	}
	return counts
}

// Caps are the tokens that each list may hold after the prompt, [layers][n_kv_heads]; layers not reached yet have nil.
func (r *Run) Caps() [][]int { return r.caps }

// Scores are the last prompt's scores of a layer by KV head, over its candidates: for looking at, nil where position
// alone decides.
func (r *Run) Scores(layer int) [][]float32 { return r.scores[layer] }

// lists is how many lists the model has.
func (r *Run) lists() int { return r.shape.Layers * r.shape.KVHeads }

// slots is how many slots all lists have together.
func (r *Run) slots() int { return max(r.budget.Slots, r.lists()*(r.budget.Tokens+r.budget.Reserve)) }

// total is how many tokens all lists may hold together.
func (r *Run) total() int { return r.slots() - r.lists()*r.budget.Reserve }

// fitting says that prompts of so many candidates need no allocation.
func (r *Run) fitting(candidates int) bool {
	b := r.budget.Tokens
	if r.plan.Heads.Kind == HeadsMask {
		candidates = max(candidates, r.budget.Prompt)
	}
	if !r.budget.Parity {
		return candidates <= b
	}
	switch { // as published
	case r.plan.Layers.Kind == LayersCake:
		return candidates <= b+r.plan.Score.Window
	case r.plan.Layers.Kind == LayersError, r.plan.Heads.Kind == HeadsMask:
		return false // each list has its own
	}
	return candidates < b
}

// uniform is the same budget for every list.
func (r *Run) uniform() [][]int {
	layers := make([]int, r.shape.Layers)
	for i := range layers {
		layers[i] = r.budget.Tokens
	}
	return r.spread(layers)
}

// spread gives all KV heads of a layer its budget.
func (r *Run) spread(layers []int) [][]int {
	caps := make([][]int, len(layers))
	for l, n := range layers {
		caps[l] = slices.Repeat([]int{n}, r.shape.KVHeads)
	}
	return caps
}

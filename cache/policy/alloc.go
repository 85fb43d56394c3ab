package policy

import (
	"slices"

	"kvlens/cache/policy/stage"
)

// allocate is what lists may hold where scores do not matter, [layers][n_kv_heads], for a prompt of so many candidates.
func (r *Run) allocate(candidates int) [][]int {
	switch r.plan.Heads.Kind {
	case HeadsMask:
		return r.masked(candidates)
	case HeadsImportance:
		return r.important(candidates)
	}
	caps := r.spread(r.lift(r.layers(candidates)))
	r.odd(caps)
	return caps
}

// odd gives the first layer what is less than a token for each KV head of a layer, unless they must be alike.
func (r *Run) odd(caps [][]int) {
	if r.ragged() && !r.oneSet() {
		for h := range r.total() % r.shape.KVHeads {
			caps[0][h]++
		}
	}
}

// ragged says that lists may differ in length, so that the slots of all of them are shared out.
func (r *Run) ragged() bool { return r.plan.Ragged() }

// Ragged says that a plan's lists may have budgets of their own, so that the arena's slots are shared out among all.
func (p *Plan) Ragged() bool { return p.Layers.Kind != LayersUniform || p.Heads.Kind != HeadsUniform }

// PerStep says that a token leaves with every token that comes, so that lists need no more than one slot in reserve.
func (p *Plan) PerStep() bool {
	return p.Decode.Kind == DecodeOldest || p.Decode.Kind == DecodeSums || p.Decode.Kind == DecodeRow
}

// protects is how many tokens of a list with room for limit never leave.
func (r *Run) protects(limit int) int {
	return min(limit, r.plan.Protect.Sinks+r.plan.Protect.recent(limit)+r.beside())
}

// layers are the budgets of layers, in tokens of one list, protected ones among them.
func (r *Run) layers(candidates int) []int {
	l, b, n := &r.plan.Layers, r.budget.Tokens, r.shape.Layers
	if r.ragged() {
		b = r.total() / r.lists()
	}
	total := b * n
	if r.ragged() {
		total = r.total() / r.shape.KVHeads
	}
	guard := r.protects(b)
	if b <= guard { // nothing but what is protected: recency
		return stage.Even(total, n)
	}
	reference := l.Reference || r.budget.Parity
	switch {
	case l.Kind == LayersPyramid && l.KVPress:
		return stage.PyramidKVPress(float64(b), guard, l.Beta, n, candidates)
	case l.Kind == LayersPyramid && reference:
		return stage.PyramidReference(b, guard, int(l.Beta), n, candidates)
	case l.Kind == LayersPyramid:
		return plus(stage.Pyramid(total-guard*n, n, candidates, guard, l.Beta), guard)
	case l.Kind == LayersError:
		floor := l.Floor
		if floor > b {
			floor = min(b, guard+1)
		}
		ceiling := max(floor, total*l.Ceiling/n)
		return stage.ErrorAware(floats(r.tables.Errors), total, floor, ceiling, l.Argmax)
	}
	return stage.Even(total, n)
}

// important are the budgets of all lists by the importance of their heads, none above the prompt and its answer.
func (r *Run) important(candidates int) [][]int {
	h, b := &r.plan.Heads, r.total()/r.lists()
	guard := r.protects(b)
	var budgets []int
	switch {
	case b <= guard:
		budgets = stage.Even(r.total(), r.lists())
	case h.Reference || r.budget.Parity:
		group := r.shape.Heads / r.shape.KVHeads
		queries := stage.ImportanceReference(flat(r.tables.Retrieval), b-guard, h.Beta, 1)
		for i := 0; i < len(queries); i += group {
			budgets = append(budgets, guard+stage.RoundedMean(queries[i:i+group]))
		}
	default:
		most := max(candidates, r.budget.Prompt) - guard
		budgets = plus(stage.Importance(r.tables.Importance(r.shape), r.total()-guard*r.lists(), h.Beta, most), guard)
	}
	return slices.Collect(slices.Chunk(budgets, r.shape.KVHeads))
}

// masked are the budgets where heads are masked: retrieval heads get room for the prompt and its answer, the others share
// the rest, at most their window; what is left after that goes to the retrieval heads. Where the room does not suffice,
// the others have a quarter of an equal share, or their sinks and one token, before retrieval heads share what is left. In
// parity all have what is published: everything, or the window.
func (r *Run) masked(candidates int) [][]int {
	h := &r.plan.Heads
	length := max(candidates, r.budget.Prompt)
	retrieval := 0
	for _, layer := range r.mask {
		for _, is := range layer {
			if is {
				retrieval++
			}
		}
	}
	others, b := r.lists()-retrieval, r.total()/r.lists()
	least := min(b, max(b/4, r.plan.Protect.Sinks+1)+r.beside())
	most := r.plan.Protect.Sinks + r.beside() + max(h.Local, int(h.LocalPart*float64(length)))
	forOthers := 0
	switch {
	case retrieval == 0:
		forOthers = r.total()
	case others > 0:
		forOthers = min(max(r.total()-retrieval*length, least*others), max(most, least)*others)
	}
	forRetrieval := r.total() - forOthers
	if r.budget.Parity {
		forRetrieval, forOthers = length*retrieval, most*others
	}
	wide := stage.Even(forRetrieval, max(1, retrieval))
	narrow := stage.Even(forOthers, max(1, others))
	caps := make([][]int, r.shape.Layers)
	for l, layer := range r.mask {
		for _, is := range layer {
			from := &narrow
			if is {
				from = &wide
			}
			caps[l] = append(caps[l], (*from)[0])
			*from = (*from)[1:]
		}
	}
	return caps
}

// adapt shares a layer's budget among its KV heads by their scores.
func (r *Run) adapt(layer int, sz *Sizes, st Statistics) ([]int, error) {
	a, caps := &r.plan.Heads, r.caps[layer]
	if r.scoreless(layer) {
		return caps, nil
	}
	c := Contest{Guards: make([]Quota, len(caps))}
	has, guards := make([]int, len(caps)), make([]int, len(caps)) // what may be chosen, and what is already
	total := 0
	for h, n := range sz.Candidates {
		c.Guards[h] = r.quota(layer, n, sz.Sinks[h], caps[h])
		if guards[h] = r.guarded(layer, h, n, &c.Guards[h], st); a.KVPress { // there what is protected competes
			guards[h] = 0
		}
		has[h] = n - guards[h]
		total += caps[h] - guards[h]
	}
	if total <= 0 {
		return caps, nil
	}
	reference := a.Reference || r.budget.Parity
	c.Contest = stage.NewContest(total, len(caps), a.Alpha, a.Normalise, reference, a.KVPress)
	n, err := st.Highest(layer, &c)
	if err != nil {
		return nil, err
	}
	switch {
	case a.KVPress:
	case reference:
		n = stage.AdaptiveReference(n, c.Each, a.Alpha)
	default:
		n = stage.Adaptive(n, has, total, a.Alpha)
	}
	n = r.trim(n, total)
	for h := range n {
		if n[h]+guards[h] == 0 { // published integers, with nothing that protects a token
			n = rescale(n, max(sum(n), len(n)), 1)
		}
	}
	spare := make([]int, len(n)) // beyond all candidates: for the answer
	if !r.budget.Parity {
		spare = stage.Even(max(0, total-sum(n)), len(n))
	}
	for h := range n {
		n[h] += guards[h] + spare[h]
	}
	return r.lift(n), nil
}

func sum(n []int) (s int) {
	for _, x := range n {
		s += x
	}
	return s
}

// trim takes in proportion what published roundings give beyond a total, unless parity with them is asked for.
func (r *Run) trim(n []int, total int) []int {
	if sum(n) <= total || r.budget.Parity {
		return n
	}
	return rescale(n, total, 1)
}

// plus adds the same to all.
func plus(n []int, what int) []int {
	for i := range n {
		n[i] += what
	}
	return n
}

func floats(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func flat(rows [][]float32) []float64 {
	var out []float64
	for _, row := range rows {
		out = append(out, floats(row)...)
	}
	return out
}

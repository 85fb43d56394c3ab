package policy

import (
	"slices"

	"kvlens/cache/policy/stage"
)

// cascade is what CAKE remembers of a prompt's layers while it shares the budget among them.
type cascade struct {
	preference []float64
	sizes      []Sizes // of what stayed
	layers     []cakeLayer
}

// cakeLayer is what stayed of a layer, where the run sees scores.
type cakeLayer struct {
	heads  [][]float32  // indicators [n_kv_heads][tokens]
	tokens []Candidates // without K and V
}

// cascade shares the budget among the layers so far and says how much stays of those before layer that shrink.
func (r *Run) cascade(layer int, sz *Sizes, st Statistics) (out []LayerQuotas, err error) {
	l := &r.plan.Layers
	entropy, variance, err := st.Unrest(layer)
	if err != nil {
		return nil, err
	}
	r.cake.preference = append(r.cake.preference, stage.Preference(entropy, variance, l.Tau1, l.Tau2))
	longest := slices.Max(sz.Candidates)
	total := r.total() / r.shape.KVHeads
	guard := r.protects(r.total() / r.lists())
	share := stage.Cake
	if l.Reference || r.budget.Parity {
		share = stage.CakeReference
	}
	budgets := r.lift(plus(share(r.cake.preference, total-guard*r.shape.Layers, longest-guard), guard))
	all := r.spread(budgets)
	r.odd(all)
	for i, caps := range all {
		r.caps[i] = caps
		if i == layer {
			break
		}
		q, shrunk, err := r.shrink(i, st)
		if err != nil {
			return nil, err
		}
		if shrunk {
			out = append(out, q)
		}
	}
	return out, nil
}

// shrink says how much stays of an earlier layer under its present budget.
func (r *Run) shrink(layer int, st Statistics) (q LayerQuotas, shrunk bool, err error) {
	sz := &r.cake.sizes[layer]
	if r.plan.Heads.Kind == HeadsAdaptive {
		if r.caps[layer], err = r.adapt(layer, sz, st); err != nil {
			return q, false, err
		}
	}
	q = r.quotas(layer, sz, r.caps[layer])
	for h, list := range q.Lists {
		shrunk = shrunk || list.Limit < sz.Candidates[h]
		r.held[layer][h] = list.Limit
	}
	*sz = r.after(sz, q.Lists)
	return q, shrunk, nil
}

// again says what stays of an earlier layer.
func (r *Run) again(q *LayerQuotas) Keep {
	old := &r.cake.layers[q.Layer]
	keep := r.pick(q, &scored{Heads: old.heads, pins: r.pins, cascade: true}, old.tokens)
	old.keep(old.heads, old.tokens, keep.Heads)
	return keep
}

// remember notes what stayed of a layer.
func (c *cascade) remember(sc *scored, in *Input, keep [][]int32) {
	var layer cakeLayer
	layer.keep(sc.Heads, in.Candidates, keep)
	c.layers = append(c.layers, layer)
}

// keep takes what stays of candidates and their indicators.
func (l *cakeLayer) keep(heads [][]float32, from []Candidates, keep [][]int32) {
	indicators, tokens := make([][]float32, len(keep)), make([]Candidates, len(keep))
	for h, kept := range keep {
		for _, i := range kept {
			indicators[h] = append(indicators[h], heads[h][i])
			tokens[h].Pos = append(tokens[h].Pos, from[h].Pos[i])
			if from[h].OutL1 != nil {
				tokens[h].OutL1 = append(tokens[h].OutL1, from[h].OutL1[i])
			}
		}
	}
	l.heads, l.tokens = indicators, tokens
}

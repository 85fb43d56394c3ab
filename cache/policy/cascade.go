package policy

import "kvlens/cache/policy/stage"

// cascade is what CAKE remembers of a prompt's layers while it shares the budget among them.
type cascade struct {
	preference []float64
	layers     []cakeLayer
}

// cakeLayer is what stayed of a layer.
type cakeLayer struct {
	heads  [][]float32  // indicators [n_kv_heads][tokens]
	tokens []Candidates // without K and V
}

// cascade shares the budget among the layers so far and says what stays of those before layer that shrink.
func (r *Run) cascade(layer int, sc *scored, in *Input) []Keep {
	l := &r.plan.Layers
	r.cake.preference = append(r.cake.preference, stage.Preference(sc.Entropy, sc.Variance, l.Tau1, l.Tau2))
	longest := 0
	for _, c := range in.Candidates {
		longest = max(longest, len(c.Pos))
	}
	total := r.total() / r.shape.KVHeads
	guard := r.protects(r.total() / r.lists())
	share := stage.Cake
	if l.Reference || r.budget.Parity {
		share = stage.CakeReference
	}
	budgets := plus(share(r.cake.preference, total-guard*r.shape.Layers, longest-guard), guard)
	var keeps []Keep
	all := r.spread(budgets)
	r.odd(all)
	for i, caps := range all {
		r.caps[i] = caps
		if i == layer {
			break
		}
		if keep, shrunk := r.again(i); shrunk {
			keeps = append(keeps, keep)
		}
	}
	return keeps
}

// again says what stays of an earlier layer under its present budget.
func (r *Run) again(layer int) (keep Keep, shrunk bool) {
	old := &r.cake.layers[layer]
	sc := &scored{Heads: old.heads}
	if r.plan.Heads.Kind == HeadsAdaptive {
		r.caps[layer] = r.adapt(layer, sc, &Input{Candidates: old.tokens})
	}
	keep = Keep{Layer: layer, Heads: make([][]int32, len(old.tokens))}
	for h := range old.tokens {
		keep.Heads[h] = pick(&r.plan, sc, h, &old.tokens[h], r.caps[layer][h])
		shrunk = shrunk || len(keep.Heads[h]) < len(old.tokens[h].Pos)
		r.held[layer][h] = len(keep.Heads[h])
	}
	if shrunk {
		old.keep(old.heads, old.tokens, keep.Heads)
	}
	return keep, shrunk
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

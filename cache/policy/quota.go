package policy

import (
	"math"
	"slices"

	"kvlens/cache/policy/stage"
)

// A backend that chooses tokens by itself needs of a run only how many: these are the numbers of [Run.Quotas]. They follow
// from budgets and lengths, and where a method shares its budget by scores, from a few numbers of those.

// Sizes is how many candidates each KV head of a layer has, and how many of them are sinks: positions below
// [Run.Sinks].
type Sizes struct{ Candidates, Sinks []int }

// Quota is what stays of a list's candidates: Limit of them, so many of the oldest and the newest among them
// ([stage.Guard]), and with SelectCritical Lead more by score alone.
type Quota struct{ Limit, Oldest, Newest, Lead int }

// LayerQuotas are the quotas of one layer, [n_kv_heads].
type LayerQuotas struct {
	Layer int
	Lists []Quota
}

// Contest is how the KV heads of a layer compete for its room (HeadsAdaptive). Guards say what never leaves of each: it
// takes no part, but under Heads.KVPress, where it has the highest scores.
type Contest struct {
	Guards []Quota
	stage.Contest
}

// Statistics is what budgets may depend on, of scores that the run need not see.
type Statistics interface {
	// Unrest gives the entropy and the variance of the layer's window (LayersCake).
	Unrest(layer int) (entropy, variance float64, err error)
	// Highest is how many of a layer's highest scores each KV head has: of the layer at work, or of what stayed of one
	// before it.
	Highest(layer int, c *Contest) ([]int, error)
}

// Quotas says how much stays of the next layer of the prompt, which comes last, and, where a method shares a budget as
// it goes, of layers before it that shrink.
func (r *Run) Quotas(layer int, sz *Sizes, st Statistics) (out []LayerQuotas, err error) {
	if err := r.check(layer, min(len(sz.Candidates), len(sz.Sinks))); err != nil {
		return nil, err
	}
	cake := r.plan.Layers.Kind == LayersCake && !r.fits
	r.caps[layer] = r.fixed[layer]
	if cake {
		if out, err = r.cascade(layer, sz, st); err != nil {
			return nil, err
		}
	}
	if r.plan.Heads.Kind == HeadsAdaptive && !r.fits {
		if r.caps[layer], err = r.adapt(layer, sz, st); err != nil {
			return nil, err
		}
	}
	own := r.quotas(layer, sz, r.room(layer, sz))
	for h, q := range own.Lists {
		r.held[layer][h] = q.Limit
	}
	if cake {
		r.cake.sizes = append(r.cake.sizes, r.after(sz, own.Lists))
	}
	return append(out, own), nil
}

// quotas are those of a layer whose lists may have so many tokens.
func (r *Run) quotas(layer int, sz *Sizes, counts []int) LayerQuotas {
	out := LayerQuotas{layer, make([]Quota, len(counts))}
	for h, limit := range counts {
		out.Lists[h] = r.quota(layer, sz.Candidates[h], sz.Sinks[h], limit)
		out.Lists[h].Limit = min(limit, sz.Candidates[h])
	}
	return out
}

// quota protects some of n candidates, limit of which may stay.
func (r *Run) quota(layer, n, sinks, limit int) Quota {
	q := Quota{Limit: limit}
	recent := r.plan.Protect.recent(limit)
	if r.scoreless(layer) {
		recent = limit // position alone decides: the newest
	}
	q.Oldest, q.Newest = stage.Guard(n, sinks, recent, limit)
	if r.plan.Select.Kind == SelectCritical {
		q.Lead = max(0, int(r.plan.Select.First*float64(limit))-q.guarded(n))
	}
	return q
}

// Sinks is how many of the first positions never leave: fewer than the plan has where a cap has little room.
func (r *Run) Sinks() int { return r.plan.Protect.Sinks }

// guarded is how many of n candidates never leave.
func (q *Quota) guarded(n int) int { return min(n, q.Oldest+q.Newest) }

// scoreless says that position alone decides in a layer.
func (r *Run) scoreless(layer int) bool {
	return r.plan.Score.Kind == ScoreNone || layer < r.plan.Score.SkipLayers
}

// after is the sizes of what quotas let stay. A sink leaves only where there is no room for all that should not.
func (r *Run) after(sz *Sizes, lists []Quota) Sizes {
	out := Sizes{make([]int, len(lists)), make([]int, len(lists))}
	for h, q := range lists {
		n, sinks := sz.Candidates[h], sz.Sinks[h]
		out.Candidates[h], out.Sinks[h] = q.Limit, sinks
		if q.Limit < n && q.Oldest < sinks {
			out.Sinks[h] = q.Oldest + max(0, sinks-(n-q.Newest))
		}
	}
	return out
}

// Rule is what the decode rule does to a list, of whose tokens some are sinks: when it has full tokens, some leave, so that
// Limit stay.
func (r *Run) Rule(layer, kvHead, sinks int) (q Quota, full int) {
	if r.caps[layer] == nil { // no prompt came before
		r.caps[layer] = r.uniform()[layer]
	}
	limit, rule := r.caps[layer][kvHead], r.rule(layer, kvHead)
	q.Limit, full = limit, r.full(rule, limit)
	recent := r.recent(limit)
	if rule == DecodeOldest {
		recent = limit
	}
	q.Oldest, q.Newest = stage.Guard(limit+1, sinks, recent, limit)
	return q, full
}

// full is how many tokens a list has when some leave under a decode rule.
func (r *Run) full(rule DecodeKind, limit int) int {
	switch rule {
	case DecodeStop:
		return math.MaxInt32
	case DecodeCap:
		return limit + max(1, r.budget.Reserve)
	}
	return limit + 1
}

// recent is how many of the newest of limit tokens never leave while decoding.
func (r *Run) recent(limit int) int {
	if r.plan.Decode.Kind == DecodeRow {
		return max(r.plan.Protect.recent(limit), r.plan.Decode.Recent)
	}
	return r.plan.Protect.recent(limit)
}

// Hold says how many tokens the lists of a layer hold after a decoded token.
func (r *Run) Hold(layer int, tokens []int) {
	copy(r.held[layer], tokens)
	r.come(layer)
}

// Most is the most tokens that any list can hold after the prompt of [Run.Prompt], before its layers are decided.
func (r *Run) Most() int {
	most := 0
	for l, caps := range r.fixed {
		layer := slices.Max(caps)
		switch {
		case r.fits:
		case r.plan.Layers.Kind == LayersCake: // the first layer has it all
			layer = r.total()
		case r.plan.Heads.Kind == HeadsAdaptive:
			layer = sum(caps)
		}
		if r.budget.Parity && (r.fits || l < r.plan.Score.SkipLayers) {
			layer = math.MaxInt32
		}
		most = max(most, layer)
	}
	return most
}

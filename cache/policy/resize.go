package policy

import (
	"fmt"
	"slices"

	"kvlens/cache/policy/stage"
)

// Resize sets another budget between two turns. Lists keep their shares of it; what they hold beyond them leaves with the
// next [Run.Step] of their layer, which needs no decoded token for that. The plan is that of the run but for the size of
// its window.
func (r *Run) Resize(p *Plan, b Budget) error {
	if err := b.check(); err != nil {
		return err
	}
	old := slices.Concat(r.caps...)
	r.follow(p, b)
	switch {
	case len(old) < r.lists(): // no prompt yet
		clear(r.caps)
	case !r.ragged():
		r.caps = r.uniform()
	case r.plan.Heads.Kind == HeadsUniform: // a layer's lists are alike
		layers := make([]int, r.shape.Layers)
		for l, caps := range r.caps {
			layers[l] = slices.Min(caps)
		}
		r.caps = r.spread(rescale(layers, r.total()/r.shape.KVHeads))
		r.odd(r.caps)
	default:
		r.caps = slices.Collect(slices.Chunk(rescale(old, r.total()), r.shape.KVHeads))
	}
	return nil
}

// rescale shares a total as n was shared, at least one each where it suffices.
func rescale(n []int, total int) []int {
	all := sum(n)
	shares := make([]float64, len(n))
	for i, x := range n {
		shares[i] = float64(x) * float64(total) / float64(all)
	}
	return stage.Apportion(shares, total, min(1, total/len(n)), nil)
}

// Clone is a run at the same point, for another answer from the same cache.
func (r *Run) Clone() *Run {
	c := *r
	c.caps, c.held = clone(r.caps), clone(r.held)
	c.scores = slices.Clone(r.scores)
	c.cake = cascade{} // of a prompt that has ended
	return &c
}

func clone(rows [][]int) [][]int {
	out := make([][]int, len(rows))
	for i, row := range rows {
		out[i] = slices.Clone(row)
	}
	return out
}

func (b *Budget) check() error {
	if b.Tokens < 1 || b.Reserve < 0 || b.Slots < 0 {
		return fmt.Errorf("policy: a budget of %d tokens, %d in reserve and %d slots holds nothing", b.Tokens, b.Reserve, b.Slots)
	}
	return nil
}

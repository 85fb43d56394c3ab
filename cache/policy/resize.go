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
	next := *r
	next.follow(p, b)
	if err := next.holdsPins(); err != nil {
		return err
	}
	r.lower(next.total() < r.total())
	r.follow(p, b)
	if old := slices.Concat(r.caps...); len(old) == r.lists() {
		r.reshare(old)
	} else { // no prompt yet
		clear(r.caps)
	}
	return nil
}

// reshare shares the budget among lists as it was shared.
func (r *Run) reshare(old []int) {
	switch {
	case !r.ragged():
		r.caps = r.uniform()
	case r.plan.Heads.Kind == HeadsUniform: // a layer's lists are alike
		layers := make([]int, r.shape.Layers)
		for l, caps := range r.caps {
			layers[l] = slices.Min(caps)
		}
		r.caps = r.spread(r.lift(rescale(layers, r.total()/r.shape.KVHeads, 1)))
		r.odd(r.caps)
	default:
		r.caps = slices.Collect(slices.Chunk(r.lift(rescale(old, r.total(), 1)), r.shape.KVHeads))
	}
}

// rescale shares a total as n was shared, at least so many each where it suffices.
func rescale(n []int, total, least int) []int {
	all := sum(n)
	shares := make([]float64, len(n))
	for i, x := range n {
		shares[i] = float64(x) * float64(total) / float64(all)
	}
	return stage.Apportion(shares, total, min(least, total/len(n)), nil)
}

// Clone is a run at the same point, for another answer from the same cache.
func (r *Run) Clone() *Run {
	c := *r
	c.caps, c.held = clone(r.caps), clone(r.held)
	c.scores = slices.Clone(r.scores)
	c.cake = cascade{} // of a prompt that has ended
	c.rec, c.lowered, c.losses, c.marked = r.rec.clone(), slices.Clone(r.lowered), nil, nil
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

package policy

import (
	"math"

	"kvlens/cache/policy/stage"
)

// Losses tell why the tokens left that the last [Run.Step] let go of a list, in their order. Valid until the next.
func (r *Run) Losses(kvHead int) []Verdict {
	if kvHead >= len(r.losses) {
		return nil
	}
	return r.losses[kvHead]
}

// arrive begins a step: nothing has left, and the newest token of every list is in the record.
func (r *Run) arrive(layer int, in *StepInput) {
	if r.losses == nil {
		r.losses = make([][]Verdict, r.shape.KVHeads)
	}
	for h, pos := range in.Pos {
		r.losses[h] = r.losses[h][:0]
		if r.rec != nil && !r.rec.over && len(pos) > 0 {
			r.list(layer, h, pos[len(pos)-1])
			r.bound()
		}
	}
}

// lose notes why tokens leave a list so that limit stay: what they are worth is compared with what those are worth that
// stay without protection.
func (r *Run) lose(layer, h int, pos, leave []int32, worth []float32, limit int, d Decision) {
	v := Unscored(d, int(pos[len(pos)-1])+1)
	var ranks []uint32
	if worth != nil {
		v.Rank, v.Threshold, ranks = r.weigh(pos, leave, worth, limit)
	}
	for _, at := range leave {
		if worth != nil {
			v.Score = worth[at]
		}
		if ranks != nil {
			v.Rank = ranks[at]
		}
		r.losses[h] = append(r.losses[h], v)
		if r.rec != nil && !r.rec.over {
			list := r.list(layer, h, pos[len(pos)-1])
			v.At = uint32(r.rec.tokens)
			list[pos[at]] = v
		}
	}
}

// weigh gives the rank of the one token that leaves, or the ranks of all, and the least that stays.
func (r *Run) weigh(pos, leave []int32, worth []float32, limit int) (rank uint32, least float32, ranks []uint32) {
	if cap(r.marked) < len(pos) {
		r.marked = make([]bool, len(pos)+len(pos)/4)
	}
	marked := r.marked[:len(pos)]
	clear(marked)
	guarded := stage.Pinned(marked, pos, r.pins, r.plan.Protect.Sinks, r.recent(limit), limit)
	least, next, found := float32(math.NaN()), 0, false
	for i, w := range worth {
		switch {
		case next < len(leave) && int(leave[next]) == i:
			next++
		case !marked[i] && (!found || w < least || w != w):
			least, found = w, true
		}
	}
	if len(leave) == 1 {
		return uint32(len(pos) - guarded), least, nil
	}
	for i := range marked {
		marked[i] = true
	}
	for _, at := range leave {
		marked[at] = false
	}
	ranks = make([]uint32, len(pos))
	stage.Ranks(ranks, marked, worth, limit-guarded)
	return 0, least, ranks
}

// lower notes that lists come down to a lower budget with their next step.
func (r *Run) lower(is bool) {
	if is {
		r.lowered = make([]bool, r.shape.Layers)
		for l := range r.lowered {
			r.lowered[l] = true
		}
	}
}

// come notes that the lists of a layer have come down.
func (r *Run) come(layer int) {
	if r.lowered != nil {
		r.lowered[layer] = false
	}
}

// Rules is the decision that lets tokens of a list go in an answer.
func (r *Run) Rules(layer, kvHead int) Decision { return r.ruled(layer, r.rule(layer, kvHead)) }

// ruled says which decision a step of a layer takes by a rule.
func (r *Run) ruled(layer int, rule DecodeKind) Decision {
	switch {
	case r.lowered != nil && r.lowered[layer]:
		return DecidedCap
	case rule == DecodeCap:
		return DecidedCapRule
	}
	return DecidedRule
}

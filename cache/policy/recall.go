package policy

// Recall makes room in a layer's lists for tokens that come back, where comes says so: in a list that would be full with
// one more, the token leaves that the decode rule would let go first. It gives indices into in.Pos by KV head, and counts
// what comes.
func (r *Run) Recall(layer int, in *StepInput, comes []bool) [][]int32 {
	leave := make([][]int32, len(in.Pos))
	caps := r.caps[layer]
	if caps == nil {
		caps = r.uniform()[layer]
	}
	r.arrive(layer, in)
	for h, pos := range in.Pos {
		if r.held[layer][h] = len(pos); !comes[h] {
			continue
		}
		if rule := r.rule(layer, h); len(pos)+1 < r.full(rule, caps[h]) {
			r.held[layer][h]++
		} else {
			worth := r.worth(in, rule)[h]
			leave[h] = r.leave(pos, worth, len(pos)-1)
			r.lose(layer, h, pos, leave[h], worth, len(pos)-1, r.ruled(layer, rule))
		}
	}
	return leave
}

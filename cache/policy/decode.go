package policy

import (
	"slices"

	"kvlens/cache/policy/stage"
)

// Step decides which tokens leave a layer's lists after a decoded token was stored: indices, ascending, by KV head. A
// list that is far beyond what it may hold, as after [Run.Resize], comes back to it at once.
func (r *Run) Step(layer int, in *StepInput) [][]int32 {
	leave := make([][]int32, len(in.Pos))
	caps := r.caps[layer]
	if caps == nil { // no prompt came before
		caps = r.uniform()[layer]
		r.caps[layer] = caps
	}
	r.arrive(layer, in)
	var worth [][]float32
	var by DecodeKind // the rule that worth is of: where heads are masked, a layer's lists differ
	for h, pos := range in.Pos {
		n := len(pos)
		r.held[layer][h] = n
		rule := r.rule(layer, h)
		if n < r.full(rule, caps[h]) {
			continue
		}
		if worth == nil || by != rule {
			worth, by = r.worth(in, rule), rule
		}
		leave[h] = r.leave(pos, worth[h], caps[h])
		r.lose(layer, h, pos, leave[h], worth[h], caps[h], r.ruled(layer, rule))
		r.held[layer][h] -= len(leave[h])
	}
	r.come(layer)
	return leave
}

// rule is the decode rule of a list: where heads are masked, those that are not retrieval heads have a window.
func (r *Run) rule(layer, kvHead int) DecodeKind {
	switch kind := r.plan.Decode.Kind; {
	case kind == DecodeStop:
		return kind
	case r.plan.Heads.Kind == HeadsMask && !r.mask[layer][kvHead]:
		return DecodeOldest
	case kind == DecodeCap && r.budget.Parity:
		return DecodeStop // as published: answers grow
	default:
		return kind
	}
}

// leave lists the tokens of a list at pos that leave so that limit stay: those worth least of the tokens that are not
// protected, of equals the newer one; without worth the oldest.
func (r *Run) leave(pos []int32, worth []float32, limit int) []int32 {
	marked := make([]bool, len(pos))
	recent := r.recent(limit)
	if worth == nil {
		recent = limit
	}
	guarded := stage.Pinned(marked, pos, r.pins, r.plan.Protect.Sinks, recent, limit)
	if worth != nil && len(pos) == limit+1 && guarded < len(pos) {
		return []int32{int32(stage.Lowest(marked, worth))}
	}
	if worth != nil {
		stage.Top(marked, worth, limit-guarded, nil)
	}
	for i := range marked {
		marked[i] = !marked[i]
	}
	return stage.Indices(marked)
}

// worth is what tokens are worth under a decode rule, by KV head; nil where the oldest go.
func (r *Run) worth(in *StepInput, rule DecodeKind) [][]float32 {
	switch {
	case (rule == DecodeSums || rule == DecodeCap) && in.Sums != nil:
		if r.oneSet() && alike(in.Pos) {
			mean := make([]float32, len(in.Sums[0]))
			stage.Mean(mean, in.Sums)
			return slices.Repeat([][]float32{mean}, len(in.Sums))
		}
		return in.Sums
	case rule == DecodeRow && in.Rows != nil:
		return r.rows(in)
	default:
		return make([][]float32, len(in.Pos))
	}
}

func (r *Run) oneSet() bool { return r.plan.OneSet() }

// OneSet says that all KV heads of a layer keep the same tokens.
func (p *Plan) OneSet() bool { return p.Reduce.Kind == ReduceLayer && p.Heads.Kind == HeadsUniform }

// rows pools and reduces the newest token's attention. Tokens of Decode.Recent have no neighbours in it and no worth:
// they stay anyway.
func (r *Run) rows(in *StepInput) [][]float32 {
	d := &r.plan.Decode
	group := r.shape.Heads / r.shape.KVHeads
	pool := func(row []float32) []float32 {
		if d.Pool.Kind == PoolNone {
			return row
		}
		out := slices.Clone(row)
		prefix := max(0, len(row)-d.Recent)
		switch d.Pool.Kind {
		case PoolAvg:
			stage.PoolAvg(out[:prefix], row[:prefix], d.Pool.Size)
		case PoolMax:
			stage.PoolMax(out[:prefix], row[:prefix], d.Pool.Size)
		}
		return out
	}
	rows := slices.Clone(in.Rows)
	if !d.Pool.After {
		for h, row := range rows {
			rows[h] = pool(row)
		}
	}
	reduced := func(members [][]float32) []float32 {
		out := make([]float32, len(members[0]))
		reduceRows(out, members, d.Reduce.Kind)
		if d.Pool.After {
			out = pool(out)
		}
		return out
	}
	if d.Reduce.Kind == ReduceLayer && alike(in.Pos) {
		return slices.Repeat([][]float32{reduced(rows)}, len(in.Pos))
	}
	worth := make([][]float32, len(in.Pos))
	for h := range worth {
		worth[h] = reduced(rows[h*group : (h+1)*group])
	}
	return worth
}

// reduceRows makes one row of several.
func reduceRows(out []float32, rows [][]float32, kind ReduceKind) {
	switch kind {
	case ReduceMax:
		stage.Max(out, rows)
	case ReduceSum:
		stage.Sum(out, rows)
	default:
		stage.Mean(out, rows)
	}
}

// alike says that all KV heads hold the same tokens.
func alike(pos [][]int32) bool {
	return !slices.ContainsFunc(pos, func(p []int32) bool { return !slices.Equal(p, pos[0]) })
}

// sums is the accumulated attention of what stays of a prompt's layer: the mean of a KV head's query heads, as decoded
// tokens add to it, whatever reduction chose the tokens. The moving average of our own rule begins with
// what the tokens were worth, as if that were one token's attention; where that is no attention, it begins with nothing.
func (r *Run) sums(sc *scored, in *Input, keep [][]int32) [][]float32 {
	group := r.shape.Heads / r.shape.KVHeads
	from := func(int) []float32 { return nil }
	switch kind := r.plan.Decode.Kind; {
	case kind == DecodeSums:
		from = func(h int) []float32 {
			sum := make([]float32, len(in.Candidates[h].Pos))
			stage.Mean(sum, in.Columns[h*group:(h+1)*group])
			return sum
		}
	case kind != DecodeCap:
		return nil
	case sc.Heads != nil:
		switch r.plan.Score.Kind {
		case ScoreWindow, ScoreIndicator, ScoreColumns, ScoreExpected:
			from = func(h int) []float32 { return stage.Normalised(sc.Heads[h]) }
		}
	}
	sums := make([][]float32, len(keep))
	for h, kept := range keep {
		sums[h] = make([]float32, len(kept))
		if all := from(h); all != nil {
			for i, at := range kept {
				sums[h][i] = all[at]
			}
		}
	}
	return sums
}

package ref

import (
	"kvlens/cache/policy"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// Rows gives the attention of the decoded row over the tokens of each list, as far as the plan's decode rule needs it,
// and folds it into the accumulated attention.
func (e *exec) Rows(a *step.Args, layer int) (*policy.StepInput, error) {
	pages, err := e.following(a, layer)
	if err != nil {
		return nil, err
	}
	r, err := e.newRun(a)
	if err != nil {
		return nil, err
	}
	if !a.Stored || r.n != 1 {
		return nil, e.failed("rows: want one row that is stored")
	}
	rule := &e.follow.plan.Decode
	fold := (rule.Kind == policy.DecodeSums || rule.Kind == policy.DecodeCap) && a.Cache.Geometry().Scores
	rows := fold || rule.Kind == policy.DecodeRow
	t := &e.follow.tokens
	t.clear()
	if err := e.gather(a, pages, 0, rows, false); err != nil {
		return nil, err
	}
	in := &policy.StepInput{Pos: make([][]int32, len(pages))}
	for h := range pages {
		in.Pos[h] = t.heads[h].pos
	}
	if rows {
		if in.Rows, err = r.decodedRows(pages); err != nil {
			return nil, err
		}
	}
	if fold {
		in.Sums, err = r.fold(pages, in.Rows)
	}
	return in, err
}

// decodedRows computes the softmax rows of the decoded token. A compensation token has its share of them.
func (r *run) decodedRows(pages []Pages) ([][]float32, error) {
	f, s, d := &r.follow, &r.shape, r.shape.HeadDim
	t := &f.tokens
	if err := r.atLeast(&f.rows, "rows of attention", s.Heads*t.room); err != nil {
		return nil, err
	}
	q, group := r.queries(pages), s.Heads/s.KVHeads
	out := make([][]float32, s.Heads)
	r.b.parallel(s.Heads, 1, func(_, from, to int) {
		for h := from; h < to; h++ {
			p := &pages[h/group]
			row := f.rows.data[h*t.room:][:p.List.Live]
			out[h] = row
			r.b.loops.Dots(row, q[h*d:][:d], t.of(t.keys, h/group, d), r.scale())
			rest := 1.0
			if k, n := r.compensated(p); n > 0 {
				rest -= share(row, r.virtualLogit(q[h*d:][:d], k, n))
			}
			r.b.loops.Softmax(row)
			if rest < 1 {
				scale(row, float32(rest))
			}
		}
	})
	return out, nil
}

// fold adds the rows' means over each group to the accumulated attention, where it lies in the arena.
func (r *run) fold(pages []Pages, rows [][]float32) ([][]float32, error) {
	f, rule := &r.follow, &r.follow.plan.Decode
	t, group := &f.tokens, len(rows)/len(pages)
	if err := r.atLeast(&f.acc, "accumulated attention", len(pages)*t.room); err != nil {
		return nil, err
	}
	decay, weight := float32(rule.Decay), float32(1)
	if rule.Kind == policy.DecodeCap {
		weight = 1 - decay
	}
	weight /= float32(group)
	out := make([][]float32, len(pages))
	for h := range pages {
		p := &pages[h]
		acc := f.acc.data[h*t.room:][:p.List.Live]
		words := quant.Float32s(p.Arena)
		for i, slot := range t.heads[h].slots {
			acc[i] = decay * words[p.scoreWord(slot)]
		}
		for _, row := range rows[h*group:][:group] {
			for i, v := range row {
				acc[i] += weight * v
			}
		}
		for i, slot := range t.heads[h].slots {
			words[p.scoreWord(slot)] = acc[i]
		}
		out[h] = acc
	}
	return out, nil
}

// PutSums sets the accumulated attention of stored tokens of one list.
func (e *exec) PutSums(a *step.Args, layer, kvHead int, slots []uint32, sums []float32) error {
	p, err := e.list(a, layer, kvHead)
	if err != nil {
		return err
	}
	switch {
	case len(slots) != len(sums):
		return e.failed("put sums: %d for %d slots", len(sums), len(slots))
	case !p.Geo.Scores:
		return e.failed("put sums: the cache has no pages of scores")
	}
	if err := e.checkSlots("put sums", p, slots); err != nil {
		return err
	}
	for i, slot := range slots {
		*p.Score(int(slot)) = sums[i]
	}
	return nil
}

// checkSlots checks that slots lie in a list.
func (e *exec) checkSlots(what string, p *Pages, slots []uint32) error {
	for _, slot := range slots {
		if int64(slot) >= int64(p.List.Slots) {
			return e.failed("%s: slot %d of %d", what, slot, p.List.Slots)
		}
	}
	return nil
}

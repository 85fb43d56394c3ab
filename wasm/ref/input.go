package ref

import (
	"math"

	"kvlens/cache/policy"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// Input gives what the plan needs of a layer whose rows were all observed.
func (e *exec) Input(a *step.Args, layer int) (*policy.Input, error) {
	pages, err := e.following(a, layer)
	if err != nil {
		return nil, err
	}
	f, s := &e.follow, &e.shape
	if n := len(a.IDs); layer != f.layer || f.seen != n || n > e.rows {
		return nil, e.failed("input: layer %d with %d of %d rows observed", layer, f.seen, n)
	}
	p, t := f.plan, &f.tokens
	keys, values := f.needs()
	if err := e.gather(a, pages, len(a.IDs), keys, values); err != nil {
		return nil, err
	}
	in := &policy.Input{Candidates: make([]policy.Candidates, len(pages))}
	if f.held > 0 {
		in.Queries = f.queries.data[:f.held*s.Heads*s.HeadDim]
	}
	for h := range pages {
		c := &in.Candidates[h]
		c.Pos = t.heads[h].pos
		if keys {
			c.K = t.of(t.keys, h, s.HeadDim)
		}
		if values {
			c.V = t.of(t.values, h, s.HeadDim)
		}
	}
	switch p.Score.Kind {
	case policy.ScoreColumns:
		in.Columns = e.columnsOf(pages)
	case policy.ScoreExpected:
		in.Spread = e.spreadOf()
	}
	if p.Select.Kind == policy.SelectCritical {
		if err := e.weighValues(layer, in.Candidates); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// needs says which rows of tokens the plan is scored by.
func (f *follower) needs() (keys, values bool) {
	p := f.plan
	switch p.Score.Kind {
	case policy.ScoreWindow, policy.ScoreIndicator, policy.ScoreColumns, policy.ScoreNorm, policy.ScoreKeyDiff, policy.ScoreExpected:
		keys = true
	}
	return keys, p.Select.Kind == policy.SelectCritical || p.Score.Kind == policy.ScoreExpected && p.Score.ValueNorm
}

// columnsOf adds to the sums what the stored tokens had before.
func (e *exec) columnsOf(pages []Pages) [][]float32 {
	f := &e.follow
	out := make([][]float32, e.shape.Heads)
	group := len(out) / len(pages)
	for h := range out {
		p, hd := &pages[h/group], &f.tokens.heads[h/group]
		out[h] = f.columns.data[h*f.tokens.room:][:len(hd.pos)]
		if len(p.List.Scores) == 0 {
			continue
		}
		for i, slot := range hd.slots {
			out[h][i] += *p.Score(int(slot))
		}
	}
	return out
}

// massRows is how many values are multiplied at a time.
const massRows = 16

// weighValues sets OutL1: how much a token's value adds to the layer's output, over the query heads that read it.
func (e *exec) weighValues(layer int, heads []policy.Candidates) error {
	f, s, d := &e.follow, &e.shape, e.shape.HeadDim
	w := e.outputs[layer]
	if w == nil {
		return e.failed("layer %d has no output projection", layer)
	}
	room := f.tokens.room
	if err := e.atLeast(&f.mass, "mass of values", len(heads)*room); err != nil {
		return err
	}
	if err := e.atLeast(&f.output, "output of values", s.Hidden*(d+e.b.workers*massRows)); err != nil {
		return err
	}
	clear(f.mass.data)
	columns, products := f.output.data[:s.Hidden*d], f.output.data[s.Hidden*d:]
	m := quant.Matrix{Layout: quant.LayoutF32, Rows: s.Hidden, Cols: d, Data: quant.Bytes(columns)}
	row := make([]float32, w.Cols)
	group := s.Heads / s.KVHeads
	for h := range s.Heads {
		for r := range s.Hidden {
			quant.DequantizeRow(row, *w, r)
			copy(columns[r*d:][:d], row[h*d:])
		}
		c := &heads[h/group]
		c.OutL1 = f.mass.data[h/group*room:][:len(c.Pos)]
		e.b.parallel(len(c.Pos), massRows, func(worker, from, to int) {
			out := products[worker*massRows*s.Hidden:]
			for ; from < to; from += massRows {
				n := min(massRows, to-from)
				e.b.loops.MatMul(out, s.Hidden, &m, 0, s.Hidden, c.V[from*d:][:n*d], n, false)
				for i := range n {
					var sum float64
					for _, v := range out[i*s.Hidden:][:s.Hidden] {
						sum += math.Abs(float64(v))
					}
					c.OutL1[from+i] += float32(sum / float64(group))
				}
			}
		})
	}
	return nil
}

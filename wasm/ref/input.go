package ref

import (
	"kvlens/cache/policy"
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

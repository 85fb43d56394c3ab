package ref

import (
	"math"

	"kvlens/cache/policy"
	"kvlens/wasm/step"
)

// Observe gathers from rows whose queries are in Q. Chunks of a layer come in order.
func (e *exec) Observe(a *step.Args, layer int) error {
	pages, err := e.following(a, layer)
	if err != nil {
		return err
	}
	r, err := e.newRun(a)
	if err != nil {
		return err
	}
	f := &e.follow
	if layer != f.layer || a.From != f.seen {
		return e.failed("observe: rows from %d of layer %d, want %d of layer %d", a.From, layer, f.seen, f.layer)
	}
	r.keepQueries()
	switch f.plan.Score.Kind {
	case policy.ScoreColumns:
		err = r.addColumns(pages)
	case policy.ScoreExpected:
		err = r.addSpread()
	}
	f.seen = a.To
	return err
}

// keepQueries keeps the last queries for the observation window.
func (r *run) keepQueries() {
	f, width := &r.follow, r.shape.Heads*r.shape.HeadDim
	window := len(f.queries.data) / width
	add := min(r.n, window)
	stay := min(f.held, window-add)
	copy(f.queries.data, f.queries.data[(f.held-stay)*width:f.held*width])
	copy(f.queries.data[stay*width:], r.named[step.Q].data[(r.n-add)*width:r.n*width])
	f.held = stay + add
}

// addColumns adds the rows' attention to each token. It takes one more product of queries and keys, and no more memory
// than a few rows of attention.
func (r *run) addColumns(pages []Pages) error {
	f, s := &r.follow, &r.shape
	t := &f.tokens
	keys, values := f.needs()
	if err := r.gather(r.a, pages, r.a.To, keys, values); err != nil {
		return err
	}
	if err := r.atLeast(&f.columns, "sums of attention", s.Heads*t.room); err != nil {
		return err
	}
	if err := r.atLeast(&f.logits, "rows of attention", r.b.workers*ColumnRows*(t.room+3)); err != nil {
		return err
	}
	group, query := s.Heads/s.KVHeads, s.Heads*s.HeadDim
	if r.a.From == 0 {
		clear(f.columns.data)
	}
	queries := r.queries(pages)
	work := len(f.logits.data) / r.b.workers
	r.b.parallel(s.Heads, 1, func(worker, from, to int) {
		for h := from; h < to; h++ {
			kv := h / group
			stored := len(t.heads[kv].slots)
			r.b.loops.Columns(&Columns{
				Q: queries[h*s.HeadDim:], Rows: r.n, Stride: query,
				K: t.of(t.keys, kv, s.HeadDim), Dim: s.HeadDim, First: stored + r.a.From,
				Scale: r.scale(), Out: f.columns.data[h*t.room:][:stored+r.a.To],
				Work: f.logits.data[worker*work:][:work],
			})
		}
	})
	return nil
}

// scale is the factor of logits.
func (e *exec) scale() float32 { return float32(1 / math.Sqrt(float64(e.shape.HeadDim))) }

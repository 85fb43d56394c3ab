package ref

import (
	"kvlens/cache"
	"kvlens/wasm/step"
)

// attend: A = softmax(q·k/√D)·v, causal, for the run's rows of Q.
func (r *run) attend(layer int) error {
	pages, err := r.pages(r.a, layer)
	if err != nil {
		return err
	}
	if r.a.Stored && r.n != 1 {
		return r.failed("attend over stored rows: %d rows instead of 1", r.n)
	}
	if p := r.follow.plan; p != nil {
		switch {
		case p.Store.Rank && (r.a.Stored || r.a.Pos > 0):
			return r.attendByRank(pages)
		case p.Store.PageIn(layer) > 0 && r.a.Stored:
			return r.attendPages(pages)
		case p.Store.Virtual:
			r.attendAll(pages)
			return r.addVirtual(pages)
		}
	}
	r.attendAll(pages)
	return nil
}

// attendAll attends to every stored token that is alive, and to the new rows.
func (r *run) attendAll(pages []Pages) {
	d := r.shape.HeadDim
	key := r.shape.KVHeads * d
	r.eachBlock(r.chunkRows(step.Q, r.shape.Heads*d), func(head, first int, a *Attention) {
		a.Pages = pages[head]
		if !r.a.Stored {
			a.NewK = r.named[step.K].data[head*d : r.a.To*key]
			a.NewV = r.named[step.V].data[head*d : r.a.To*key]
			a.NewStride, a.First = key, r.a.From+first
		}
		r.b.loops.Attend(a)
	})
}

// eachBlock calls f for every block of rows of every KV head, with queries and output set: rows from first on.
func (r *run) eachBlock(q []float32, f func(head, first int, a *Attention)) {
	s := &r.shape
	group, query := s.Heads/s.KVHeads, s.Heads*s.HeadDim
	out := r.chunkRows(step.A, query)
	blocks := (r.n + AttendRows - 1) / AttendRows
	r.b.parallel(s.KVHeads*blocks, 1, func(worker, from, to int) {
		for i := from; i < to; i++ {
			// The last rows see the most: they go first, so that no worker ends long after the others.
			head, first := i%s.KVHeads, (blocks-1-i/s.KVHeads)*AttendRows
			at := first*query + head*group*s.HeadDim
			f(head, first, &Attention{
				Rows: min(AttendRows, r.n-first), Heads: group, Dim: s.HeadDim,
				Q: q[at:], Out: out[at:], Stride: query, Scale: r.scale(), Work: r.workOf(worker),
			})
		}
	})
}

// pages finds the lists of a layer.
func (e *exec) pages(a *step.Args, layer int) ([]Pages, error) {
	if a.Cache == nil {
		return nil, e.failed("no cache")
	}
	geo := a.Cache.Geometry()
	if geo.Layers != e.shape.Layers || geo.KVHeads != e.shape.KVHeads || geo.HeadDim != e.shape.HeadDim {
		return nil, e.failed("a cache of %d layers, %d KV heads of %d", geo.Layers, geo.KVHeads, geo.HeadDim)
	}
	arena, err := e.b.bytes(a.Arena, 0, a.Cache.Cap()&^3)
	if err != nil {
		return nil, e.failed("arena: %v", err)
	}
	pages := make([]Pages, geo.KVHeads)
	for h := range pages {
		pages[h] = Pages{arena, a.Cache.List(layer, h), geo}
		pages[h].bury()
	}
	return pages, nil
}

func (e *exec) workOf(worker int) []float32 {
	n := e.workSize()
	return e.work.data[worker*n:][:n]
}

// nothing is a list without slots: what a call of Attend sees are new rows only.
var nothing cache.List

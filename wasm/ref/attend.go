package ref

import (
	"math"

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
	s := &r.shape
	group := s.Heads / s.KVHeads
	query, key := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	q, out := r.chunkRows(step.Q, query), r.chunkRows(step.A, query)
	blocks := (r.n + AttendRows - 1) / AttendRows
	r.b.parallel(s.KVHeads*blocks, 1, func(worker, from, to int) {
		for i := from; i < to; i++ {
			// The last rows see the most: they go first, so that no worker ends long after the others.
			head, first := i%s.KVHeads, (blocks-1-i/s.KVHeads)*AttendRows
			at := first*query + head*group*s.HeadDim
			a := Attention{
				Pages: pages[head],
				Rows:  min(AttendRows, r.n-first), Heads: group, Dim: s.HeadDim,
				Q: q[at:], Out: out[at:], Stride: query,
				Scale: float32(1 / math.Sqrt(float64(s.HeadDim))),
				Work:  r.workOf(worker),
			}
			if !r.a.Stored {
				a.NewK = r.named[step.K].data[head*s.HeadDim : r.a.To*key]
				a.NewV = r.named[step.V].data[head*s.HeadDim : r.a.To*key]
				a.NewStride, a.First = key, r.a.From+first
			}
			r.b.loops.Attend(&a)
		}
	})
	return nil
}

// store writes the run's rows of K and V, and their positions, to their slots.
func (r *run) store(layer int) error {
	pages, err := r.pages(r.a, layer)
	if err != nil {
		return err
	}
	s := &r.shape
	if len(r.a.Slots) != s.KVHeads {
		return r.failed("store: slots for %d of %d KV heads", len(r.a.Slots), s.KVHeads)
	}
	key := s.KVHeads * s.HeadDim
	k, v := r.named[step.K].data, r.named[step.V].data
	for h := range pages {
		p, slots := &pages[h], r.a.Slots[h]
		if len(slots) < r.a.To {
			return r.failed("store: slots for %d of %d rows", len(slots), r.a.To)
		}
		for t := r.a.From; t < r.a.To; t++ {
			slot := int(slots[t])
			if slot >= p.List.Slots {
				return r.failed("store: slot %d of %d", slot, p.List.Slots)
			}
			at := t*key + h*s.HeadDim
			pack(p.Key(slot), p.Geo.Key, k[at:][:s.HeadDim])
			pack(p.Value(slot), p.Geo.Value, v[at:][:s.HeadDim])
			*p.Position(slot) = uint32(r.a.Pos + t)
		}
	}
	return nil
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
	arena, err := e.b.bytes(a.Arena, 0, a.Cache.Cap())
	if err != nil {
		return nil, e.failed("arena: %v", err)
	}
	pages := make([]Pages, geo.KVHeads)
	for h := range pages {
		pages[h] = Pages{arena, a.Cache.List(layer, h), geo}
	}
	return pages, nil
}

func (e *exec) workOf(worker int) []float32 {
	n := e.workSize()
	return e.work.data[worker*n:][:n]
}

// AttentionRow writes the softmax row of one chunk row of Q over the layer's stored tokens: out is [n_heads][slots].
// Dead slots and tokens after the row's own position get 0.
func (e *exec) AttentionRow(a *step.Args, layer, row int, out [][]float32) error {
	s := &e.shape
	if err := e.checkLayer(layer); err != nil {
		return e.failed("attention row: %v", err)
	}
	pages, err := e.pages(a, layer)
	if err != nil {
		return err
	}
	if row < 0 || row >= e.chunk || len(out) != s.Heads {
		return e.failed("attention row %d of %d, for %d of %d heads", row, e.chunk, len(out), s.Heads)
	}
	group := s.Heads / s.KVHeads
	last := uint32(a.Pos + a.From + row)
	key := e.workOf(0)[:s.HeadDim]
	for kv := range pages {
		p := &pages[kv]
		heads := out[kv*group:][:group]
		for h := range heads {
			if len(heads[h]) < p.List.Slots {
				return e.failed("attention row: %d numbers for %d slots", len(heads[h]), p.List.Slots)
			}
			heads[h] = heads[h][:p.List.Slots]
		}
		for i := range p.List.Slots {
			if pos := *p.Position(i); pos == cache.DeadPosition || pos > last {
				for h := range heads {
					heads[h][i] = float32(math.Inf(-1))
				}
				continue
			}
			unpack(key, p.Geo.Key, p.Key(i))
			for h := range heads {
				q := e.named[step.Q].data[(row*s.Heads+kv*group+h)*s.HeadDim:][:s.HeadDim]
				heads[h][i] = float32(dot64(q, key) / math.Sqrt(float64(s.HeadDim)))
			}
		}
		for h := range heads {
			softmax64(heads[h])
		}
	}
	return nil
}

// dot64 sums in float64.
func dot64(a, b []float32) float64 {
	var sum float64
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return sum
}

// softmax64 replaces logits by their softmax, in float64; all −Inf gives zeros.
func softmax64(x []float32) {
	top := math.Inf(-1)
	for _, v := range x {
		top = max(top, float64(v))
	}
	if math.IsInf(top, -1) {
		clear(x)
		return
	}
	var sum float64
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	for i, v := range x {
		x[i] = float32(math.Exp(float64(v)-top) / sum)
	}
}

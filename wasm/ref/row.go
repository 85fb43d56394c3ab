package ref

import (
	"math"

	"kvlens/cache"
	"kvlens/wasm/step"
)

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

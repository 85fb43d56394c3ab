package ref

import (
	"kvlens/cache/policy"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// spread sums queries before RoPE and their products, less the first query, so that no large mean hides a small
// variance.
type spread struct {
	n        int
	shift    []float32 // [n_heads][head_dim]: the first query
	sum, mul []float64 // [n_heads][head_dim]; [n_heads][head_dim][head_dim]
	mean     []float32
	cov      []float32
	work     scratch // [workers]: rows of a chunk by channel, a product
}

func (s *spread) clear() {
	s.n = 0
	clear(s.sum)
	clear(s.mul)
}

// openSpread makes room for the sums.
func (e *exec) openSpread() error {
	f, d := &e.follow, e.shape.HeadDim
	one := e.shape.Heads * d
	sp := &f.spread
	sp.shift, sp.sum, sp.mean = make([]float32, one), make([]float64, one), make([]float32, one)
	e.count(one * (4 + 8 + 4))
	if f.plan.Score.Covariance {
		sp.mul, sp.cov = make([]float64, one*d), make([]float32, one*d)
		e.count(one * d * (8 + 4))
	}
	return e.alloc(&sp.work, "spread of queries", e.b.workers*d*(e.chunk+d))
}

// addSpread adds the rows' queries, turned back to before RoPE; the first positions are left out.
func (r *run) addSpread() error {
	sp, s, d := &r.follow.spread, &r.shape, r.shape.HeadDim
	skip := max(0, r.follow.plan.Protect.Sinks-r.a.Pos-r.a.From)
	n := r.n - skip
	if n <= 0 {
		return nil
	}
	query := s.Heads * d
	q := r.named[step.Q].data
	work := len(sp.work.data) / r.b.workers
	begin := sp.n == 0
	r.b.parallel(s.Heads, 1, func(worker, from, to int) {
		part := sp.work.data[worker*work:][:work]
		byChannel, product := part[:d*n], part[d*r.chunk:][:d*d]
		x := make([]float32, d)
		for h := from; h < to; h++ {
			shift := sp.shift[h*d:][:d]
			for t := range n {
				copy(x, q[(skip+t)*query+h*d:])
				r.unrotate(x, r.a.Pos+r.a.From+skip+t)
				if begin && t == 0 {
					copy(shift, x)
				}
				for c, v := range x {
					byChannel[c*n+t] = v - shift[c]
					sp.sum[h*d+c] += float64(v - shift[c])
				}
			}
			if sp.mul == nil {
				continue
			}
			m := quant.Matrix{Layout: quant.LayoutF32, Rows: d, Cols: n, Data: quant.Bytes(byChannel)}
			r.b.loops.MatMul(product, d, &m, 0, d, byChannel, d, false)
			for i, v := range product {
				sp.mul[h*d*d+i] += float64(v)
			}
		}
	})
	sp.n += n
	return nil
}

// spreadOf is the mean, and the covariance with divisor n.
func (e *exec) spreadOf() *policy.Spread {
	sp, d := &e.follow.spread, e.shape.HeadDim
	n := float64(max(1, sp.n))
	for i, sum := range sp.sum {
		sp.mean[i] = float32(float64(sp.shift[i]) + sum/n)
	}
	for i := range sp.cov {
		h := i / (d * d) * d
		sp.cov[i] = float32(sp.mul[i]/n - sp.sum[h+i/d%d]/n*sp.sum[h+i%d]/n)
	}
	return &policy.Spread{N: sp.n, Mean: sp.mean, Cov: sp.cov, Rope: e.turn, Neox: e.shape.Neox}
}

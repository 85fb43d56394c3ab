package ref

import (
	"math"

	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// f64 is the oracle: the definitions, written out, with every sum and function in float64.
type f64 struct{}

// Work is 0: the oracle takes its temporaries from Go.
func (f64) Work(*step.Shape) int { return 0 }

func (f64) RMSNorm(dst, x, w []float32, eps float32) {
	x = x[:len(dst)]
	scale := 1 / math.Sqrt(dot64(x, x)/float64(len(x))+float64(eps))
	for i, v := range x {
		dst[i] = float32(float64(v) * scale * float64(w[i]))
	}
}

func (f64) MatMul(dst []float32, stride int, w *quant.Matrix, from, to int, x []float32, n int, add bool) {
	row := make([]float32, w.Cols)
	for r := from; r < to; r++ {
		quant.DequantizeRow(row, *w, r)
		for t := range n {
			sum := dot64(row, x[t*w.Cols:][:w.Cols])
			d := &dst[t*stride+r-from]
			if add {
				sum += float64(*d)
			}
			*d = float32(sum)
		}
	}
}

func (f64) Rope(x, cs []float32, neox bool) {
	half := len(cs) / 2
	for i := range half {
		a, b := 2*i, 2*i+1
		if neox {
			a, b = i, i+half
		}
		cos, sin := float64(cs[2*i]), float64(cs[2*i+1])
		va, vb := float64(x[a]), float64(x[b])
		x[a], x[b] = float32(va*cos-vb*sin), float32(va*sin+vb*cos)
	}
}

func (f64) SiLUMul(gate, up []float32) {
	for i, g := range gate {
		gate[i] = float32(float64(g) / (1 + math.Exp(-float64(g))) * float64(up[i]))
	}
}

func (f64) Attend(a *Attention) {
	key := make([]float32, a.Dim)
	for t := range a.Rows {
		for h := range a.Heads {
			at := t*a.Stride + h*a.Dim
			q, out := a.Q[at:][:a.Dim], make([]float64, a.Dim)
			// Every key and value that the row sees, stored ones first.
			each := func(f func(k, v []float32)) {
				value := make([]float32, a.Dim)
				for i := range a.List.Slots {
					if *a.Position(i) == cache.DeadPosition {
						continue
					}
					unpack(key, a.Geo.Key, a.Key(i))
					unpack(value, a.Geo.Value, a.Value(i))
					f(key, value)
				}
				for j := range a.Visible(t) {
					f(a.NewK[j*a.NewStride:][:a.Dim], a.NewV[j*a.NewStride:][:a.Dim])
				}
			}
			logit := func(k []float32) float64 { return dot64(q, k) / math.Sqrt(float64(a.Dim)) }
			top, sum := math.Inf(-1), 0.0
			each(func(k, _ []float32) { top = max(top, logit(k)) })
			each(func(k, v []float32) {
				p := math.Exp(logit(k) - top)
				sum += p
				for c := range out {
					out[c] += p * float64(v[c])
				}
			})
			for c, v := range out {
				a.Out[at+c] = 0
				if sum > 0 {
					a.Out[at+c] = float32(v / sum)
				}
			}
		}
	}
}

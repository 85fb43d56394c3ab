package ref

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// BenchmarkMatMul multiplies a 1536 × 576 matrix, SmolLM2's gate or up, on one core. It reports GFLOP/s.
func BenchmarkMatMul(b *testing.B) {
	for _, layout := range []quant.Layout{quant.LayoutF32, quant.LayoutF16, quant.Layout4, quant.Layout8} {
		for _, n := range []int{1, 64} {
			b.Run(fmt.Sprintf("%v/%d", layout, n), func(b *testing.B) {
				rows, cols := 1536, 576
				w := &quant.Matrix{Layout: layout, Rows: rows, Cols: cols, Data: make([]byte, layout.Size(rows, cols))}
				x, dst := random(n*cols), make([]float32, n*rows)
				for b.Loop() {
					f32{}.MatMul(dst, rows, w, 0, rows, x, n, false)
				}
				b.ReportMetric(float64(2*rows*cols*n*b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

// BenchmarkAttend runs one KV head of SmolLM2 over 1,024 stored tokens, on one core.
func BenchmarkAttend(b *testing.B) {
	geo := cache.Geometry{Layers: 1, KVHeads: 1, HeadDim: 64, Key: cache.F16, Value: cache.F16, PageK: 8, PageV: 8}
	const tokens = 1024
	led := new(cache.Ledger)
	c, err := cache.New(geo, geo.FullBytes(tokens), led)
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Reserve(tokens); err != nil {
		b.Fatal(err)
	}
	if _, err := c.Take(0, 0, tokens); err != nil {
		b.Fatal(err)
	}
	shape := &step.Shape{Heads: 3, KVHeads: 1, HeadDim: 64}
	for _, rows := range []int{1, AttendRows} {
		b.Run(fmt.Sprint(rows), func(b *testing.B) {
			a := &Attention{
				Pages: Pages{make([]byte, c.Cap()), c.List(0, 0), geo},
				Rows:  rows, Heads: 3, Dim: 64, Stride: 192, Scale: 1. / 8,
				Q: random(rows * 192), Out: make([]float32, rows*192), Work: make([]float32, f32{}.Work(shape)),
			}
			for b.Loop() {
				f32{}.Attend(a)
			}
			b.ReportMetric(float64(4*3*64*tokens*rows*b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

func random(n int) []float32 {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

package cpu

import (
	"testing"
	"time"

	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref"
)

// BenchmarkLoops reports GFLOP/s of the product with SmolLM2's widest 4-bit matrix, one token and 32, by the Go loops and
// by the SIMD loops in both modes. Each is the best of several runs.
func BenchmarkLoops(b *testing.B) {
	const rows, cols, tokens = 3072, 576, 32
	w := &quant.Matrix{Layout: quant.Layout4, Rows: rows, Cols: cols, Data: make([]byte, quant.Layout4.Size(rows, cols))}
	for i := range w.Data {
		w.Data[i] = byte(i*7) & 0x3F // finite scales
	}
	x, out := make([]float32, tokens*cols), make([]float32, tokens*rows)
	for i := range x {
		x[i] = float32(i%19) - 9
	}
	led := new(cache.Ledger)
	fast, exact := &loops{led: led}, &loops{led: led, float: true}
	fast.open(tokens, cols)
	exact.open(tokens, cols)
	for _, c := range []struct {
		name  string
		loops ref.Loops
	}{{"go", ref.Float32Loops()}, {"simd", fast}, {"simd-float", exact}} {
		for unit, n := range map[string]int{"matvec-GFLOP/s": 1, "matmul-GFLOP/s": tokens} {
			b.Run(c.name, func(b *testing.B) {
				for b.Loop() {
					least := time.Hour
					for range 60 {
						start := time.Now()
						for range tokens / n {
							c.loops.MatMul(out, rows, w, 0, rows, x[:n*cols], n, false)
						}
						least = min(least, time.Since(start))
					}
					b.ReportMetric(2*rows*cols*tokens/least.Seconds()/1e9, unit)
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

package simd

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"kvlens/wasm/quant"
)

// BenchmarkMatMul reports GFLOP/s for the shapes of SmolLM2, one token and a block of tokens.
func BenchmarkMatMul(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct {
		layout        quant.Layout
		rows, cols, n int
		float         bool
	}{
		{quant.Layout4, 3072, 576, 1, false},
		{quant.Layout4, 576, 1536, 1, false},
		{quant.Layout4, 3072, 576, 32, false},
		{quant.Layout4, 576, 1536, 32, false},
		{quant.Layout8, 16384, 576, 1, false},
		{quant.Layout8, 3072, 576, 32, false},
		{quant.Layout4, 3072, 576, 1, true},
		{quant.Layout4, 3072, 576, 32, true},
	} {
		b.Run(fmt.Sprintf("%v/%d×%d·%d/float=%v", c.layout, c.rows, c.cols, c.n, c.float), func(b *testing.B) {
			m, x := packed(b, r, c.layout, c.rows, c.cols), random(r, c.n*c.cols)
			codes, scales := planes(m)
			out, scratch := make([]float32, c.n*c.rows), make([]float32, max(ScratchFor(c.cols), 8*c.cols))
			var a Activations
			for b.Loop() {
				switch {
				case c.float:
					for from := 0; from < c.rows; from += 8 {
						Weights4(scratch, codes[from*c.cols/2:(from+8)*c.cols/2], quant.Uint32s(scales)[from*c.cols/32:(from+8)*c.cols/32])
						MatMul(out[from:], c.rows, scratch, 8, c.cols, x, c.n, false)
					}
				case c.layout == quant.Layout4:
					a.Quantize(x, c.n, c.cols)
					MatMul4(out, c.rows, codes, quant.Uint32s(scales), &a, false, scratch)
				default:
					a.Quantize(x, c.n, c.cols)
					MatMul8(out, c.rows, codes, quant.Uint16s(scales), &a, false, scratch)
				}
			}
			b.ReportMetric(2*float64(c.rows*c.cols*c.n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

package simd

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"kvlens/wasm/quant"
)

// best is the time of one call of f in the best of many short batches: what the machine can do, whatever else it does.
func best(b *testing.B, f func()) time.Duration {
	b.Helper()
	const batch = 3 * time.Millisecond // the browser's clock has steps of 0.1 ms
	n := 1
	f()
	for {
		start := time.Now()
		for range n {
			f()
		}
		if time.Since(start) > batch {
			break
		}
		n *= 2
	}
	least := time.Hour
	for b.Loop() {
		for range 100 {
			start := time.Now()
			for range n {
				f()
			}
			least = min(least, time.Since(start)/time.Duration(n))
		}
	}
	b.ReportMetric(0, "ns/op")
	return least
}

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
			a := new(Activations).Grow(c.n, c.cols)
			least := best(b, func() {
				switch {
				case c.float:
					for from := 0; from < c.rows; from += 8 {
						Weights4(scratch, codes[from*c.cols/2:(from+8)*c.cols/2], quant.Uint32s(scales)[from*c.cols/32:(from+8)*c.cols/32])
						MatMul(out[from:], c.rows, scratch, 8, c.cols, x, c.n, false)
					}
				case c.layout == quant.Layout4:
					a.Quantize(x, c.n, c.cols)
					MatMul4(out, c.rows, codes, quant.Uint32s(scales), a, false, scratch)
				default:
					a.Quantize(x, c.n, c.cols)
					MatMul8(out, c.rows, codes, quant.Uint16s(scales), a, false, scratch)
				}
			})
			b.ReportMetric(2*float64(c.rows*c.cols*c.n)/least.Seconds()/1e9, "GFLOP/s")
		})
	}
}

// BenchmarkAttend reports the time per row and stored token of one key-value head, for one decoded token and for a block
// of a prompt, with SmolLM2's heads.
func BenchmarkAttend(b *testing.B) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, s := range []shape{
		{rows: 1, heads: 3, dim: 64, slots: 1024, keyLanes: 8, valueLanes: 8, half: true, noNew: true},
		{rows: 1, heads: 3, dim: 64, slots: 1024, keyLanes: 8, valueLanes: 8, noNew: true},
		{rows: 16, heads: 3, dim: 64, keyLanes: 8, valueLanes: 8, half: true, first: 1008},
	} {
		b.Run(fmt.Sprintf("rows=%d/half=%v", s.rows, s.half), func(b *testing.B) {
			m := newCase(r, s)
			least := best(b, func() { Attend(&m.q, &m.p, &m.r) })
			b.ReportMetric(float64(least.Nanoseconds())/1024/float64(s.rows), "ns/token")
		})
	}
}

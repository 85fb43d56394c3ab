package ref

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"kvlens/wasm/quant"
)

// MatMul of part of a matrix against the oracle's: columns past one panel of sums and one tile, rows and vectors that
// fill no block, with and without adding. What lies around the result must stay.
func TestMatMulParts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, layout := range []quant.Layout{quant.LayoutF32, quant.LayoutF16, quant.Layout4, quant.Layout8} {
		for _, c := range []struct{ rows, from, to, cols, n int }{
			{20, 0, 20, 32, 1},
			{20, 3, 16, 288, 1},
			{9, 2, 7, sumsAtOnce*group + 96, 1},
			{20, 3, 18, 288, 2},
			{31, 0, 31, 320, 5},
			{5, 1, 2, 64, 3},
			{7, 7, 7, 64, 2},
		} {
			for _, add := range []bool{false, true} {
				w := &quant.Matrix{Layout: layout, Rows: c.rows, Cols: c.cols, Data: make([]byte, layout.Size(c.rows, c.cols))}
				randomise(r, w)
				x, stride := random(c.n*c.cols), c.to-c.from+2
				got := random(c.n * stride)
				want := append([]float32(nil), got...)
				f32{}.MatMul(got, stride, w, c.from, c.to, x, c.n, add)
				f64{}.MatMul(want, stride, w, c.from, c.to, x, c.n, add)
				for i := range want {
					if d := math.Abs(float64(got[i] - want[i])); !(d <= 2e-5*(1+math.Abs(float64(want[i])))) {
						t.Errorf("%v, %+v, add %v: [%d] got %v, want %v", layout, c, add, i, got[i], want[i])
						break
					}
				}
			}
		}
	}
}

// randomise fills a matrix with weights around 1/√cols.
func randomise(r *rand.Rand, w *quant.Matrix) {
	size := 1 / math.Sqrt(float64(w.Cols))
	half := func(f float64) uint16 { return quant.ToHalf(float32(size * f * (0.5 + r.Float64()))) }
	for row := range w.Rows {
		codes, scales := w.Codes(row), w.Scales(row)
		for i := range codes {
			codes[i] = byte(r.Uint32())
		}
		switch w.Layout {
		case quant.LayoutF32:
			for i := range quant.Float32s(codes) {
				quant.Float32s(codes)[i] = float32(size * r.NormFloat64())
			}
		case quant.LayoutF16:
			for i := range quant.Uint16s(codes) {
				quant.Uint16s(codes)[i] = half(r.NormFloat64())
			}
		case quant.Layout4:
			for i := range quant.Uint32s(scales) {
				quant.Uint32s(scales)[i] = uint32(half(0.25)) | uint32(half(-2))<<16
			}
		case quant.Layout8:
			for i := range quant.Uint16s(scales) {
				quant.Uint16s(scales)[i] = half(1. / 64)
			}
		}
	}
}

// exp32 against float64: two units in the last place, 2^−22 of the value.
func TestExp32(t *testing.T) {
	for x := float32(-87); x <= 88; x += 0.00137 {
		want := math.Exp(float64(x))
		if got := float64(exp32(x)); math.Abs(got-want) > want*0x1p-22 {
			t.Fatalf("exp32(%v) = %v, want %v", x, got, want)
		}
	}
	inf := float32(math.Inf(1))
	for _, c := range [][2]float32{{0, 1}, {-88, 0}, {-inf, 0}, {89, inf}, {inf, inf}} {
		if got := exp32(c[0]); got != c[1] {
			t.Errorf("exp32(%v) = %v, want %v", c[0], got, c[1])
		}
	}
	if nan := exp32(float32(math.NaN())); nan == nan {
		t.Errorf("exp32(NaN) = %v", nan)
	}
}

// Every index is worked on exactly once, in blocks within the grain, whatever the number of workers.
func TestParallel(t *testing.T) {
	for _, workers := range []int{1, 2, 7} {
		for _, n := range []int{0, 1, 5, 64, 100} {
			for _, grain := range []int{1, 3, 64, 1000} {
				b, seen := Backend{workers: workers}, make([]atomic.Int32, n)
				b.parallel(n, grain, func(worker, from, to int) {
					if worker < 0 || worker >= workers || workers > 1 && n > grain && to-from > grain {
						t.Errorf("worker %d of %d has [%d, %d), grain %d", worker, workers, from, to, grain)
					}
					for i := from; i < to; i++ {
						seen[i].Add(1)
					}
				})
				for i := range seen {
					if seen[i].Load() != 1 {
						t.Fatalf("workers %d, n %d, grain %d: index %d was seen %d times", workers, n, grain, i, seen[i].Load())
					}
				}
			}
		}
	}
}

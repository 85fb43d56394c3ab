package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"kvlens/wasm/quant"
)

// random fills n floats with a normal distribution, and now and then a large one, as activations have them.
func random(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
		if r.IntN(97) == 0 {
			x[i] *= 50
		}
	}
	return x
}

// packed makes a random matrix in a layout.
func packed(t testing.TB, r *rand.Rand, layout quant.Layout, rows, cols int) *quant.Matrix {
	t.Helper()
	m := &quant.Matrix{Layout: layout, Rows: rows, Cols: cols, Data: make([]byte, layout.Size(rows, cols))}
	codes := int64(rows * layout.CodeBytes(cols))
	switch layout {
	case quant.LayoutF32:
		copy(m.Data, quant.Bytes(random(r, rows*cols)))
	case quant.LayoutF16:
		for i, v := range random(r, rows*cols) {
			quant.Uint16s(m.Data)[i] = quant.ToHalf(v)
		}
	default:
		for i := range m.Data[:codes] {
			m.Data[i] = byte(r.Uint32())
		}
		off, total := layout.Planes(rows, cols)
		for i := range quant.Uint16s(m.Data[off:total]) {
			quant.Uint16s(m.Data[off:total])[i] = quant.ToHalf(float32(r.NormFloat64()) / 64)
		}
	}
	return m
}

func planes(m *quant.Matrix) (codes, scales []byte) {
	off, total := m.Layout.Planes(m.Rows, m.Cols)
	return m.Data[:m.Rows*m.Layout.CodeBytes(m.Cols)], m.Data[off:total]
}

// want is the product in float64 of the dequantised weights.
func want(m *quant.Matrix, x []float32, n int) (y, size []float64) {
	row := make([]float32, m.Cols)
	y, size = make([]float64, n*m.Rows), make([]float64, n*m.Rows)
	for r := range m.Rows {
		quant.DequantizeRow(row, *m, r)
		for t := range n {
			for c, w := range row {
				p := float64(w) * float64(x[t*m.Cols+c])
				y[t*m.Rows+r] += p
				size[t*m.Rows+r] += math.Abs(p)
			}
		}
	}
	return y, size
}

func skipWithout(t testing.TB) {
	t.Helper()
	if !Available() {
		t.Fatal("this browser has no SIMD: the tests need one that has")
	}
}

// Products with float activations agree with float64 within float32's rounding, in all layouts, with sizes that fill no
// block, and into part of an output.
func TestFloatProducts(t *testing.T) {
	skipWithout(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, layout := range []quant.Layout{quant.LayoutF32, quant.LayoutF16, quant.Layout4, quant.Layout8} {
		for _, s := range [][3]int{{1, 32, 1}, {3, 96, 2}, {7, 32, 5}, {64, 576, 1}, {33, 160, 9}, {6, 1536, 4}} {
			rows, cols, n := s[0], s[1], s[2]
			if layout < quant.Layout4 {
				cols += rows % 5 // odd sizes
			}
			t.Run(fmt.Sprint(layout, " ", rows, "×", cols, "·", n), func(t *testing.T) {
				m, x := packed(t, r, layout, rows, cols), random(r, n*cols)
				w := make([]float32, rows*cols)
				codes, scales := planes(m)
				switch layout {
				case quant.LayoutF32:
					copy(w, quant.Float32s(codes))
				case quant.LayoutF16:
					Halves(w, quant.Uint16s(codes))
				case quant.Layout4:
					Weights4(w, codes, quant.Uint32s(scales))
				case quant.Layout8:
					Weights8(w, codes, quant.Uint16s(scales))
				}
				row := make([]float32, cols)
				for i := range rows {
					quant.DequantizeRow(row, *m, i)
					for c, v := range row {
						if w[i*cols+c] != v {
							t.Fatalf("weight %d,%d: %g, want %g", i, c, w[i*cols+c], v)
						}
					}
				}
				y, size := want(m, x, n)
				for _, add := range []bool{false, true} {
					stride := rows + 3
					out := make([]float32, n*stride)
					for i := range out {
						out[i] = 1
					}
					MatMul(out, stride, w, rows, cols, x, n, add)
					check(t, out, stride, rows, n, add, y, func(i int) float64 { return 4e-7 * (size[i] + 1) })
				}
			})
		}
	}
}

// check compares an output whose elements were 1 before with y, and that what lies between rows is untouched.
func check(t *testing.T, out []float32, stride, rows, n int, add bool, y []float64, tolerance func(i int) float64) {
	t.Helper()
	bad := 0
	for j := range n {
		for r := range stride {
			got, w, tol := float64(out[j*stride+r]), 1.0, 0.0
			if r < rows {
				w, tol = y[j*rows+r], tolerance(j*rows+r)
				if add {
					w++
				}
			}
			if !(math.Abs(got-w) <= tol) && bad < 10 {
				bad++
				t.Errorf("add %v, token %d, row %d: %g, want %g ± %g", add, j, r, got, w, tol)
			}
		}
	}
}

// Products with quantised activations: the quantisation is within half a step of the activation, and the product is
// that of the quantised activations within float32's rounding.
func TestIntegerProducts(t *testing.T) {
	skipWithout(t)
	r := rand.New(rand.NewPCG(3, 4))
	for _, layout := range []quant.Layout{quant.Layout4, quant.Layout8} {
		for _, s := range [][3]int{{1, 32, 1}, {3, 96, 2}, {7, 32, 13}, {64, 576, 1}, {33, 160, 9}, {6, 1536, 4}, {4, 544, 8}, {9, 64, 31}} {
			rows, cols, n := s[0], s[1], s[2]
			t.Run(fmt.Sprint(layout, " ", rows, "×", cols, "·", n), func(t *testing.T) {
				m, x := packed(t, r, layout, rows, cols), random(r, n*cols)
				clear(x[:Group]) // a group of zeros
				a := new(Activations).Grow(n, cols)
				a.Quantize(x, n, cols)
				rounded := make([]float32, len(x))
				for i, v := range x {
					g := i % cols / Group
					scale := a.scale[i/cols*padded(a.groups)+g]
					rounded[i] = scale * float32(a.code[i])
					if math.Abs(float64(rounded[i]-v)) > 0.51*float64(scale) {
						t.Fatalf("activation %d: %g becomes %g in steps of %g", i, v, rounded[i], scale)
					}
				}
				y, size := want(m, rounded, n)
				codes, scales := planes(m)
				scratch := make([]float32, ScratchFor(cols))
				for _, add := range []bool{false, true} {
					stride := rows + 5
					out := make([]float32, n*stride)
					for i := range out {
						out[i] = 1
					}
					if layout == quant.Layout4 {
						MatMul4(out, stride, codes, quant.Uint32s(scales), a, add, scratch)
					} else {
						MatMul8(out, stride, codes, quant.Uint16s(scales), a, add, scratch)
					}
					// A minimum and its codes nearly cancel; size counts only what is left, so allow for the parts.
					check(t, out, stride, rows, n, add, y, func(i int) float64 { return 2e-6 * (size[i] + 10) })
				}
			})
		}
	}
}

func TestShortSlicesPanic(t *testing.T) {
	skipWithout(t)
	a := new(Activations).Grow(1, 64)
	a.Quantize(make([]float32, 64), 1, 64)
	for name, f := range map[string]func(){
		"output":  func() { MatMul(make([]float32, 3), 4, make([]float32, 16), 4, 4, make([]float32, 4), 1, false) },
		"weights": func() { MatMul(make([]float32, 4), 4, make([]float32, 15), 4, 4, make([]float32, 4), 1, false) },
		"codes": func() {
			MatMul4(make([]float32, 4), 4, make([]uint8, 127), make([]uint32, 8), a, false, make([]float32, 99))
		},
		"scratch": func() { MatMul8(make([]float32, 1), 1, make([]uint8, 64), make([]uint16, 2), a, false, nil) },
		"norm":    func() { RMSNorm(make([]float32, 8), make([]float32, 8), make([]float32, 7), 0) },
		"room":    func() { a.Quantize(make([]float32, 96), 1, 96) },
		"halves":  func() { Halves(make([]float32, 3), make([]uint16, 4)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

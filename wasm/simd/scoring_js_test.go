package simd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"kvlens/wasm/quant"
)

// softmaxOf is the definition, in float64.
func softmaxOf(x []float32) []float64 {
	p, sum := make([]float64, len(x)), 0.0
	for i, v := range x {
		p[i] = math.Exp(float64(v - slices.Max(x)))
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

func dot(a, b []float32) (sum float64) {
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return sum
}

func near(t *testing.T, what string, got float32, want float64) {
	t.Helper()
	if !(math.Abs(float64(got)-want) <= 1e-5*math.Abs(want)+1e-6) {
		t.Errorf("%s: %g, want %g", what, got, want)
	}
}

// Every length, and nothing written beyond it.
func TestScoringRows(t *testing.T) {
	skipWithout(t)
	r := rand.New(rand.NewPCG(31, 32))
	for n := range 40 {
		for _, dim := range []int{4, 8, 20, 64} {
			q, k, out := random(r, dim), random(r, n*dim), make([]float32, n+4)
			out[n] = 77
			Logits(out[:n], q, k, 0.25)
			for i := range n {
				near(t, "logit", out[i], 0.25*dot(q, k[i*dim:][:dim]))
			}
			want := softmaxOf(out[:n])
			Softmax(out[:n], make([]float32, n+3))
			for i := range n {
				near(t, "softmax", out[i], want[i])
			}
			if out[n] != 77 {
				t.Fatalf("%d of %d: something is written beyond the row", n, dim)
			}
		}
	}
	inf := float32(math.Inf(-1))
	row := []float32{inf, inf, inf, inf, inf}
	Softmax(row, make([]float32, 8))
	for _, v := range row {
		near(t, "nothing is seen", v, 0)
	}
	row = []float32{inf, 400, inf, 399, inf}
	Softmax(row, make([]float32, 8))
	near(t, "large logits", row[3], 1/(1+math.E))
	near(t, "large logits", row[0], 0)
}

func TestColumns(t *testing.T) {
	skipWithout(t)
	r := rand.New(rand.NewPCG(33, 34))
	for _, c := range []struct{ rows, first, dim, gap int }{
		{1, 0, 4, 0}, {1, 6, 8, 3}, {2, 0, 32, 32}, {3, 5, 64, 128}, {4, 1, 20, 4}, {16, 33, 64, 128}, {7, 0, 8, 0},
	} {
		stride, keys := c.dim+c.gap, c.first+c.rows
		q, k, out := random(r, c.rows*stride), random(r, keys*c.dim), random(r, keys+1)
		want := make([]float64, keys)
		for j := range want {
			want[j] = float64(out[j])
		}
		for i := range c.rows {
			row := make([]float32, c.first+i+1)
			for j := range row {
				row[j] = float32(0.125 * dot(q[i*stride:][:c.dim], k[j*c.dim:][:c.dim]))
			}
			for j, p := range softmaxOf(row) {
				want[j] += p
			}
		}
		last := out[keys]
		Columns(out[:keys], q, c.rows, stride, k, c.dim, c.first, 0.125, make([]float32, ColumnRows*(keys+3)))
		for j := range want {
			near(t, "column", out[j], want[j])
		}
		if out[keys] != last {
			t.Errorf("%+v: something is written beyond the sums", c)
		}
	}
}

func TestMass(t *testing.T) {
	skipWithout(t)
	r := rand.New(rand.NewPCG(37, 38))
	for _, cols := range []int{1, 4, 7, 8, 31, 576} {
		const rows = 3
		x, out := random(r, rows*cols), random(r, rows+1)
		last := out[rows]
		for i := range rows {
			want := float64(out[i])
			for _, v := range x[i*cols:][:cols] {
				want += 0.25 * math.Abs(float64(v))
			}
			one := out[i : i+1]
			Mass(one, x[i*cols:], cols, 0.25)
			near(t, "mass", out[i], want)
		}
		was := out[0]
		Mass(out[:rows], x, cols, -0.25)
		Mass(out[:rows], x, cols, 0.25)
		near(t, "mass of all rows", out[0], float64(was))
		if out[rows] != last {
			t.Errorf("%d: something is written beyond the rows", cols)
		}
	}
}

func TestGather(t *testing.T) {
	skipWithout(t)
	r := rand.New(rand.NewPCG(35, 36))
	for _, half := range []bool{false, true} {
		const lanes, dim = 3, 16
		arena := make([]uint8, 4096)
		for i := range quant.Uint16s(arena) {
			quant.Uint16s(arena)[i] = quant.ToHalf(float32(r.NormFloat64()))
		}
		table, slots := []uint32{256, 16, 512}, []uint32{7, 0, 3, 8, 3}
		out := make([]float32, len(slots)*dim+1)
		Gather(out, arena, table, lanes, half, slots, dim)
		for i, slot := range slots {
			at := arena[4*table[slot/lanes]:][int(slot%lanes)*dim*size(half):]
			for c := range dim {
				var want float32
				if half {
					want = quant.Half(quant.Uint16s(at[:2*dim])[c])
				} else {
					want = quant.Float32s(at[:4*dim])[c]
				}
				if got := out[i*dim+c]; math.Float32bits(got) != math.Float32bits(want) {
					t.Errorf("slot %d, channel %d: %g, want %g", slot, c, got, want)
				}
			}
		}
	}
}

// Sizes that do not fit are a defect of the caller and never reach the module.
func TestScoringChecks(t *testing.T) {
	skipWithout(t)
	x := make([]float32, 64)
	for name, f := range map[string]func(){
		"keys":         func() { Logits(x[:9], x[:8], x, 1) },
		"query":        func() { Logits(x[:1], x[:6], x, 1) },
		"softmax":      func() { Softmax(x[:8], x[:10]) },
		"sums":         func() { Columns(x[:3], x, 4, 8, x, 8, 0, 1, x) },
		"scratch":      func() { Columns(x[:4], x, 4, 8, x, 8, 0, 1, x[:11]) },
		"stride":       func() { Columns(x[:4], x, 4, 4, x, 8, 0, 1, x) },
		"column keys":  func() { Columns(x, x, 4, 8, x[:31], 8, 0, 1, x) },
		"column query": func() { Columns(x, x[:31], 4, 8, x, 8, 0, 1, x) },
		"page":         func() { Gather(x, make([]uint8, 256), []uint32{0}, 2, false, []uint32{2}, 8) },
		"arena":        func() { Gather(x, make([]uint8, 256), []uint32{60}, 2, false, []uint32{0}, 8) },
		"mass":         func() { Mass(x[:9], x, 8, 1) },
		"lanes":        func() { Gather(x[:8], make([]uint8, 256), []uint32{0}, 2, false, []uint32{0, 1}, 8) },
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

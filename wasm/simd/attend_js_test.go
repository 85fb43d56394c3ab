package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"kvlens/wasm/quant"
)

func TestNormAndSiLU(t *testing.T) {
	skipWithout(t)
	r := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{1, 3, 4, 16, 31, 576} {
		x, w := random(r, n), random(r, n)
		x[0] = 23650 // the largest that SmolLM2's residual reaches
		var sum float64
		for _, v := range x {
			sum += float64(v) * float64(v)
		}
		out := make([]float32, n)
		RMSNorm(out, x, w, 1e-5)
		gate, up := random(r, n), random(r, n)
		gate[0] = 120
		gate[n-1] = -120
		silu := make([]float64, n)
		for i, g := range gate {
			silu[i] = float64(g) / (1 + math.Exp(-float64(g))) * float64(up[i])
		}
		SiLUMul(gate, up)
		for i := range out {
			want := float64(x[i]) * float64(w[i]) / math.Sqrt(sum/float64(n)+1e-5)
			if !(math.Abs(float64(out[i])-want) <= 1e-6*math.Abs(want)+1e-12) {
				t.Errorf("norm of %d, %d: %g, want %g", n, i, out[i], want)
			}
			if !(math.Abs(float64(gate[i])-silu[i]) <= 1e-6*math.Abs(silu[i])+1e-30) {
				t.Errorf("silu of %d, %d: %g, want %g", n, i, gate[i], silu[i])
			}
		}
	}
}

// Every half that is a number converts exactly, subnormal ones included.
func TestHalves(t *testing.T) {
	skipWithout(t)
	var h []uint16
	for i := range 1 << 16 {
		if i&0x7C00 != 0x7C00 {
			h = append(h, uint16(i))
		}
	}
	h = h[:len(h)-3] // no multiple of a vector
	out := make([]float32, len(h))
	Halves(out, h)
	for i, v := range out {
		if math.Float32bits(v) != math.Float32bits(quant.Half(h[i])) {
			t.Fatalf("%#04x: %g, want %g", h[i], v, quant.Half(h[i]))
		}
	}
}

// shape is one case of attention.
type shape struct {
	rows, heads, dim, slots, first, keyLanes, valueLanes int
	dead                                                 int // every dead-th slot holds no token; 0: none
	half                                                 bool
	noNew                                                bool
}

// made is a case with its numbers.
type made struct {
	q          Queries
	p          Pages
	r          Rows
	keys, vals [][]float32 // of the stored tokens that live
}

func newCase(r *rand.Rand, s shape) made {
	const heads = 2 // another key-value head lies between the rows
	m := made{q: Queries{
		Rows: s.rows, Heads: s.heads, Dim: s.dim, Stride: s.heads*s.dim + 8, Scale: float32(1 / math.Sqrt(float64(s.dim))),
		Work: make([]float32, WorkFor(s.rows, s.heads, s.dim)),
	}}
	m.q.Q, m.q.Out = random(r, s.rows*m.q.Stride), random(r, s.rows*m.q.Stride)
	size := 4
	if s.half {
		size = 2
	}
	words := 5
	pages := func(lanes, lane int) (table []uint32) {
		for i := 0; i*lanes < s.slots; i++ {
			table = append(table, uint32(words))
			words += (lanes*lane+3)/4 + i%3
		}
		r.Shuffle(len(table), func(i, j int) { table[i], table[j] = table[j], table[i] })
		return table
	}
	m.p = Pages{KeyLanes: s.keyLanes, ValueLanes: s.valueLanes, KeyHalf: s.half, ValueHalf: s.half, Slots: s.slots}
	m.p.Keys, m.p.Values, m.p.Positions = pages(s.keyLanes, s.dim*size), pages(s.valueLanes, s.dim*size), pages(8, 4)
	m.p.Arena = make([]uint8, words*4)
	put := func(table []uint32, lanes, slot int) []float32 {
		at := m.p.Arena[int(table[slot/lanes])*4+slot%lanes*s.dim*size:]
		x := random(r, s.dim)
		for i := range x {
			if s.half {
				quant.Uint16s(at[:s.dim*2])[i] = quant.ToHalf(x[i])
				x[i] = quant.Half(quant.ToHalf(x[i]))
			} else {
				quant.Float32s(at[:s.dim*4])[i] = x[i]
			}
		}
		return x
	}
	for slot := range s.slots {
		k, v := put(m.p.Keys, s.keyLanes, slot), put(m.p.Values, s.valueLanes, slot)
		position := uint32(slot)
		if s.dead > 0 && slot%s.dead == 0 {
			position = 0xFFFFFFFF
		} else {
			m.keys, m.vals = append(m.keys, k), append(m.vals, v)
		}
		quant.Uint32s(m.p.Arena[int(m.p.Positions[slot/8])*4+slot%8*4:][:4])[0] = position
	}
	if !s.noNew {
		m.r = Rows{Stride: heads * s.dim, First: s.first}
		m.r.K, m.r.V = random(r, (s.first+s.rows)*m.r.Stride), random(r, (s.first+s.rows)*m.r.Stride)
	}
	return m
}

// want is the definition in float64.
func (m *made) want(row, head int) []float64 {
	keys, vals := m.keys, m.vals
	for j := 0; m.r.K != nil && j <= m.r.First+row; j++ {
		keys = append(keys[:len(keys):len(keys)], m.r.K[j*m.r.Stride:][:m.q.Dim])
		vals = append(vals[:len(vals):len(vals)], m.r.V[j*m.r.Stride:][:m.q.Dim])
	}
	out := make([]float64, m.q.Dim)
	logits, top, sum := make([]float64, len(keys)), math.Inf(-1), 0.0
	for j, k := range keys {
		for d, v := range k {
			logits[j] += float64(v) * float64(m.q.Q[row*m.q.Stride+head*m.q.Dim+d]) * float64(m.q.Scale)
		}
		top = max(top, logits[j])
	}
	for j := range keys {
		sum += math.Exp(logits[j] - top)
	}
	for j, v := range vals {
		for d := range out {
			out[d] += math.Exp(logits[j]-top) / sum * float64(v[d])
		}
	}
	return out
}

func TestAttend(t *testing.T) {
	skipWithout(t)
	r := rand.New(rand.NewPCG(9, 10))
	for _, s := range []shape{
		{rows: 1, heads: 3, dim: 64, slots: 70, keyLanes: 8, valueLanes: 8, half: true, noNew: true},
		{rows: 1, heads: 1, dim: 8, slots: 1, keyLanes: 1, valueLanes: 3, noNew: true},
		{rows: 1, heads: 3, dim: 16, slots: 33, keyLanes: 2, valueLanes: 5, dead: 3, noNew: true},
		{rows: 16, heads: 3, dim: 64, keyLanes: 8, valueLanes: 8, half: true},
		{rows: 5, heads: 3, dim: 32, keyLanes: 8, valueLanes: 8, first: 61},
		{rows: 7, heads: 2, dim: 24, slots: 45, keyLanes: 32, valueLanes: 1, dead: 2, half: true, first: 30},
		{rows: 16, heads: 1, dim: 64, slots: 64, keyLanes: 8, valueLanes: 8, first: 16},
		{rows: 2, heads: 2, dim: 8, slots: 9, keyLanes: 3, valueLanes: 8, dead: 1, noNew: true}, // nothing lives
	} {
		t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) {
			m := newCase(r, s)
			before := append([]float32(nil), m.q.Out...)
			Attend(&m.q, &m.p, &m.r)
			bad := 0
			for row := range s.rows {
				for i := range m.q.Stride {
					at := row*m.q.Stride + i
					want, tol := float64(before[at]), 0.0
					if i < s.heads*s.dim {
						want, tol = m.want(row, i/s.dim)[i%s.dim], 2e-5
					}
					if got := float64(m.q.Out[at]); !(math.Abs(got-want) <= tol*(1+math.Abs(want))) && bad < 10 {
						bad++
						t.Errorf("row %d, element %d: %g, want %g", row, i, got, want)
					}
				}
			}
		})
	}
}

// A page table that points outside the arena is found before the module reads there.
func TestPagesOutside(t *testing.T) {
	skipWithout(t)
	r := rand.New(rand.NewPCG(11, 12))
	for i := range 3 {
		m := newCase(r, shape{rows: 1, heads: 1, dim: 8, slots: 20, keyLanes: 8, valueLanes: 8, noNew: true})
		table := [][]uint32{m.p.Keys, m.p.Values, m.p.Positions}[i]
		table[1] = uint32(len(m.p.Arena) / 4)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("table %d: no panic", i)
				}
			}()
			Attend(&m.q, &m.p, &m.r)
		}()
	}
}

package simd

import "fmt"

// RMSNorm sets out = x·w/√(mean(x²)+eps).
func RMSNorm(out, x, w []float32, eps float32) {
	n := len(out)
	need("norm input", len(x), n)
	need("norm weights", len(w), n)
	if n > 0 {
		rmsnorm(&out[0], &x[0], &w[0], int32(n), eps)
	}
}

// SiLUMul sets gate = gate/(1+e^−gate)·up.
func SiLUMul(gate, up []float32) {
	need("up", len(up), len(gate))
	if len(gate) > 0 {
		silumul(&gate[0], &up[0], int32(len(gate)))
	}
}

// Queries are rows of the query heads that share one key-value head: row t, head g is Dim floats at t·Stride + g·Dim of
// Q, and of Out.
type Queries struct {
	Q, Out                   []float32
	Rows, Heads, Stride, Dim int
	Scale                    float32   // of the logits
	Work                     []float32 // WorkFor(Rows, Heads, Dim) floats
}

const tile = 32 // keys that are weighed at once

// Pages are the pages of one list, of half floats or floats. Tables hold offsets from the start of Arena in words; slot i
// is lane i mod Lanes of page i div Lanes, its position word lane i mod 8 of its position page, 0xFFFFFFFF if the slot is
// dead.
type Pages struct {
	Arena                   []uint8
	Keys, Values, Positions []uint32
	KeyLanes, ValueLanes    int
	KeyHalf, ValueHalf      bool
	Slots                   int
}

// Rows are keys and values as floats: row j is Dim floats at j·Stride. Query row t sees rows 0…First+t.
type Rows struct {
	K, V          []float32
	Stride, First int
}

// WorkFor is the scratch of an attention in floats.
func WorkFor(rows, heads, dim int) int { return 2*rows*heads + tile*(3+2*dim) }

// Attend is the softmax over the live slots of p and the visible rows of r of q's logits, times the values. Either may be
// empty; a query that sees nothing gets zeros. Dim is a multiple of 8.
func Attend(q *Queries, p *Pages, r *Rows) {
	q.check()
	p.check(q.Dim)
	rows := 0
	if len(r.K) > 0 {
		rows = r.First + q.Rows
		need("new keys", len(r.K), (rows-1)*r.Stride+q.Dim)
		need("new values", len(r.V), (rows-1)*r.Stride+q.Dim)
	}
	attend(&q.Q[0], &q.Out[0], int32(q.Rows), int32(q.Heads), int32(q.Stride), int32(q.Dim), q.Scale,
		first(p.Arena), first(p.Keys), int32(p.KeyLanes), flag(p.KeyHalf), first(p.Values), int32(p.ValueLanes), flag(p.ValueHalf),
		first(p.Positions), int32(p.Slots), first(r.K), first(r.V), int32(r.Stride), int32(rows), int32(r.First+1), &q.Work[0])
}

// first points to the first element, if there is one.
func first[T any](s []T) *T {
	if len(s) == 0 {
		return nil
	}
	return &s[0]
}

func (q *Queries) check() {
	if q.Rows <= 0 || q.Heads <= 0 || q.Dim <= 0 || q.Dim%8 != 0 || q.Stride < q.Heads*q.Dim {
		panic(fmt.Sprintf("simd: %d rows of %d heads of %d, stride %d", q.Rows, q.Heads, q.Dim, q.Stride))
	}
	size := (q.Rows-1)*q.Stride + q.Heads*q.Dim
	need("queries", len(q.Q), size)
	need("output", len(q.Out), size)
	need("work", len(q.Work), WorkFor(q.Rows, q.Heads, q.Dim))
}

// check makes sure that every page that the slots need lies in the arena.
func (p *Pages) check(dim int) {
	if p.Slots == 0 {
		return
	}
	if p.KeyLanes <= 0 || p.ValueLanes <= 0 {
		panic("simd: pages without lanes")
	}
	p.inside(p.Keys, p.KeyLanes, dim*size(p.KeyHalf))
	p.inside(p.Values, p.ValueLanes, dim*size(p.ValueHalf))
	p.inside(p.Positions, 8, 4)
}

func (p *Pages) inside(table []uint32, lanes, lane int) {
	pages := (p.Slots + lanes - 1) / lanes
	need("page table", len(table), pages)
	for _, at := range table[:pages] {
		need("arena", len(p.Arena), int(at)*4+lanes*lane)
	}
}

func size(half bool) int {
	if half {
		return 2
	}
	return 4
}

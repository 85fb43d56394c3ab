package ref

import (
	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// Loops are the inner loops that make a CPU backend; everything around them (memory, checks, order, threads) is
// [Backend]. With several workers a method is called from several goroutines at once, on disjoint parts of its output.
type Loops interface {
	// RMSNorm sets dst = x·w/√(mean(x²)+eps), for one row.
	RMSNorm(dst, x, w []float32, eps float32)

	// MatMul multiplies rows [from, to) of w with n vectors of w.Cols elements that lie one after the other in x:
	// dst[t·stride + r−from] = Σ_k w[r][k]·x[t·w.Cols + k], or += when add is set.
	MatMul(dst []float32, stride int, w *quant.Matrix, from, to int, x []float32, n int, add bool)

	// Rope rotates the first len(cs) channels of one head x in place; cs is [len(cs)/2][2] of cos and sin. Pairs are
	// (2i, 2i+1), or with neox (i, i+len(cs)/2).
	Rope(x, cs []float32, neox bool)

	// SiLUMul sets gate = gate/(1+e^−gate)·up.
	SiLUMul(gate, up []float32)

	// Attend computes a.Out.
	Attend(a *Attention)

	// Work is how many floats of scratch a call of Attend needs.
	Work(s *step.Shape) int
}

// AttendRows is the largest number of query rows in one call of Attend.
const AttendRows = 16

// Attention is the work of one KV head: some rows of the query heads that share it, over the stored tokens of its list
// and then over new rows that are not stored yet. G is the number of query heads, D the head dimension.
type Attention struct {
	Pages

	Rows, Heads, Dim int       // rows of queries, G, D
	Q, Out           []float32 // row t, head g at [t·Stride + g·Dim], Dim elements each
	Stride           int
	Scale            float32 // of the logits, 1/√D

	// New keys and values: row j at [j·NewStride], Dim elements. Query row t sees the new rows 0…First+t; there are none
	// where NewK is nil. Stored tokens are seen by every row, but for dead slots.
	NewK, NewV       []float32
	NewStride, First int

	Work []float32 // scratch of Loops.Work elements, with any content
}

// Visible is how many new rows query row t sees.
func (a *Attention) Visible(t int) int {
	if a.NewK == nil {
		return 0
	}
	return a.First + t + 1
}

// Pages finds the lanes of one list in the arena.
type Pages struct {
	Arena []byte
	List  *cache.List
	Geo   cache.Geometry
}

// Key is the lane that holds the key of a slot: Geo.HeadDim numbers in the format Geo.Key.
func (p *Pages) Key(slot int) []byte {
	size := p.Geo.HeadDim * p.Geo.Key.Bytes()
	at := int(p.List.Keys[slot/p.Geo.PageK])*4 + slot%p.Geo.PageK*size
	return p.Arena[at:][:size]
}

// Value is the lane that holds the value of a slot.
func (p *Pages) Value(slot int) []byte {
	size := p.Geo.HeadDim * p.Geo.Value.Bytes()
	at := int(p.List.Values[slot/p.Geo.PageV])*4 + slot%p.Geo.PageV*size
	return p.Arena[at:][:size]
}

// Position is the word that holds the position of a slot, cache.DeadPosition if there is no token.
func (p *Pages) Position(slot int) *uint32 {
	at := int(p.List.Positions[slot/cache.PosLanes])*4 + slot%cache.PosLanes*4
	return &quant.Uint32s(p.Arena[at:][:4])[0]
}

// unpack writes the numbers of a lane.
func unpack(dst []float32, f cache.Format, lane []byte) {
	if f == cache.F32 {
		copy(dst, quant.Float32s(lane))
		return
	}
	halves := quant.Uint16s(lane)
	dst = dst[:len(halves)]
	for i, h := range halves {
		dst[i] = quant.Half(h)
	}
}

// pack rounds numbers to the format of a lane, to nearest even.
func pack(lane []byte, f cache.Format, src []float32) {
	if f == cache.F32 {
		copy(quant.Float32s(lane), src)
		return
	}
	halves := quant.Uint16s(lane)
	src = src[:len(halves)]
	for i, v := range src {
		halves[i] = quant.ToHalf(v)
	}
}

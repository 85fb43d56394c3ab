package ref

import (
	"kvlens/cache/policy"
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

	// Loops are those of scoring.
	policy.Loops

	// Gather unpacks the lanes of slots, one after the other.
	Gather(dst []float32, l *Lanes, slots []uint32)

	// Columns adds to c.Out.
	Columns(c *Columns)

	// Mass adds by·‖x[i]‖₁ to out[i], for rows x[i] of cols floats that lie one after the other.
	Mass(out, x []float32, cols int, by float32)
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

// Columns is the attention that rows of one query head give to keys, summed over the rows.
type Columns struct {
	Q            []float32 // row t at [t·Stride], Dim elements
	Rows, Stride int
	K            []float32 // [keys][Dim]
	Dim          int
	First        int // row t sees keys 0…First+t
	Scale        float32
	Out          []float32 // [keys]
	Work         []float32 // scratch of ColumnRows rows of len(Out) floats, with any content
}

// ColumnRows is how many rows of scratch Columns needs.
const ColumnRows = 3

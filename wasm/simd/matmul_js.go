package simd

import "fmt"

// Group is the number of weights, and of activations, that share one scale.
const Group = 32

// Available tells whether the browser runs the module. If not, no other function may be called.
func Available() bool { return available() != 0 }

// need panics unless a slice of have elements holds want.
func need(what string, have, want int) {
	if have < want || want < 0 {
		panic(fmt.Sprintf("simd: %s: %d elements instead of %d", what, have, want))
	}
}

func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// padded is the length of a row of scales: whole vectors.
func padded(groups int) int { return (groups + 3) &^ 3 }

// Activations are rows of activations, quantised to int16 in groups of 32: x ≈ code·scale. Sum is scale·Σcode.
type Activations struct {
	rows, groups int
	code         []int16 // [rows][cols]
	scale, sum   []float32
}

// Bytes is the memory behind a, for the ledger.
func (a *Activations) Bytes() int64 {
	if a == nil {
		return 0
	}
	return int64(2*cap(a.code) + 4*cap(a.scale) + 4*cap(a.sum))
}

// Grow returns a, or a new one, with room for rows of cols activations, which is a multiple of 32 or is rounded up to one.
// What a held is lost.
func (a *Activations) Grow(rows, cols int) *Activations {
	groups := (cols + Group - 1) / Group
	code, scales := rows*groups*Group, rows*padded(groups)
	if a == nil || cap(a.code) < code || cap(a.scale) < scales {
		a = &Activations{code: make([]int16, code), scale: make([]float32, scales), sum: make([]float32, scales)}
	}
	return a
}

// Quantize fills a with rows of cols activations that lie one after the other. Cols is a multiple of 32, and a has room.
func (a *Activations) Quantize(x []float32, rows, cols int) {
	need("activations", len(x), rows*cols)
	if rows <= 0 || cols <= 0 || cols%Group != 0 {
		panic(fmt.Sprintf("simd: %d rows of %d activations: want a multiple of %d", rows, cols, Group))
	}
	a.rows, a.groups = rows, cols/Group
	n := rows * padded(a.groups)
	need("quantised activations", cap(a.code), rows*cols)
	need("scales", cap(a.scale), n)
	a.code, a.scale, a.sum = a.code[:rows*cols], a.scale[:n], a.sum[:n]
	quantize(&x[0], int32(rows), int32(a.groups), &a.code[0], &a.scale[0], &a.sum[0])
}

// product checks what the two products of quantised activations share, and returns the rows of weights. The scratch
// of a product is 8·padded(groups) floats.
func (a *Activations) product(out []float32, stride, codes, bits, scales int, scratch []float32) (rows int) {
	rows = scales / a.groups
	if scales%a.groups != 0 || rows == 0 || stride < rows && a.rows > 1 {
		panic(fmt.Sprintf("simd: %d scales of %d groups, stride %d", scales, a.groups, stride))
	}
	need("codes", codes, rows*a.groups*Group*bits/8)
	need("output", len(out), (a.rows-1)*stride+rows)
	need("scratch", len(scratch), ScratchFor(a.groups*Group))
	return rows
}

// ScratchFor is the scratch, in floats, of a product with rows of cols weights.
func ScratchFor(cols int) int { return 8 * padded(cols/Group) }

// MatMul4 multiplies rows of 4-bit weights with a: out[t·stride + r] = W[r]·a[t], or += with add. Codes are [rows][cols/2]
// bytes, scales [rows][cols/32] words, as quant.Layout4 has them.
func MatMul4(out []float32, stride int, codes []uint8, scales []uint32, a *Activations, add bool, scratch []float32) {
	rows := a.product(out, stride, len(codes), 4, len(scales), scratch)
	matmul4(&codes[0], &scales[0], int32(rows), int32(a.groups), &a.code[0], &a.scale[0], &a.sum[0], int32(a.rows),
		&out[0], int32(stride), flag(add), &scratch[0])
}

// MatMul8 is MatMul4 for 8-bit weights: codes are [rows][cols] int8, scales [rows][cols/32] half floats, as quant.Layout8
// has them.
func MatMul8(out []float32, stride int, codes []uint8, scales []uint16, a *Activations, add bool, scratch []float32) {
	rows := a.product(out, stride, len(codes), 8, len(scales), scratch)
	matmul8(&codes[0], &scales[0], int32(rows), int32(a.groups), &a.code[0], &a.scale[0], &a.sum[0], int32(a.rows),
		&out[0], int32(stride), flag(add), &scratch[0])
}

// MatMul multiplies rows of w with n vectors x, both of cols floats: out[t·stride + r] = w[r]·x[t], or += with add.
func MatMul(out []float32, stride int, w []float32, rows, cols int, x []float32, n int, add bool) {
	need("weights", len(w), rows*cols)
	need("activations", len(x), n*cols)
	need("output", len(out), (n-1)*stride+rows)
	if rows <= 0 || cols <= 0 || n <= 0 || stride < rows && n > 1 {
		panic(fmt.Sprintf("simd: %d × %d weights, %d vectors, stride %d", rows, cols, n, stride))
	}
	matmulf(&w[0], int32(rows), int32(cols), &x[0], int32(n), &out[0], int32(stride), flag(add))
}

// Halves converts half floats. Infinity and NaN become large finite numbers.
func Halves(out []float32, h []uint16) {
	need("floats", len(out), len(h))
	if len(h) > 0 {
		halves(&h[0], int32(len(h)), &out[0])
	}
}

// Weights4 unpacks 4-bit weights (see MatMul4) to floats: code·scale + minimum.
func Weights4(out []float32, codes []uint8, scales []uint32) {
	need("codes", len(codes), len(scales)*Group/2)
	need("floats", len(out), len(scales)*Group)
	if len(scales) > 0 {
		weights4(&codes[0], &scales[0], int32(len(scales)), &out[0])
	}
}

// Weights8 unpacks 8-bit weights (see MatMul8) to floats: code·scale.
func Weights8(out []float32, codes []uint8, scales []uint16) {
	need("codes", len(codes), len(scales)*Group)
	need("floats", len(out), len(scales)*Group)
	if len(scales) > 0 {
		weights8(&codes[0], &scales[0], int32(len(scales)), &out[0])
	}
}

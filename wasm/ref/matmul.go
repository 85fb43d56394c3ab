package ref

import "kvlens/wasm/quant"

// Weights are unpacked in tiles of tileRows × tileCols floats (12 KiB), each used for all vectors at once.
const tileRows, tileCols = 12, 256

// MatMul works on unpacked tiles; a single vector takes packed weights straight from their codes.
func (f32) MatMul(dst []float32, stride int, w *quant.Matrix, from, to int, x []float32, n int, add bool) {
	if n == 1 && (w.Layout == quant.Layout4 || w.Layout == quant.Layout8) {
		matVec(dst, w, from, to, x, add)
		return
	}
	var tile [tileRows * tileCols]float32
	for r := from; r < to; r += tileRows {
		rows := min(tileRows, to-r)
		for c := 0; c < w.Cols; c += tileCols {
			cols := min(tileCols, w.Cols-c)
			for i := range rows {
				unpackWeights(tile[i*tileCols:][:cols], w, r+i, c)
			}
			mulTile(dst[r-from:], stride, tile[:], tileCols, rows, x[c:], w.Cols, n, cols, add || c > 0)
		}
	}
}

// unpackWeights computes the weights of a row from column c on; in layouts with groups, c and len(dst) are multiples of
// a group.
func unpackWeights(dst []float32, w *quant.Matrix, row, c int) {
	codes := w.Codes(row)
	switch w.Layout {
	case quant.LayoutF32:
		copy(dst, quant.Float32s(codes)[c:])
	case quant.LayoutF16:
		for i, h := range quant.Uint16s(codes)[c:][:len(dst)] {
			dst[i] = quant.Half(h)
		}
	case quant.Layout4:
		scales := quant.Uint32s(w.Scales(row))[c/group:]
		for g := range len(dst) / group {
			scale, minimum := quant.Half(uint16(scales[g])), quant.Half(uint16(scales[g]>>16))
			q, y := (*[16]byte)(codes[c/2+g*16:]), (*[group]float32)(dst[g*group:])
			for j, b := range q {
				y[j] = lowNibble[b]*scale + minimum
				y[j+16] = highNibble[b]*scale + minimum
			}
		}
	case quant.Layout8:
		scales := quant.Uint16s(w.Scales(row))[c/group:]
		for g := range len(dst) / group {
			scale := quant.Half(scales[g])
			q, y := (*[group]byte)(codes[c+g*group:]), (*[group]float32)(dst[g*group:])
			for j, b := range q {
				y[j] = signedByte[b] * scale
			}
		}
	}
}

const group = quant.GroupSize

// Codes as numbers: low and high nibble of a byte, and a signed byte. One load instead of a mask, a shift and a
// conversion.
var lowNibble, highNibble, signedByte = func() (low, high, signed [256]float32) {
	for b := range low {
		low[b], high[b], signed[b] = float32(b&15), float32(b>>4), float32(int8(b))
	}
	return
}()

// sumsAtOnce is how many groups of x have their sums on the stack.
const sumsAtOnce = 128

// matVec multiplies rows [from, to) of a packed matrix with one vector. With code·scale + minimum for a weight, a group
// adds scale·Σ code·x + minimum·Σ x, and Σ x is the same for all rows. Two rows at a time share the loads of x.
func matVec(dst []float32, w *quant.Matrix, from, to int, x []float32, add bool) {
	var sums [sumsAtOnce]float32
	for first := 0; first < w.Cols; first += sumsAtOnce * group {
		part := x[first:min(first+sumsAtOnce*group, w.Cols)]
		if w.Layout == quant.Layout4 {
			groupSums(&sums, part)
		}
		for r := from; r < to; r += 2 {
			other := min(r+1, to-1) // the same row again where there is no second one
			var s0, s1 float32
			if w.Layout == quant.Layout4 {
				s0, s1 = dots4bit(w.Codes(r)[first/2:], w.Codes(other)[first/2:],
					quant.Uint32s(w.Scales(r))[first/group:], quant.Uint32s(w.Scales(other))[first/group:], part, &sums)
			} else {
				s0, s1 = dots8bit(w.Codes(r)[first:], w.Codes(other)[first:],
					quant.Uint16s(w.Scales(r))[first/group:], quant.Uint16s(w.Scales(other))[first/group:], part)
			}
			if add || first > 0 {
				s0, s1 = s0+dst[r-from], s1+dst[other-from]
			}
			dst[r-from], dst[other-from] = s0, s1
		}
	}
}

func groupSums(sums *[sumsAtOnce]float32, x []float32) {
	for g := range len(x) / group {
		sums[g] = 0
		for _, v := range x[g*group:][:group] {
			sums[g] += v
		}
	}
}

// dots4bit is the product of some groups of two rows in Layout4 with x; sums are the groups' sums of x.
func dots4bit(q0, q1 []byte, scales0, scales1 []uint32, x []float32, sums *[sumsAtOnce]float32) (s0, s1 float32) {
	low, high := &lowNibble, &highNibble
	n := min(len(x)/group, len(sums))
	scales0, scales1 = scales0[:n], scales1[:n]
	for g := range n {
		c0, c1 := (*[16]byte)(q0[g*16:]), (*[16]byte)(q1[g*16:])
		v := (*[group]float32)(x[g*group:])
		var a, b, c, d float32
		for j := range c0 {
			m, n := c0[j], c1[j]
			x, y := v[j], v[j+16]
			a += low[m] * x
			b += high[m] * y
			c += low[n] * x
			d += high[n] * y
		}
		scale, minimum := quant.Half(uint16(scales0[g])), quant.Half(uint16(scales0[g]>>16))
		s0 += (a+b)*scale + sums[g]*minimum
		scale, minimum = quant.Half(uint16(scales1[g])), quant.Half(uint16(scales1[g]>>16))
		s1 += (c+d)*scale + sums[g]*minimum
	}
	return s0, s1
}

// dots8bit is the product of some groups of two rows in Layout8 with x.
func dots8bit(q0, q1 []byte, scales0, scales1 []uint16, x []float32) (s0, s1 float32) {
	signed := &signedByte
	n := len(x) / group
	scales0, scales1 = scales0[:n], scales1[:n]
	for g := range n {
		c0, c1 := (*[group]byte)(q0[g*group:]), (*[group]byte)(q1[g*group:])
		v := (*[group]float32)(x[g*group:])
		var a, b, c, d float32
		for j := 0; j < group; j += 2 {
			x, y := v[j], v[j+1]
			a += signed[c0[j]] * x
			b += signed[c0[j+1]] * y
			c += signed[c1[j]] * x
			d += signed[c1[j+1]] * y
		}
		s0 += (a + b) * quant.Half(scales0[g])
		s1 += (c + d) * quant.Half(scales1[g])
	}
	return s0, s1
}

// Package quant knows the block formats of GGUF tensors and the aligned planes that the engine computes on.
//
// A GGUF block mixes codes and scales, so its fields are rarely aligned. Every tensor is therefore repacked once, when
// it is loaded, into planes: one plane of codes and one of scales. The repack moves bits and rounds nothing.
package quant

import "fmt"

// Type is a tensor type as GGUF numbers them (ggml_type).
type Type uint32

// The types that the engine reads.
const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q4_1 Type = 3
	Q8_0 Type = 8
)

// typeNames are the types that a file may name, whether the engine reads them or not: a refusal should say what was met.
var typeNames = map[Type]string{
	F32: "F32", F16: "F16", Q4_0: "Q4_0", Q4_1: "Q4_1", 6: "Q5_0", 7: "Q5_1", Q8_0: "Q8_0", 9: "Q8_1",
	10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K",
	16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS",
	24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0",
	39: "MXFP4", 40: "NVFP4", 41: "Q1_0", 42: "Q2_0",
}

func (t Type) String() string {
	if s, ok := typeNames[t]; ok {
		return s
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Block gives the number of weights in one block of a type and its size in bytes; zeros for types that the engine does
// not read.
func (t Type) Block() (weights, bytes int) {
	switch t {
	case F32:
		return 1, 4
	case F16:
		return 1, 2
	case Q4_0:
		return 32, 18
	case Q4_1:
		return 32, 20
	case Q8_0:
		return 32, 34
	}
	return 0, 0
}

// RowSize is the size in bytes of a row of cols weights in a file.
func (t Type) RowSize(cols int) (int64, error) {
	n, size := t.Block()
	if n == 0 {
		return 0, fmt.Errorf("quant: %v is not supported", t)
	}
	if cols <= 0 || cols%n != 0 {
		return 0, fmt.Errorf("quant: a row of %d weights is no whole number of %v blocks of %d", cols, t, n)
	}
	return int64(cols/n) * int64(size), nil
}

// GroupSize is the number of weights that share one scale, in every packed layout.
const GroupSize = 32

// Layout says how a matrix lies in memory after the repack. Rows are output features, a row holds Cols input features.
// Planes start at multiples of 16 bytes from the start of the matrix; rows lie one after the other, without padding.
type Layout uint8

const (
	// LayoutF32 is one plane of little-endian float32, [rows][cols].
	LayoutF32 Layout = iota
	// LayoutF16 is one plane of IEEE half floats, [rows][cols].
	LayoutF16
	// Layout4 has a code plane, [rows][cols/32][16 bytes] (byte j of a group: weight j in the low nibble, weight j+16
	// in the high one, codes 0…15), and a scale plane, [rows][cols/32] of u32 = scale f16 | minimum f16 << 16.
	// Weight = code·scale + minimum.
	Layout4
	// Layout8 has a code plane, [rows][cols] of int8, and a scale plane, [rows][cols/32] of f16.
	// Weight = code·scale.
	Layout8
)

func (l Layout) String() string {
	switch l {
	case LayoutF32:
		return "f32"
	case LayoutF16:
		return "f16"
	case Layout4:
		return "4-bit"
	case Layout8:
		return "8-bit"
	}
	return fmt.Sprintf("layout %d", uint8(l))
}

// LayoutOf is the layout that a type is repacked to.
func LayoutOf(t Type) (Layout, error) {
	switch t {
	case F32:
		return LayoutF32, nil
	case F16:
		return LayoutF16, nil
	case Q4_0, Q4_1:
		return Layout4, nil
	case Q8_0:
		return Layout8, nil
	}
	return 0, fmt.Errorf("quant: %v is not supported", t)
}

// CodeBytes is the size in bytes of one row in the code plane. Cols is a multiple of GroupSize in the layouts that have
// scales.
func (l Layout) CodeBytes(cols int) int {
	switch l {
	case LayoutF32:
		return cols * 4
	case LayoutF16:
		return cols * 2
	case Layout4:
		return cols / 2
	default:
		return cols
	}
}

// ScaleBytes is the size in bytes of one row in the scale plane, 0 where there is none.
func (l Layout) ScaleBytes(cols int) int {
	switch l {
	case Layout4:
		return cols / GroupSize * 4
	case Layout8:
		return cols / GroupSize * 2
	default:
		return 0
	}
}

// Planes gives the offset of the scale plane from the start of a matrix and the size of both planes, in bytes. Without a
// scale plane both are the end of the code plane.
func (l Layout) Planes(rows, cols int) (scaleOff, total int64) {
	codes, scales := int64(rows)*int64(l.CodeBytes(cols)), int64(rows)*int64(l.ScaleBytes(cols))
	if scales == 0 {
		return codes, codes
	}
	scaleOff = (codes + 15) &^ 15
	return scaleOff, scaleOff + scales
}

// Size is the size of a matrix in bytes.
func (l Layout) Size(rows, cols int) int64 {
	_, total := l.Planes(rows, cols)
	return total
}

// Matrix is a packed matrix in host memory.
type Matrix struct {
	Layout     Layout
	Rows, Cols int
	Data       []byte // Size(Layout, Rows, Cols) bytes: planes in order
}

// Codes is row r of the code plane, not a copy.
func (m *Matrix) Codes(r int) []byte {
	n := m.Layout.CodeBytes(m.Cols)
	return m.Data[r*n:][:n:n]
}

// Scales is row r of the scale plane, not a copy.
func (m *Matrix) Scales(r int) []byte {
	off, _ := m.Layout.Planes(m.Rows, m.Cols)
	n := m.Layout.ScaleBytes(m.Cols)
	return m.Data[int(off)+r*n:][:n:n]
}

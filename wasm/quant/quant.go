// Package quant knows the block formats of GGUF tensors and the aligned planes that the engine computes on.
//
// A GGUF block mixes codes and scales, so its fields are rarely aligned. Every tensor is therefore repacked once, when
// it is loaded, into planes: one plane of codes and one of scales. The repack moves bits and rounds nothing.
package quant

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

// Matrix is a packed matrix in host memory.
type Matrix struct {
	Layout     Layout
	Rows, Cols int
	Data       []byte // Size(Layout, Rows, Cols) bytes: planes in order
}

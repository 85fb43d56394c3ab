package quant

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrScale is wrapped by the errors about a scale, minimum or weight that no packed matrix may hold: NaN, infinity, or a
// Q4_0 scale whose minimum (−8·scale) has no half float.
var ErrScale = errors.New("number out of range")

// Repack writes whole rows of a file's tensor to a code plane and a scale plane. src holds rows of cols weights, codes
// and scales are exactly as long as those rows are in the type's layout. No number is rounded: a packed weight equals
// the file's. On an error the planes hold part of the rows.
func Repack(t Type, src []byte, cols int, codes, scales []byte) error {
	size, err := t.RowSize(cols)
	if err != nil {
		return err
	}
	l, err := LayoutOf(t)
	if err != nil {
		return err
	}
	rows := len(src) / int(size)
	if len(src)%int(size) != 0 || len(codes) != rows*l.CodeBytes(cols) || len(scales) != rows*l.ScaleBytes(cols) {
		return fmt.Errorf("quant: repack of %v rows of %d: %d bytes do not fill planes of %d and %d",
			t, cols, len(src), len(codes), len(scales))
	}
	switch t {
	case F32:
		return repackF32(src, codes)
	case F16:
		return repackF16(src, codes)
	case Q4_0:
		return repackQ4(t, src, codes, scales)
	case Q4_1:
		return repackQ4(t, src, codes, scales)
	default:
		return repackQ8(src, codes, scales)
	}
}

func repackF32(src, dst []byte) error {
	for i := 0; i < len(src); i += 4 {
		if bits := binary.LittleEndian.Uint32(src[i:]); bits&0x7F800000 == 0x7F800000 {
			return scaleError(F32, i/4, math.Float32frombits(bits))
		}
	}
	copy(dst, src)
	return nil
}

func repackF16(src, dst []byte) error {
	for i := 0; i < len(src); i += 2 {
		if h := binary.LittleEndian.Uint16(src[i:]); !finite(h) {
			return scaleError(F16, i/2, Half(h))
		}
	}
	copy(dst, src)
	return nil
}

// repackQ4 serves Q4_0 and Q4_1, whose nibbles already lie as Layout4 wants them.
func repackQ4(t Type, src, codes, scales []byte) error {
	_, size := t.Block()
	for g := 0; g*size < len(src); g++ {
		b := src[g*size:][:size]
		scale := binary.LittleEndian.Uint16(b)
		var minimum uint16
		if t == Q4_1 {
			minimum = binary.LittleEndian.Uint16(b[2:])
		} else {
			minimum = ToHalf(-8 * Half(scale)) // exact unless it overflows
		}
		if !finite(scale) || !finite(minimum) {
			return scaleError(t, g, Half(scale))
		}
		binary.LittleEndian.PutUint32(scales[g*4:], uint32(scale)|uint32(minimum)<<16)
		copy(codes[g*16:][:16], b[size-16:])
	}
	return nil
}

func repackQ8(src, codes, scales []byte) error {
	for g := 0; g*34 < len(src); g++ {
		b := src[g*34:][:34]
		scale := binary.LittleEndian.Uint16(b)
		if !finite(scale) {
			return scaleError(Q8_0, g, Half(scale))
		}
		binary.LittleEndian.PutUint16(scales[g*2:], scale)
		copy(codes[g*32:][:32], b[2:])
	}
	return nil
}

func scaleError(t Type, block int, v float32) error {
	return fmt.Errorf("quant: %v block %d with %v: %w", t, block, v, ErrScale)
}

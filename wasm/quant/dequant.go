package quant

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Dequantize computes the weights of whole blocks as a file holds them, by the closed form of their type. It is the
// yardstick for the packed layouts and does not use them.
func Dequantize(t Type, dst []float32, src []byte) error {
	n, size := t.Block()
	if n == 0 {
		return fmt.Errorf("quant: %v is not supported", t)
	}
	if len(src)%size != 0 || len(dst) != len(src)/size*n {
		return fmt.Errorf("quant: dequantise %v: %d bytes are not %d weights", t, len(src), len(dst))
	}
	for b := 0; b*size < len(src); b++ {
		block(t, dst[b*n:][:n], src[b*size:][:size])
	}
	return nil
}

func block(t Type, y []float32, b []byte) {
	half := func(i int) float32 { return Half(binary.LittleEndian.Uint16(b[i:])) }
	switch t {
	case F32:
		y[0] = math.Float32frombits(binary.LittleEndian.Uint32(b))
	case F16:
		y[0] = half(0)
	case Q4_0:
		d := half(0)
		for j, q := range b[2:18] {
			y[j] = float32(int(q&15)-8) * d
			y[j+16] = float32(int(q>>4)-8) * d
		}
	case Q4_1:
		d, m := half(0), half(2)
		for j, q := range b[4:20] {
			y[j] = float32(q&15)*d + m
			y[j+16] = float32(q>>4)*d + m
		}
	case Q8_0:
		d := half(0)
		for i, q := range b[2:34] {
			y[i] = float32(int8(q)) * d
		}
	}
}

// DequantizeRow computes the weights of one row of a packed matrix. dst has m.Cols elements.
func DequantizeRow(dst []float32, m Matrix, row int) {
	dst = dst[:m.Cols]
	codes := m.Codes(row)
	switch m.Layout {
	case LayoutF32:
		copy(dst, Float32s(codes))
	case LayoutF16:
		for i, h := range Uint16s(codes) {
			dst[i] = Half(h)
		}
	case Layout4:
		for g, s := range Uint32s(m.Scales(row)) {
			scale, minimum := Half(uint16(s)), Half(uint16(s>>16))
			y := dst[g*GroupSize:][:GroupSize]
			for j, q := range codes[g*16:][:16] {
				y[j] = float32(q&15)*scale + minimum
				y[j+16] = float32(q>>4)*scale + minimum
			}
		}
	case Layout8:
		q := Int8s(codes)
		for g, s := range Uint16s(m.Scales(row)) {
			scale := Half(s)
			y := dst[g*GroupSize:][:GroupSize]
			for i, c := range q[g*GroupSize:][:GroupSize] {
				y[i] = float32(c) * scale
			}
		}
	}
}

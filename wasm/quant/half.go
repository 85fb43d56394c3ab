package quant

import "math"

// Half converts an IEEE half float. Every half is exact in float32; a NaN keeps its payload.
func Half(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	bits := uint32(h&0x7FFF) << 13
	if h&0x7C00 == 0x7C00 { // infinity or NaN
		return math.Float32frombits(sign | 0x7F800000 | bits)
	}
	// The fields sit in the right places but for the exponent's bias: 127−15 = 112. Multiplying by 2^112 moves it, and
	// turns subnormal halves into normal numbers on the way.
	f := math.Float32frombits(bits) * 0x1p112
	return math.Float32frombits(math.Float32bits(f) | sign)
}

// ToHalf rounds to the nearest half float, ties to even. What is too large becomes infinity, a NaN a quiet NaN.
func ToHalf(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7FFFFFFF
	switch {
	case b > 0x7F800000:
		return sign | 0x7E00
	case b >= 0x477FF000: // 65,520, halfway between the largest half and 2^16
		return sign | 0x7C00
	case b < 0x38800000: // below 2^-14, the smallest normal half
		// In [0.5, 1) float32 steps by 2^-24, as the subnormal halves do: the addition rounds to their grid.
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3F000000)
	}
	b += 0xFFF + b>>13&1 // round half to even
	return sign | uint16((b-112<<23)>>13)
}

// finite reports whether a half is neither infinity nor NaN.
func finite(h uint16) bool { return h&0x7C00 != 0x7C00 }

package quant

import (
	"math"
	"math/rand/v2"
	"testing"
)

// halfValue is the definition of IEEE 754 binary16, in float64.
func halfValue(h uint16) float64 {
	sign, exp, frac := 1.0, int(h>>10&31), float64(h&1023)
	if h&0x8000 != 0 {
		sign = -1
	}
	switch exp {
	case 0:
		return math.Copysign(math.Ldexp(frac, -24), sign)
	case 31:
		if frac != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

func TestHalfIsIEEE(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		want, got := halfValue(h), float64(Half(h))
		if math.IsNaN(want) {
			if !math.IsNaN(got) || ToHalf(Half(h))&0x7E00 != 0x7E00 {
				t.Fatalf("half %#04x: got %v, want NaN both ways", h, got)
			}
			continue
		}
		if got != want || math.Signbit(got) != math.Signbit(want) {
			t.Fatalf("Half(%#04x) = %v, want %v", h, got, want)
		}
		if back := ToHalf(Half(h)); back != h {
			t.Fatalf("ToHalf(Half(%#04x)) = %#04x", h, back)
		}
	}
}

func TestToHalfRoundsToNearestEven(t *testing.T) {
	check := func(f float32) {
		got := ToHalf(f)
		x, y := math.Abs(float64(f)), halfValue(got&0x7FFF)
		if x >= 65520 { // at or above the middle between the largest half and 2^16
			if got&0x7FFF != 0x7C00 {
				t.Fatalf("ToHalf(%v) = %#04x, want infinity", f, got)
			}
			return
		}
		dist := math.Abs(x - y)
		for _, n := range []uint16{got&0x7FFF - 1, got&0x7FFF + 1} {
			if n >= 0x7C00 { // below zero, or infinity
				continue
			}
			d := math.Abs(x - halfValue(n))
			if d < dist || d == dist && got&1 == 1 {
				t.Fatalf("ToHalf(%v) = %#04x (off by %g), but %#04x is off by %g", f, got, dist, n, d)
			}
		}
		if math.Signbit(float64(f)) != (got&0x8000 != 0) {
			t.Fatalf("ToHalf(%v) = %#04x has the wrong sign", f, got)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		check(float32(r.NormFloat64() * math.Ldexp(1, r.IntN(50)-30)))
	}
	for h := uint16(0); h < 0x7BFF; h++ { // middles are the ties
		mid := float32((halfValue(h) + halfValue(h+1)) / 2)
		check(mid)
		check(-mid)
		check(math.Nextafter32(mid, 0))
		check(math.Nextafter32(mid, 1e9))
	}
	for _, f := range []float32{65519.996, 65520, 1e30, math.MaxFloat32, float32(math.Inf(-1)), 0x1p-25, 0x1p-149} {
		check(f)
	}
}

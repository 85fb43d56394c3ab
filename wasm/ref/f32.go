package ref

import "math"

// f32 is the fast variant: float32 sums in several parts at once, weights unpacked in small blocks that stay in the
// nearest cache.
type f32 struct{}

// RMSNorm sums squares in float64: SmolLM2's residual reaches 23,650, and it is one cheap pass.
func (f32) RMSNorm(dst, x, w []float32, eps float32) {
	x, w = x[:len(dst)], w[:len(dst)]
	scale := float32(1 / math.Sqrt(dot64(x, x)/float64(len(x))+float64(eps)))
	for i, v := range x {
		dst[i] = v * scale * w[i]
	}
}

func (f32) Rope(x, cs []float32, neox bool) {
	half := len(cs) / 2
	if neox {
		a, b := x[:half], x[half:][:half]
		for i, va := range a {
			cos, sin, vb := cs[2*i], cs[2*i+1], b[i]
			a[i], b[i] = va*cos-vb*sin, va*sin+vb*cos
		}
		return
	}
	x = x[:len(cs)]
	for i := 0; i+1 < len(cs); i += 2 {
		cos, sin, va, vb := cs[i], cs[i+1], x[i], x[i+1]
		x[i], x[i+1] = va*cos-vb*sin, va*sin+vb*cos
	}
}

func (f32) SiLUMul(gate, up []float32) {
	up = up[:len(gate)]
	for i, g := range gate {
		gate[i] = g / (1 + exp32(-g)) * up[i]
	}
}

// exp32 is e^x within 2 units in the last place; below e^−87 it is 0, above e^88 infinity.
func exp32(x float32) float32 {
	switch {
	case x < -87:
		return 0
	case x > 88:
		return float32(math.Inf(1))
	case x != x:
		return x
	}
	// x = n·ln 2 + r with |r| ≤ ln 2/2. Adding 1.5·2^23 rounds to a whole number and leaves it in the low bits. The
	// first part of ln 2 has so few bits that its product with n is exact.
	const magic, ln2hi = 12582912, 0x1.62ep-1
	t := x*math.Log2E + magic
	n := t - magic
	r := x - n*ln2hi - n*(math.Ln2-ln2hi)
	p := 1 + r*(1+r*(1./2+r*(1./6+r*(1./24+r*(1./120+r*(1./720+r*(1./5040)))))))
	return math.Float32frombits(math.Float32bits(p) + math.Float32bits(t)<<23)
}

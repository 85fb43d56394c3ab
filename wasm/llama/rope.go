package llama

import "math"

// ropeTable computes the table of rotations for n positions from first on: cos and sin of pos·base^(−2k/rot)/scale (Su et al.,
// "RoFormer", 2021), the angle divided by freqs[k] where the model brings such factors. Layout: [n][rot/2][2]. Angles
// are computed in float64: at position 8,000 a float32 angle is off by 5e-4.
func ropeTable(c *Config, freqs []float32, first, n int) []float32 {
	half := c.RotDim / 2
	rates := make([]float64, half)
	for k := range rates {
		rates[k] = math.Pow(c.RopeBase, -2*float64(k)/float64(c.RotDim)) / c.RopeScale
		if freqs != nil {
			rates[k] /= float64(freqs[k])
		}
	}
	out := make([]float32, 0, n*c.RotDim)
	for pos := first; pos < first+n; pos++ {
		for _, r := range rates {
			sin, cos := math.Sincos(float64(pos) * r)
			out = append(out, float32(cos), float32(sin))
		}
	}
	return out
}

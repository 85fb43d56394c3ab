package stage

import "math"

// Rotation is RoPE at one position: cos and sin of each pair of channels, [pairs][2], and how channels pair: c with
// c+pairs (Neox) or 2c with 2c+1.
type Rotation struct {
	CosSin []float32
	Neox   bool
}

// pair gives the channels of pair c.
func (r *Rotation) pair(c int) (int, int) {
	if r.Neox {
		return c, c + len(r.CosSin)/2
	}
	return 2 * c, 2*c + 1
}

// Apply rotates a vector in place.
func (r *Rotation) Apply(x []float32) {
	for c := range len(r.CosSin) / 2 {
		a, b := r.pair(c)
		cos, sin := r.CosSin[2*c], r.CosSin[2*c+1]
		x[a], x[b] = x[a]*cos-x[b]*sin, x[a]*sin+x[b]*cos
	}
}

// ApplyBoth rotates a covariance, Σ ← RΣRᵀ, headDim × headDim, in place.
func (r *Rotation) ApplyBoth(cov []float32, headDim int) {
	for i := range headDim {
		r.Apply(cov[i*headDim:][:headDim]) // ΣRᵀ
	}
	for c := range len(r.CosSin) / 2 {
		a, b := r.pair(c)
		cos, sin := r.CosSin[2*c], r.CosSin[2*c+1]
		for j := range headDim {
			x, y := &cov[a*headDim+j], &cov[b*headDim+j]
			*x, *y = *x*cos-*y*sin, *x*sin+*y*cos
		}
	}
}

// MeanRotation is the mean of rotations over n positions from first on. It is no rotation: pairs that turn fast vanish.
func MeanRotation(rope func(pos int) []float32, neox bool, first, n int) Rotation {
	var sum []float64
	for i := range n {
		row := rope(first + i)
		if sum == nil {
			sum = make([]float64, len(row))
		}
		for c, x := range row {
			sum[c] += float64(x)
		}
	}
	r := Rotation{make([]float32, len(sum)), neox}
	for c, x := range sum {
		r.CosSin[c] = float32(x / float64(n))
	}
	return r
}

// Expected sets out to the attention that a query of normal distribution N(mean, cov) is expected to give keys:
// softmax of mean·k/√d + ½·kᵀ·cov·k/d. A nil cov is 0. work is scratch of headDim + 1.
func Expected(l Loops, out, mean, cov, k, work []float32) {
	d := len(mean)
	l.Dots(out, mean, k, float32(1/math.Sqrt(float64(d))))
	if cov != nil {
		image, product := work[:d], work[d:d+1] // cov·k, and k with it
		for i := range out {
			row := k[i*d:][:d]
			l.Dots(image, row, cov, 1)
			l.Dots(product, row, image, 0.5/float32(d))
			out[i] += product[0]
		}
	}
	l.Softmax(out)
}

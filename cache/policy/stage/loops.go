package stage

import "math"

// Loops are the inner loops of scoring; a backend with SIMD brings its own.
type Loops interface {
	// Dots sets out[i] = scale · q·k[i], for rows k[i] = k[i·len(q):].
	Dots(out, q, k []float32, scale float32)
	// Softmax replaces logits by their softmax.
	Softmax(row []float32)
}

// Go is Loops in plain Go.
type Go struct{}

// Dots sets out[i] = scale · q·k[i].
func (Go) Dots(out, q, k []float32, scale float32) {
	d := len(q)
	k = k[:len(out)*d]
	for i := range out {
		row := k[i*d:][:d]
		var a, b, c, e float32
		j := 0
		for ; j+4 <= d; j += 4 {
			a += q[j] * row[j]
			b += q[j+1] * row[j+1]
			c += q[j+2] * row[j+2]
			e += q[j+3] * row[j+3]
		}
		for ; j < d; j++ {
			a += q[j] * row[j]
		}
		out[i] = scale * ((a + b) + (c + e))
	}
}

// Softmax replaces logits by their softmax. A row that is masked everywhere, all −∞ or of no length, becomes zeros.
func (Go) Softmax(row []float32) {
	top := float32(math.Inf(-1))
	for _, x := range row {
		top = max(top, x)
	}
	if math.IsInf(float64(top), -1) {
		clear(row)
		return
	}
	sum := 0.0
	for i, x := range row {
		e := math.Exp(float64(x - top))
		row[i] = float32(e)
		sum += e
	}
	scale := float32(1 / sum)
	for i := range row {
		row[i] *= scale
	}
}

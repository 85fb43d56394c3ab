package ref

import "math"

// The loops of scoring in float32.

func (f32) Dots(out, q, k []float32, scale float32) {
	mulVector(out, k, len(q), q, false)
	for i := range out {
		out[i] *= scale
	}
}

// Softmax of a row that is masked everywhere is zeros.
func (f32) Softmax(row []float32) {
	if len(row) == 0 {
		return
	}
	top := maximum(row)
	if math.IsInf(float64(top), -1) {
		clear(row)
		return
	}
	var sum float32
	for i, x := range row {
		row[i] = exp32(x - top)
		sum += row[i]
	}
	scale(row, 1/sum)
}

func (f32) Gather(dst []float32, l *Lanes, slots []uint32) {
	for i, slot := range slots {
		unpack(dst[i*l.Dim:][:l.Dim], l.Format, l.Lane(int(slot)))
	}
}

func (f f32) Columns(c *Columns) {
	for t := range c.Rows {
		row := c.Work[:c.First+t+1]
		f.Dots(row, c.Q[t*c.Stride:][:c.Dim], c.K, c.Scale)
		f.Softmax(row)
		for j, p := range row {
			c.Out[j] += p
		}
	}
}

func (f32) Mass(out, x []float32, cols int, by float32) {
	for i := range out {
		var s0, s1 float64
		row := x[i*cols:][:cols]
		for ; len(row) >= 2; row = row[2:] {
			s0 += math.Abs(float64(row[0]))
			s1 += math.Abs(float64(row[1]))
		}
		for _, v := range row {
			s0 += math.Abs(float64(v))
		}
		out[i] += by * float32(s0+s1)
	}
}

// The same for the oracle.

func (f64) Dots(out, q, k []float32, scale float32) {
	for i := range out {
		out[i] = float32(dot64(q, k[i*len(q):][:len(q)]) * float64(scale))
	}
}

func (f64) Softmax(row []float32) { softmax64(row) }

func (f64) Gather(dst []float32, l *Lanes, slots []uint32) { f32{}.Gather(dst, l, slots) }

func (f f64) Columns(c *Columns) {
	sums := make([]float64, len(c.Out))
	for t := range c.Rows {
		row := c.Work[:c.First+t+1]
		f.Dots(row, c.Q[t*c.Stride:][:c.Dim], c.K, c.Scale)
		f.Softmax(row)
		for j, p := range row {
			sums[j] += float64(p)
		}
	}
	for j, s := range sums {
		c.Out[j] += float32(s)
	}
}

func (f64) Mass(out, x []float32, cols int, by float32) { f32{}.Mass(out, x, cols, by) }

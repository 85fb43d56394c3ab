package stage

// Sum sets out to the sum of rows.
func Sum(out []float32, rows [][]float32) {
	clear(out)
	for _, r := range rows {
		for j := range out {
			out[j] += r[j]
		}
	}
}

// Mean sets out to the mean of rows.
func Mean(out []float32, rows [][]float32) {
	Sum(out, rows)
	Scale(out, 1/float32(len(rows)))
}

// Max sets out to the highest of rows, entry by entry.
func Max(out []float32, rows [][]float32) {
	copy(out, rows[0])
	for _, r := range rows[1:] {
		for j := range out {
			out[j] = max(out[j], r[j])
		}
	}
}

// Normalised is a row of numbers from 0 on, scaled so that it sums to 1 like a row of attention; zeros stay zeros.
func Normalised(row []float32) []float32 {
	sum := 0.0
	for _, x := range row {
		sum += float64(x)
	}
	out := make([]float32, len(row))
	if sum > 0 {
		copy(out, row)
		Scale(out, float32(1/sum))
	}
	return out
}

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

package stage

// Quest: bounds of a page of keys are its element-wise minima and then maxima, [2][head_dim].

// Bound widens a page's bounds by a key; the first key of a page sets them.
func Bound(bounds, key []float32, first bool) {
	d := len(key)
	low, high := bounds[:d], bounds[d:][:d]
	if first {
		copy(low, key)
		copy(high, key)
		return
	}
	for c, x := range key {
		low[c], high[c] = min(low[c], x), max(high[c], x)
	}
}

// PageScores sets out to what no key within each page's bounds can exceed in a product with q: Σ max(q·low, q·high).
func PageScores(out, q, bounds []float32) {
	d := len(q)
	for i := range out {
		low, high := bounds[2*i*d:][:d], bounds[(2*i+1)*d:][:d]
		sum := float32(0)
		for c, x := range q {
			sum += max(x*low[c], x*high[c])
		}
		out[i] = sum
	}
}

// Pages marks what a query reads: the page of the newest token, which is being filled, and the best of the others, n in
// all and one at least. work is as in [Top].
func Pages(marked []bool, scores []float32, newest, n int, work []uint32) []uint32 {
	clear(marked)
	marked[newest] = true
	_, work = Top(marked, scores, n-1, work)
	return work
}

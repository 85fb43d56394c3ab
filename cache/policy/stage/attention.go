package stage

import "math"

// Attention adds to out the attention that n queries of one head give to the keys before them. Query i is
// q[i·stride:][:headDim], the last one is the newest key's own, and query i sees all keys but the n−1−i newest. Each
// softmax runs over all that a query sees; out may be shorter than that, and then has the first keys only: len(k)/headDim
// entries give column sums (H2O), n fewer give the window's view of what came before it (SnapKV). row is scratch of as
// many entries as there are keys.
func Attention(l Loops, out, row, q []float32, stride, n int, k []float32, headDim int) {
	scale := float32(1 / math.Sqrt(float64(headDim)))
	keys := len(k) / headDim
	for i := range n {
		seen := row[:keys-n+1+i]
		l.Dots(seen, q[i*stride:][:headDim], k, scale)
		l.Softmax(seen)
		for j := range min(len(out), len(seen)) {
			out[j] += seen[j]
		}
	}
}

// Indicator sets out to mean + gamma · variance, over n queries, of the attention that they give to the keys before
// them all (CAKE): len(out) = keys − n. Arguments are those of [Attention], and two rows of scratch more. The variance
// is the unbiased one, 0 for one query. It returns the head's part of the layer's preference: the entropy
// −Σ a·ln(a + 10⁻¹⁰) over queries and keys of out, which are not normalised again, and the sum of variances.
func Indicator(l Loops, out, row, mean, m2, q []float32, stride, n int, k []float32, headDim int, gamma float64) (entropy, variance float64) {
	scale := float32(1 / math.Sqrt(float64(headDim)))
	keys := len(k) / headDim
	mean, m2 = mean[:len(out)], m2[:len(out)]
	clear(mean)
	clear(m2)
	for i := range n {
		seen := row[:keys-n+1+i]
		l.Dots(seen, q[i*stride:][:headDim], k, scale)
		l.Softmax(seen)
		// Welford's form: squares of small numbers would lose what gamma then multiplies.
		part := 1 / float32(i+1)
		for j := range out {
			a := seen[j]
			entropy -= float64(a) * math.Log(float64(a)+1e-10)
			d := a - mean[j]
			mean[j] += d * part
			m2[j] += d * (a - mean[j])
		}
	}
	part := float32(0)
	if n > 1 {
		part = 1 / float32(n-1)
	}
	for j := range out {
		v := m2[j] * part
		variance += float64(v)
		out[j] = mean[j] + float32(gamma)*v
	}
	return entropy, variance
}

// Scale multiplies a row.
func Scale(row []float32, by float32) {
	for i := range row {
		row[i] *= by
	}
}

// PerQuery divides column sums by the number of queries that could look: for the last fresh tokens, all of them if fresh
// is 0, those from a token's own on up to the newest one. Tokens before them were stored: theirs are the sums of the fresh
// queries on top of a moving average, which counts as one query.
func PerQuery(sums []float32, pos []int32, fresh int) {
	newest, stored := pos[len(pos)-1], 0
	if fresh > 0 {
		stored = len(pos) - fresh
	}
	for j, p := range pos {
		queries := newest - p + 1
		if j < stored {
			queries = int32(fresh) + 1
		}
		sums[j] /= float32(queries)
	}
}

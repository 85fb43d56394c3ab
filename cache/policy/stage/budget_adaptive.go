package stage

import "math"

// Adaptive shares total tokens among a layer's heads by their scores (AdaKV): how many of the layer's highest scores a
// head has counts for 1−alpha, an equal share for alpha. scores are those of the tokens that may be chosen; no head gets
// more than it has, nor fewer than one where the total allows. With normalise a head's scores are first weighted by the
// part that its highest ones have of all.
func Adaptive(scores [][]float32, total int, alpha float64, normalise bool) []int {
	heads := len(scores)
	has := make([]int, heads)
	for h, s := range scores {
		has[h] = len(s)
	}
	b := float64(total) / float64(heads)
	count := topCounts(weighted(scores, total/heads, normalise), total, 0)
	shares := make([]float64, heads)
	for h, c := range count {
		shares[h] = float64(c)*(1-alpha) + b*alpha
	}
	return Apportion(shares, total, min(1, total/heads), has)
}

// AdaptiveReference are the published code's numbers for a mean of b: the equal part is truncated, the sum rounded half
// to even. They may miss heads · b.
func AdaptiveReference(scores [][]float32, b int, alpha float64, normalise bool) []int {
	n := topCounts(weighted(scores, b, normalise), len(scores)*b, 0)
	for h, c := range n {
		n[h] = int(math.RoundToEven(float64(c)*(1-alpha) + math.Trunc(float64(b)*alpha)))
	}
	return n
}

// AdaptiveKVPress are kvpress' numbers for a mean of b: the highest alpha·b of each head, at least one, are safe; then
// the layer's highest fill the rest.
func AdaptiveKVPress(scores [][]float32, total int, alpha float64) []int {
	safe := 0
	if alpha > 0 {
		safe = max(1, int(float64(total/len(scores))*alpha))
	}
	return topCounts(scores, total, safe)
}

// topCounts is how many of the layer's n highest scores each head has, when each head's highest safe ones come first.
func topCounts(scores [][]float32, n, safe int) []int {
	var pool []float32
	for _, s := range scores {
		pool = append(pool, s...)
	}
	marked := make([]bool, len(pool))
	at := 0
	for _, s := range scores {
		got, _ := Top(marked[at:at+len(s)], s, min(safe, n), nil)
		n -= got
		at += len(s)
	}
	Top(marked, pool, n, nil)
	count := make([]int, len(scores))
	at = 0
	for h, s := range scores {
		for _, m := range marked[at : at+len(s)] {
			if m {
				count[h]++
			}
		}
		at += len(s)
	}
	return count
}

// weighted multiplies each head's scores by the part of them that its n highest have.
func weighted(scores [][]float32, n int, normalise bool) [][]float32 {
	if !normalise {
		return scores
	}
	out := make([][]float32, len(scores))
	for h, s := range scores {
		marked := make([]bool, len(s))
		Top(marked, s, n, nil)
		top, sum := 0.0, 0.0
		for i, x := range s {
			sum += float64(x)
			if marked[i] {
				top += float64(x)
			}
		}
		out[h] = append([]float32(nil), s...)
		if sum > 0 {
			Scale(out[h], float32(top/sum))
		}
	}
	return out
}

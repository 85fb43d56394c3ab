package stage

import "math"

// Contest is how a layer's heads compete (AdaKV): each has so many of the Total highest scores of all, after the Safe
// highest of each, which come first. With Weigh, a head's scores are first weighted by the part that its Each highest
// ones have of all of its own.
type Contest struct {
	Total, Each, Safe int
	Weigh             bool
}

// NewContest is the contest of so many heads for total tokens: as we count, as the published code does, or as kvpress
// does, where the part alpha of an equal share is safe.
func NewContest(total, heads int, alpha float64, normalise, reference, press bool) Contest {
	c := Contest{Total: total, Each: total / heads, Weigh: normalise && !press}
	switch {
	case press && alpha > 0:
		c.Safe = max(1, int(float64(c.Each)*alpha))
	case !press && reference:
		c.Total = c.Each * heads
	}
	return c
}

// Highest is how many each head wins. Scores are those of the tokens that may be chosen.
func (c *Contest) Highest(scores [][]float32) []int {
	if c.Weigh {
		scores = weighted(scores, c.Each)
	}
	return topCounts(scores, c.Total, c.Safe)
}

// Adaptive shares total tokens among a layer's heads (AdaKV): what a head wins counts for 1−alpha, an equal share for
// alpha. No head gets more than it has, nor fewer than one where the total allows.
func Adaptive(won, has []int, total int, alpha float64) []int {
	b := float64(total) / float64(len(won))
	shares := make([]float64, len(won))
	for h, c := range won {
		shares[h] = float64(c)*(1-alpha) + b*alpha
	}
	return Apportion(shares, total, min(1, total/len(won)), has)
}

// AdaptiveReference are the published code's numbers for a mean of b: the equal part is truncated, the sum rounded half
// to even. They may miss the sum.
func AdaptiveReference(won []int, b int, alpha float64) []int {
	n := make([]int, len(won))
	for h, c := range won {
		n[h] = int(math.RoundToEven(float64(c)*(1-alpha) + math.Trunc(float64(b)*alpha)))
	}
	return n
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
func weighted(scores [][]float32, n int) [][]float32 {
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

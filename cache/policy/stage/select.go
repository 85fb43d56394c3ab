package stage

import (
	"cmp"
	"slices"
)

// Protect marks what never leaves of n candidates at ascending positions: those before position sinks, and the last
// recent ones. It returns how many it marked. Where even these are more than limit, sinks go first but for one recent token, and then the newest.
func Protect(marked []bool, pos []int32, sinks, recent, limit int) int {
	n := len(pos)
	first := 0
	for first < n && int(pos[first]) < sinks {
		first++
	}
	recent = min(recent, n, limit)
	first = max(0, min(first, limit-min(recent, 1)))
	recent = max(0, min(recent, limit-first))
	for i := range first {
		marked[i] = true
	}
	for i := n - recent; i < n; i++ {
		marked[i] = true
	}
	count := 0
	for _, m := range marked {
		if m {
			count++
		}
	}
	return count
}

// Chunks marks n candidates more: whole chunks of size tokens, best mean score first, and of the one that doesn't fit the
// best tokens (ChunkKV). What is marked before counts as the highest score and 1: against scores that are
// shares of attention its chunks come first.
func Chunks(marked []bool, scores []float32, size, n int) {
	top := scores[0]
	for _, s := range scores {
		top = max(top, s)
	}
	type chunk struct {
		from, to int
		mean     float32
	}
	chunks := make([]chunk, 0, (len(scores)+size-1)/size)
	for from := 0; from < len(scores); from += size {
		c := chunk{from: from, to: min(from+size, len(scores))}
		for i := c.from; i < c.to; i++ {
			if marked[i] {
				c.mean += top + 1
			} else {
				c.mean += scores[i]
			}
		}
		c.mean /= float32(c.to - c.from)
		chunks = append(chunks, c)
	}
	slices.SortStableFunc(chunks, func(a, b chunk) int { return cmp.Compare(b.mean, a.mean) })
	var work []uint32
	for _, c := range chunks {
		var took int
		took, work = Top(marked[c.from:c.to], scores[c.from:c.to], n, work)
		if n -= took; n <= 0 {
			return
		}
	}
}

// Critical marks n candidates more: the first by score, and the rest by (score + epsilon) · weight, where weights are
// ‖W_o·v‖₁ (CriticalKV).
func Critical(marked []bool, scores, weights []float32, first, n int, epsilon float32) {
	took, work := Top(marked, scores, min(first, n), nil)
	weighted := make([]float32, len(scores))
	for i, s := range scores {
		weighted[i] = (s + epsilon) * weights[i]
	}
	Top(marked, weighted, n-took, work)
}

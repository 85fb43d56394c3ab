package stage

import (
	"cmp"
	"sort"
)

// Guard says how many of n candidates at the start and at the end never leave, of so many that should not, when limit
// stay. Where these are more than limit, one recent token stays, then as many first ones as have room, and then the newest
// of the recent ones.
func Guard(n, first, recent, limit int) (oldest, newest int) {
	newest = min(recent, n, limit)
	oldest = max(0, min(first, limit-min(newest, 1)))
	return oldest, max(0, min(newest, limit-oldest))
}

// Protect marks what never leaves of candidates at ascending positions: those before position sinks, and the last recent
// ones, as far as limit has room for them ([Guard]). It returns how many it marked.
func Protect(marked []bool, pos []int32, sinks, recent, limit int) int {
	n := len(pos)
	first := 0
	for first < n && int(pos[first]) < sinks {
		first++
	}
	first, recent = Guard(n, first, recent, limit)
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
// shares of attention its chunks come first. A chunk with a score that is no number comes last.
func Chunks(marked []bool, scores []float32, size, n int) {
	var work []uint32
	for _, c := range chunks(marked, scores, size) {
		var took int
		took, work = Top(marked[c.from:c.to], scores[c.from:c.to], n, work)
		if n -= took; n <= 0 {
			return
		}
	}
}

// chunk is a range of candidates and what it counts.
type chunk struct {
	from, to int
	mean     float32
}

// chunks are all chunks, best first.
func chunks(marked []bool, scores []float32, size int) []chunk {
	top := scores[0]
	for _, s := range scores {
		if s > top || top != top {
			top = s
		}
	}
	out := make([]chunk, 0, (len(scores)+size-1)/size)
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
		out = append(out, c)
	}
	sort.SliceStable(out, func(a, b int) bool { return cmp.Less(out[b].mean, out[a].mean) })
	return out
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

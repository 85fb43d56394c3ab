package stage

import (
	"cmp"
	"sort"
)

// Ranks numbers the candidates that are not marked in the order in which [Top] takes them, the first one after from; other
// ranks stay as they are.
func Ranks(ranks []uint32, marked []bool, scores []float32, from int) {
	order := make([]int, 0, len(scores))
	for i, m := range marked {
		if !m {
			order = append(order, i)
		}
	}
	sort.SliceStable(order, func(a, b int) bool { return cmp.Less(ordered(scores[order[b]]), ordered(scores[order[a]])) })
	for i, at := range order {
		ranks[at] = uint32(from + i + 1)
	}
}

// ChunkRanks is Ranks in the order in which [Chunks] takes candidates. It sets worth to what the chunk of each counts.
func ChunkRanks(ranks []uint32, worth []float32, marked []bool, scores []float32, size int) {
	from := 0
	for _, c := range chunks(marked, scores, size) {
		Ranks(ranks[c.from:c.to], marked[c.from:c.to], scores[c.from:c.to], from)
		for i := c.from; i < c.to; i++ {
			worth[i] = c.mean
			if !marked[i] {
				from++
			}
		}
	}
}

package stage

import (
	"math"
	"slices"
)

// Top marks the n candidates with the highest scores among those not marked yet; of equals the lower one. NaN counts as
// lower than any number. It returns how many it marked: n, or all that were left. work is scratch and is returned as it
// grew.
func Top(marked []bool, scores []float32, n int, work []uint32) (int, []uint32) {
	work = work[:0]
	for i, s := range scores {
		if !marked[i] {
			work = append(work, ordered(s))
		}
	}
	if n = min(n, len(work)); n <= 0 {
		return 0, work
	}
	slices.Sort(work)
	cut := work[len(work)-n]
	above, _ := slices.BinarySearch(work, cut+1) // no score's bits are all ones
	ties := n - (len(work) - above)
	for i, s := range scores {
		if marked[i] {
			continue
		}
		switch o := ordered(s); {
		case o > cut:
			marked[i] = true
		case o == cut && ties > 0:
			marked[i] = true
			ties--
		}
	}
	return n, work
}

// ordered maps floats to integers of the same order.
func ordered(x float32) uint32 {
	switch b := math.Float32bits(x); {
	case x != x:
		return 0
	case x == 0:
		return 1 << 31 // also −0
	case b>>31 == 1:
		return ^b
	default:
		return b | 1<<31
	}
}

// Indices lists what is marked, ascending.
func Indices(marked []bool) []int32 {
	n := 0
	for _, m := range marked {
		if m {
			n++
		}
	}
	kept := make([]int32, 0, n)
	for i, m := range marked {
		if m {
			kept = append(kept, int32(i))
		}
	}
	return kept
}

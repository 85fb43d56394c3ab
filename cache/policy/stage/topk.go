package stage

import "math"

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
	if n == len(work) { // as of most chunks
		for i := range scores {
			marked[i] = true
		}
		return n, work
	}
	cut, ties := nth(work, n)
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

// Lowest is the candidate with the lowest score among those not marked, of equals the higher one, or −1: what [Top] leaves
// out if it marks all but one. That is what a decoded token asks for.
func Lowest(marked []bool, scores []float32) int {
	at, least := -1, uint32(math.MaxUint32)
	for i, s := range scores {
		if o := ordered(s); !marked[i] && o <= least {
			at, least = i, o
		}
	}
	return at
}

// nth is the n-th highest of keys, and how many of those equal to it are among the n highest. It selects by radix, a byte
// at a time from the top, and leaves keys in no order: each pass goes on with those that have the byte of the n-th.
func nth(keys []uint32, n int) (key uint32, equals int) {
	for shift := 24; shift >= 0; shift -= 8 {
		var count [256]int
		for _, k := range keys {
			count[k>>shift&255]++
		}
		digit := uint32(255)
		for ; n > count[digit]; digit-- {
			n -= count[digit]
		}
		same := keys[:0]
		for _, k := range keys {
			if k>>shift&255 == digit {
				same = append(same, k)
			}
		}
		keys = same
	}
	return keys[0], n
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

package stage

import (
	"math"
	"sort"
)

// Apportion rounds shares to integers that sum to total, each between lo and its hi (nil: no bound): by largest
// remainder, of equals the lower index first. What bounds take from one is spread evenly over the others. The order of
// the shares is the order of the integers. Bounds win over the total where both can't hold.
func Apportion(shares []float64, total, lo int, hi []int) []int {
	n := make([]int, len(shares))
	top := func(i int) int {
		if hi == nil {
			return math.MaxInt
		}
		return max(lo, hi[i])
	}
	whole := float64(total)
	for i, x := range shares {
		n[i] = lo
		if x > float64(lo) { // not NaN
			n[i] = max(lo, min(int(min(math.Floor(x), whole)), top(i)))
		}
		total -= n[i]
	}
	over := func(i int) float64 { return float64(n[i]) - shares[i] }
	var open []int // the usual case, in which none gets more than one: sorted once, as there may be thousands
	for i := range n {
		if over(i) <= 0 && n[i] < top(i) {
			open = append(open, i)
		}
	}
	if 0 < total && total <= len(open) {
		sort.SliceStable(open, func(a, b int) bool { return over(open[a]) < over(open[b]) })
		for _, i := range open[:total] {
			n[i]++
		}
		return n
	}
	for ; total > 0; total-- {
		best := -1
		for i := range n {
			if n[i] < top(i) && (best < 0 || over(i) < over(best)) {
				best = i
			}
		}
		if best < 0 {
			return n
		}
		n[best]++
	}
	for ; total < 0; total++ {
		best := -1
		for i := range n {
			if n[i] > lo && (best < 0 || over(i) >= over(best)) {
				best = i
			}
		}
		if best < 0 {
			return n
		}
		n[best]--
	}
	return n
}

// Even shares total among so many; the first ones get what is left over.
func Even(total, among int) []int {
	n := make([]int, among)
	for i := range n {
		n[i] = total / among
		if i < total%among {
			n[i]++
		}
	}
	return n
}

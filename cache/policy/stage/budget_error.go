package stage

import (
	"math"
	"slices"
	"sort"
)

// ErrorAware shares total tokens, the window among them, among layers by their errors, which sum to 1 (CompressKV): a
// floor each, the rest in proportion, at most ceiling; half a token is rounded to even. What misses the total then goes to
// layers below the ceiling, one each in the order of descending errors, again and again, or comes from layers above the
// floor in ascending order. With argmax one layer, the one with the highest error (or the lowest) that can, takes all
// of it, as the paper has it where its code goes round.
func ErrorAware(errors []float64, total, floor, ceiling int, argmax bool) []int {
	layers := len(errors)
	n := make([]int, layers)
	missing := total
	for l, e := range errors {
		share := math.RoundToEven(e * float64(total-floor*layers))
		if !(share > 0) {
			share = 0
		}
		n[l] = max(floor, min(floor+int(min(share, float64(total))), ceiling))
		missing -= n[l]
	}
	order := make([]int, layers)
	for l := range order {
		order[l] = l
	}
	// Descending, or ascending; the first of equals first.
	sort.SliceStable(order, func(a, b int) bool { return errors[order[a]] > errors[order[b]] })
	step := 1
	if missing < 0 {
		step = -1
		sort.SliceStable(order, func(a, b int) bool { return errors[order[a]] < errors[order[b]] })
	}
	can := func(l int) bool { return step > 0 && n[l] < ceiling || step < 0 && n[l] > floor }
	for missing != 0 && slices.ContainsFunc(order, can) {
		for _, l := range order {
			if missing == 0 || !can(l) {
				continue
			}
			n[l] += step
			missing -= step
			if argmax {
				break
			}
		}
	}
	return n
}

package stage

import (
	"math"
	"slices"
)

// Importance shares total tokens, protected ones left out, among lists by the importance of their heads (HeadKV): of a
// mean of b, b·(1−1/beta) each, and the rest in proportion. Without any importance shares are equal. Each gets at least
// one where the total allows. No list gets more than most: a list can't hold more tokens than there are, so what it
// could not use goes to the others, where the published code leaves it unused.
func Importance(importance []float64, total int, beta float64, most int) []int {
	sum := 0.0
	for _, x := range importance {
		sum += x
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		return Even(total, len(importance))
	}
	b := float64(total) / float64(len(importance))
	shares := make([]float64, len(importance))
	for i, x := range importance {
		shares[i] = b - b/beta + x/sum*float64(total)/beta
	}
	var hi []int
	if most > 0 && total/len(importance) < most {
		hi = slices.Repeat([]int{most}, len(importance))
	}
	return Apportion(shares, total, min(1, total/len(importance)), hi)
}

// ImportanceReference are the prefix tokens of each query head in the published code, for a mean of b: importances to
// the power of temp, the quotient by beta rounded down, results rounded half to even. They may miss the sum. Without any
// importance, where that would divide by nothing, each has b.
func ImportanceReference(importance []float64, b int, beta, temp float64) []int {
	sum := 0.0
	for _, x := range importance {
		sum += math.Pow(x, temp)
	}
	dynamic := math.Floor(float64(b) / beta)
	pool := dynamic * float64(len(importance))
	n := make([]int, len(importance))
	for i, x := range importance {
		if !(sum > 0) || math.IsInf(sum, 0) {
			n[i] = b
			continue
		}
		n[i] = int(math.RoundToEven(math.Pow(x, temp)/sum*pool + float64(b) - dynamic))
	}
	return n
}

// RoundedMean is the mean of numbers, half rounded to even: what a KV head gets of its query heads' numbers.
func RoundedMean(n []int) int {
	sum := 0
	for _, x := range n {
		sum += x
	}
	return int(math.RoundToEven(float64(sum) / float64(len(n))))
}

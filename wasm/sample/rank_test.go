package sample

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRanking holds the lazy order against a sort: by score, and of equal scores the first token.
func TestRanking(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var rank ranking
	for range 300 {
		n := 1 + r.IntN(40)
		scores, weight := make([]float32, n), make([]float32, n)
		for i := range scores {
			scores[i] = float32(r.IntN(6)) // many are equal
			weight[i] = float32(r.IntN(3))
		}
		var want []int32
		for i := range scores {
			if weight[i] >= 1 {
				want = append(want, int32(i))
			}
		}
		slices.SortStableFunc(want, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) })
		rank.reset(scores, weight, 1)
		if len(rank.order) != len(want) {
			t.Fatalf("%d tokens are ranked, want %d", len(rank.order), len(want))
		}
		for i := range want {
			if got := rank.at(i); got != want[i] {
				t.Fatalf("rank %d of %v is token %d, want %d", i, scores, got, want[i])
			}
		}
	}
}

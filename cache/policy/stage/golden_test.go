package stage

import (
	"fmt"
	"slices"
	"testing"

	"kvlens/web/lab/golden"
)

// Page scores, the best whole pages, and the tokens that the reference reads: it takes a page more than it needs, and
// then as many tokens of its pages, by position, as the budget has room for.
func TestGoldenQuest(t *testing.T) {
	n := golden.Count(t)
	layers := golden.PolicyInputs(t)
	const d, group = golden.TinyHeadDim, golden.TinyHeads / golden.TinyKVHeads
	for i, c := range golden.Quest(t) {
		layer := &layers[c.Layer]
		tokens := len(layer.K[0])
		prefix, room := tokens-c.Recent, c.Budget-c.Recent
		pages := (prefix + c.Page - 1) / c.Page
		for h := range golden.TinyHeads {
			what := fmt.Sprintf("%d layer %d head %d", i, c.Layer, h)
			bounds := make([]float32, pages*2*d)
			for j, key := range layer.K[h/group][:prefix] {
				Bound(bounds[j/c.Page*2*d:], key, j%c.Page == 0)
			}
			scores := make([]float32, pages)
			PageScores(scores, layer.Q[h][tokens-1], bounds)
			if c.Scores != nil {
				golden.Close(t, what, scores, c.Scores[h], 1e-4, 1e-4)
				n.Case(1)
			}
			best := make([]bool, pages)
			Top(best, scores, len(c.Pages[h]), nil)
			if got := Indices(best); !slices.Equal(got, c.Pages[h]) {
				t.Errorf("%s: pages %v, want %v", what, got, c.Pages[h])
			}
			n.Case(1)

			more := (room + c.Page - 1) / c.Page
			if prefix%c.Page != 0 && room%c.Page != 0 {
				more++
			}
			read := make([]bool, pages)
			Top(read, scores, more, nil)
			var got []int32
			for j := range prefix {
				if read[j/c.Page] && len(got) < room {
					got = append(got, int32(j))
				}
			}
			for j := prefix; j < tokens; j++ {
				got = append(got, int32(j))
			}
			if !slices.Equal(got, c.Tokens[h]) {
				t.Errorf("%s: read %v, want %v", what, got, c.Tokens[h])
			}
			n.Case(1)
		}
	}
}

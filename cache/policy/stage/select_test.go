package stage

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The same scores with three kinds of pooling keep three different sets.
func TestTop(t *testing.T) {
	x := []float32{.30, .02, .01, .25, .01, .20}
	avg, highest := make([]float32, 6), make([]float32, 6)
	PoolAvg(avg, x, 3)
	PoolMax(highest, x, 3)
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		name   string
		scores []float32
		marked []int
		n      int
		want   []int32
	}{
		{"none", x, nil, 0, nil},
		{"less than none", x, nil, -1, nil},
		{"as they are", x, nil, 3, []int32{0, 3, 5}},
		{"average", avg, nil, 3, []int32{0, 1, 4}},
		{"maximum with ties", highest, nil, 3, []int32{0, 1, 2}},
		{"all equal", make([]float32, 5), nil, 2, []int32{0, 1}},
		{"both zeros are equal", []float32{float32(math.Copysign(0, -1)), 0, -1}, nil, 1, []int32{0}},
		{"marked ones stay", x, []int{1, 2}, 1, []int32{0, 1, 2}},
		{"more than there are", x, []int{5}, 9, []int32{0, 1, 2, 3, 4, 5}},
		{"infinite and not a number", []float32{nan, -inf, inf, 0}, nil, 2, []int32{2, 3}},
		{"not a number is least", []float32{nan, -inf}, nil, 1, []int32{1}},
		{"negative", []float32{-3, -1, -2}, nil, 2, []int32{1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			marked := make([]bool, len(c.scores))
			for _, i := range c.marked {
				marked[i] = true
			}
			took, _ := Top(marked, c.scores, c.n, nil)
			if got := Indices(marked); !slices.Equal(got, c.want) || took != len(c.want)-len(c.marked) {
				t.Errorf("kept %v, %d more, want %v", got, took, c.want)
			}
		})
	}
}

// Against plain sorting, over scores with many ties, of all sizes and signs.
func TestTopIsTheTop(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 13))
	odd := []float32{0, float32(math.Copysign(0, -1)), 1e-45, -1e-45, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.MaxFloat32}
	for range 500 {
		scores := make([]float32, 1+rng.IntN(40))
		for i := range scores {
			switch rng.IntN(3) {
			case 0:
				scores[i] = odd[rng.IntN(len(odd))]
			case 1:
				scores[i] = float32(rng.IntN(3)) / 2
			default:
				scores[i] = float32(rng.NormFloat64() * math.Pow(10, float64(rng.IntN(60)-30)))
			}
		}
		marked, order := make([]bool, len(scores)), []int32(nil)
		for i := range scores {
			if marked[i] = rng.IntN(4) == 0; !marked[i] {
				order = append(order, int32(i))
			}
		}
		slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) }) // NaN last
		if got := Lowest(marked, scores); len(order) == 0 && got != -1 || len(order) > 0 && int32(got) != order[len(order)-1] {
			t.Fatalf("%v but for %v: the lowest is %d", scores, marked, got)
		}
		n := rng.IntN(len(scores) + 1)
		want := slices.Sorted(slices.Values(order[:min(n, len(order))]))
		before := slices.Clone(marked)
		took, _ := Top(marked, scores, n, nil)
		var got []int32
		for i := range marked {
			if marked[i] && !before[i] {
				got = append(got, int32(i))
			}
		}
		if took != len(want) || !slices.Equal(got, want) {
			t.Fatalf("%d of %v but for %v: %v, want %v", n, scores, before, got, want)
		}
	}
}

func TestProtect(t *testing.T) {
	for _, c := range []struct {
		name                 string
		pos                  []int32
		sinks, recent, limit int
		want                 []int32
	}{
		{"nothing", []int32{0, 1, 2}, 0, 0, 2, nil},
		{"both", []int32{0, 1, 2, 3, 4, 5}, 2, 2, 5, []int32{0, 1, 4, 5}},
		{"sinks are positions", []int32{1, 5, 6}, 4, 1, 3, []int32{0, 2}},
		{"they meet", []int32{0, 1, 2}, 2, 2, 3, []int32{0, 1, 2}},
		{"room for less: sinks and a recent one", []int32{0, 1, 2, 3, 4, 5}, 4, 3, 3, []int32{0, 1, 5}},
		{"room for one: the newest", []int32{0, 1, 2, 3}, 4, 2, 1, []int32{3}},
		{"room for one and nothing is recent: the first", []int32{0, 1, 2, 3}, 4, 0, 1, []int32{0}},
		{"no room", []int32{0, 1}, 4, 2, 0, nil},
		{"more than there are", []int32{0, 1}, 0, 9, 5, []int32{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			marked := make([]bool, len(c.pos))
			n := Protect(marked, c.pos, c.sinks, c.recent, c.limit)
			if got := Indices(marked); !slices.Equal(got, c.want) || n != len(c.want) {
				t.Errorf("%d marked: %v, want %v", n, got, c.want)
			}
		})
	}
}

func TestChunks(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		name   string
		scores []float32
		marked []int
		size   int
		n      int
		want   []int32
	}{
		{"the best chunk", []float32{1, 1, 5, 5, 0, 0}, nil, 2, 2, []int32{2, 3}},
		{"a part of the second, its best", []float32{1, 2, 5, 5, 0, 0}, nil, 2, 3, []int32{1, 2, 3}},
		{"a short last chunk counts by its mean", []float32{1, 1, 5, 5, 9}, nil, 2, 1, []int32{4}},
		{"chunks of what is kept anyway come first", []float32{.1, .1, .4, .4, 0, 0}, []int{5}, 2, 2, []int32{2, 4, 5}},
		{"of equals the first", []float32{1, 1, 1, 1}, nil, 2, 2, []int32{0, 1}},
		{"not a number takes no chunk's place", []float32{nan, .1, .4, .4, .2, 0}, []int{5}, 2, 2, []int32{2, 4, 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			marked := make([]bool, len(c.scores))
			for _, i := range c.marked {
				marked[i] = true
			}
			Chunks(marked, c.scores, c.size, c.n)
			if got := Indices(marked); !slices.Equal(got, c.want) {
				t.Errorf("kept %v, want %v", got, c.want)
			}
		})
	}
}

func TestCritical(t *testing.T) {
	scores, weights := []float32{.4, .3, .2, .1}, []float32{1, 1, 2, 10}
	for _, c := range []struct {
		first, n int
		want     []int32
	}{
		{0, 1, []int32{3}}, // weighted .4 .3 .4 1
		{1, 2, []int32{0, 3}},
		{2, 2, []int32{0, 1}},
		{1, 3, []int32{0, 2, 3}},
	} {
		marked := make([]bool, 4)
		Critical(marked, scores, weights, c.first, c.n, 0)
		if got := Indices(marked); !slices.Equal(got, c.want) {
			t.Errorf("first %d of %d: %v, want %v", c.first, c.n, got, c.want)
		}
	}
}

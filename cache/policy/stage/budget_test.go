package stage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"kvlens/web/lab/golden"
)

// TestGoldenAlloc compares the published arithmetic of budgets with what the originals returned.
func TestGoldenAlloc(t *testing.T) {
	n := golden.Count(t)
	same := func(what string, got, want []int) {
		t.Helper()
		n.Case(1)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	g := golden.Alloc(t)
	for i, c := range g.ErrorAware {
		same(fmt.Sprintf("errors %d", i), ErrorAware(c.E, c.B*len(c.E), 32, 3*c.B, false), c.Budgets)
	}
	for i, c := range g.Cake {
		for _, after := range c.Cascade {
			same(fmt.Sprintf("cake %d after %d", i, after.M), CakeReference(c.P[:after.M], c.T, c.Cap), after.Budgets)
		}
	}
	for i, c := range g.Pyramid {
		same(fmt.Sprintf("pyramid %d", i), PyramidReference(c.B, c.W, c.Beta, c.Layers, c.L), c.Stored)
	}
	for i, c := range g.Adaptive {
		same(fmt.Sprintf("adaptive %d", i), adaptiveReference(c.Scores, c.B, c.Alpha, c.Normalize), c.Caps)
	}
	for i, c := range g.Importance {
		same(fmt.Sprintf("importance %d", i), ImportanceReference(c.Importance, c.B, c.Beta, c.Temp), slices.Concat(c.Caps...))
	}
}

// TestGoldenPyramidKVPress compares layer budgets with those of kvpress.
func TestGoldenPyramidKVPress(t *testing.T) {
	n := golden.Count(t)
	for _, c := range golden.Presses(t) {
		if c.Class != "PyramidKVPress" {
			continue
		}
		for _, run := range c.Runs {
			got := PyramidKVPress(float64(run.L)*(1-run.Ratio), c.Params.Window, float64(c.Params.Beta), len(run.Budget), run.L)
			n.Case(1)
			for l, want := range run.Budget {
				if got[l] != want[0] {
					t.Errorf("%s at %v of %d: layer %d has %d, want %d", c.Name, run.Ratio, run.L, l, got[l], want[0])
				}
			}
		}
	}
}

// TestErrorAwareTies compares both tie rules where clipping makes them differ.
func TestErrorAwareTies(t *testing.T) {
	e := []float64{.9, .04, .03, .02, .01}
	for _, c := range []struct {
		argmax bool
		want   []int
	}{
		{false, []int{384, 71, 66, 62, 57}},
		{true, []int{384, 131, 46, 42, 37}},
	} {
		if got := ErrorAware(e, 5*128, 32, 3*128, c.argmax); !slices.Equal(got, c.want) {
			t.Errorf("argmax %v: %v, want %v", c.argmax, got, c.want)
		}
	}
}

// TestCakeByHand shares 96 tokens of at most 60 among four layers that come one by one.
func TestCakeByHand(t *testing.T) {
	p := []float64{3, 1, 2, .5}
	for m, want := range [][]int{{60}, {60, 36}, {48, 16, 32}, {45, 15, 29, 7}} {
		if got := Cake(p[:m+1], 96, 60); !slices.Equal(got, want) {
			t.Errorf("after layer %d: %v, want %v", m, got, want)
		}
	}
	for _, p := range [][]float64{{0, 0, 0}, {math.NaN(), 1, 1}, {math.Inf(1), 1, 1}} {
		if got := Cake(p, 30, 20); !slices.Equal(got, []int{10, 10, 10}) {
			t.Errorf("preferences %v: %v, want equal shares", p, got)
		}
	}
}

// TestPreference compares with the entropy of even attention over m keys, ln m, and with no variance.
func TestPreference(t *testing.T) {
	for _, c := range []struct{ entropy, variance, tau1, tau2, want float64 }{
		{math.Log(16), 0.25, 1, 1, math.Log(16) / 4},
		{4, 0.25, 2, 0.5, 2 * 0.0625},
		{3, 0, 1, 1, 0},
		{math.NaN(), 1, 1, 1, 0},
		{math.Inf(1), 1, 1, 1, 0},
		{-1, 0.5, 2, 1, 0}, // rounding can make an entropy of one key negative
	} {
		if got := Preference(c.entropy, c.variance, c.tau1, c.tau2); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("Preference(%v, %v, %v, %v) = %v, want %v", c.entropy, c.variance, c.tau1, c.tau2, got, c.want)
		}
	}
}

func sum(n []int) (s int) {
	for _, x := range n {
		s += x
	}
	return s
}

// TestApportion: integers meet the total and the bounds, are within one of shares that need no bound, and keep their order.
func TestApportion(t *testing.T) {
	for _, c := range []struct {
		shares    []float64
		total, lo int
		hi        []int
		want      []int
	}{
		{[]float64{2.5, 2.5, 1}, 6, 0, nil, []int{3, 2, 1}},                         // of equals the lower
		{[]float64{4.4, 4.4, 1.2}, 10, 0, nil, []int{5, 4, 1}},                      //
		{[]float64{9, .5, .5}, 10, 1, nil, []int{8, 1, 1}},                          // the floor is paid by who has most
		{[]float64{9, .5, .5}, 10, 0, []int{4, 9, 9}, []int{4, 3, 3}},               // a ceiling's excess is spread evenly
		{[]float64{5, 5}, 10, 0, []int{2, 3}, []int{2, 3}},                          // bounds win
		{[]float64{1, 1}, 1, 1, nil, []int{1, 1}},                                   //
		{[]float64{math.NaN(), 3}, 3, 0, nil, []int{0, 3}},                          //
		{[]float64{math.Inf(1), 3}, 4, 1, nil, []int{3, 1}},                         //
		{[]float64{0.9, 0.9, 0.9, 0.3}, 3, 0, []int{1, 1, 1, 0}, []int{1, 1, 1, 0}}, //
	} {
		if got := Apportion(c.shares, c.total, c.lo, c.hi); !slices.Equal(got, c.want) {
			t.Errorf("Apportion(%v, %d, %d, %v) = %v, want %v", c.shares, c.total, c.lo, c.hi, got, c.want)
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		shares, total := make([]float64, 1+rng.IntN(20)), 0.0
		for i := range shares {
			shares[i] = 1 + rng.ExpFloat64()*10
			total += shares[i]
		}
		whole := math.Floor(total)
		for i := range shares {
			shares[i] *= whole / total
		}
		got := Apportion(shares, int(whole), 0, nil)
		if sum(got) != int(whole) {
			t.Fatalf("%v sum to %d, want %v", got, sum(got), whole)
		}
		for i, x := range shares {
			if math.Abs(float64(got[i])-x) >= 1 {
				t.Fatalf("share %v became %d", x, got[i])
			}
			for j, y := range shares {
				if x > y && got[i] < got[j] {
					t.Fatalf("shares %v and %v became %d and %d", x, y, got[i], got[j])
				}
			}
		}
	}
}

// TestPitfall3PyramidOfOneLayer: one layer and tiny budgets give every layer a token and meet the sum.
func TestPitfall3PyramidOfOneLayer(t *testing.T) {
	for _, layers := range []int{1, 2, 3, 30} {
		for _, b := range []int{1, 2, 3, 5} {
			for _, beta := range []float64{1, 20, 1000} {
				got := Pyramid(b*layers, layers, 500, 3, beta)
				if sum(got) != b*layers || slices.Min(got) < 1 {
					t.Errorf("%d layers, %d tokens, beta %v: %v", layers, b, beta, got)
				}
			}
		}
	}
}

// TestPitfall4PyramidMeetsTheSum: the sum that the published integers exceed holds, over a grid.
func TestPitfall4PyramidMeetsTheSum(t *testing.T) {
	exceeded := 0
	for _, b := range []int{16, 32, 64, 128, 515} {
		for _, w := range []int{1, 8, 15} {
			for _, length := range []int{b, b + 1, 2 * b, 3 * b, 4000} {
				for _, layers := range []int{1, 2, 4, 30, 32} {
					got := Pyramid((b-w)*layers, layers, length, w, 20)
					if sum(got) != (b-w)*layers {
						t.Errorf("B %d, w %d, L %d, %d layers: %v sum to %d", b, w, length, layers, got, sum(got))
					}
					if length > b && sum(PyramidReference(b, w, 20, layers, length)) > b*layers {
						exceeded++
					}
				}
			}
		}
	}
	if exceeded == 0 {
		t.Error("the published integers exceed no sum here: the grid shows nothing")
	}
}

// TestPitfall5PyramidThresholds compares where nothing is cut, where the line is flat, and where it is not.
func TestPitfall5PyramidThresholds(t *testing.T) {
	const b, w, layers = 24, 4, 4 // 20 tokens beside the window
	for _, c := range []struct {
		length    int
		reference []int
		ours      []int // beside the window; nil where everything fits anyway
	}{
		{b - 1, []int{23, 23, 23, 23}, nil},
		{b, []int{24, 24, 24, 24}, nil},
		{b + 1, []int{24, 24, 24, 24}, []int{20, 20, 20, 20}},
		{2*20 - 1, []int{24, 24, 24, 24}, []int{20, 20, 20, 20}},
		{2 * 20, []int{40, 30, 20, 10}, []int{36, 25, 15, 4}},  // 36, 25⅓, 14⅔, 4: no more than there are beside the window
		{2*20 + w, []int{43, 31, 19, 7}, []int{39, 26, 14, 1}}, // 39, 26⅓, 13⅔, 1
	} {
		if got := PyramidReference(b, w, 20, layers, c.length); !slices.Equal(got, c.reference) {
			t.Errorf("published at %d: %v, want %v", c.length, got, c.reference)
		}
		if c.ours == nil {
			continue
		}
		if got := Pyramid((b-w)*layers, layers, c.length, w, 20); !slices.Equal(got, c.ours) {
			t.Errorf("ours at %d: %v, want %v", c.length, got, c.ours)
		}
	}
}

// TestPitfall6PyramidFallsFromLayerToLayer: for every beta the line falls, and its ends are as far from the mean.
func TestPitfall6PyramidFallsFromLayerToLayer(t *testing.T) {
	const w = 1
	for _, b := range []int{1, 4, 13, 100} {
		for _, beta := range []float64{1, 1.5, 7, 20, 100, 1e6} {
			for _, layers := range []int{2, 5, 32} {
				for _, room := range []int{2*b - w, 2 * b, 2*b + 1, 40 * b} {
					got := Pyramid(b*layers, layers, room+w, w, beta)
					for l := 1; l < layers; l++ {
						if got[l] > got[l-1] {
							t.Fatalf("b %d, beta %v, room %d: %v rises", b, beta, room, got)
						}
					}
					if got[0] > room || sum(got) != b*layers {
						t.Fatalf("b %d, beta %v, room %d: %v", b, beta, room, got)
					}
				}
			}
		}
	}
}

// TestPitfall30AdaptiveAdapts: with a fifth of the room sure, heads of skewed scores differ; with all of it they don't.
func TestPitfall30AdaptiveAdapts(t *testing.T) {
	flat, steep, middle := []float32{.13, .13, .13, .13, .12, .12, .12, .12}, []float32{.9, .02, .02, .02, .01, .01, .01, .01},
		[]float32{.3, .25, .2, .1, .05, .04, .03, .03}
	scores := [][]float32{middle, flat, steep}
	for _, c := range []struct {
		alpha float64
		want  []int // 12 tokens: of the highest scores the heads have 3, 8 and 1
	}{
		{0, []int{3, 8, 1}},
		{.2, []int{3, 7, 2}}, // 3.2, 7.2, 1.6
		{.5, []int{4, 6, 2}}, // 3.5, 6, 2.5: of equals the lower
		{1, []int{4, 4, 4}},
	} {
		if got := exact(scores, 12, c.alpha, false); !slices.Equal(got, c.want) {
			t.Errorf("alpha %v: %v, want %v", c.alpha, got, c.want)
		}
	}
}

// exact is AdaKV as we count.
func exact(scores [][]float32, total int, alpha float64, normalise bool) []int {
	has := make([]int, len(scores))
	for h, s := range scores {
		has[h] = len(s)
	}
	c := NewContest(total, len(scores), alpha, normalise, false, false)
	return Adaptive(c.Highest(scores), has, total, alpha)
}

// adaptiveReference is AdaKV as published, for a mean of b.
func adaptiveReference(scores [][]float32, b int, alpha float64, normalise bool) []int {
	c := NewContest(len(scores)*b, len(scores), alpha, normalise, true, false)
	return AdaptiveReference(c.Highest(scores), b, alpha)
}

// TestAdaptiveBounds: sums are met, no head has more than its tokens, none less than its sure part.
func TestAdaptiveBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		heads := 1 + rng.IntN(5)
		scores, has := make([][]float32, heads), 0
		for h := range scores {
			scores[h] = make([]float32, 1+rng.IntN(30))
			has += len(scores[h])
			for i := range scores[h] {
				scores[h][i] = float32(math.Pow(rng.Float64(), 4*float64(h)))
			}
		}
		total, alpha := 1+rng.IntN(has), rng.Float64()
		got := exact(scores, total, alpha, rng.IntN(2) == 0)
		if sum(got) != total {
			t.Fatalf("%v sum to %d, want %d", got, sum(got), total)
		}
		for h, n := range got {
			if sure := int(alpha * float64(total) / float64(heads)); n > len(scores[h]) || n < min(sure, len(scores[h])) {
				t.Fatalf("head %d of %v has %d of %d tokens, sure of %d", h, got, n, len(scores[h]), sure)
			}
		}
	}
}

// TestSafeTokens: by kvpress' numbers the smallest part that heads are sure of is a token, and no part is none.
func TestSafeTokens(t *testing.T) {
	scores := [][]float32{{9, 9, 9, 9}, {1, 1, 1, 1}}
	for _, c := range []struct {
		alpha float64
		want  []int
	}{{0, []int{4, 0}}, {.01, []int{3, 1}}, {.5, []int{3, 1}}, {1, []int{2, 2}}} {
		contest := NewContest(4, 2, c.alpha, false, false, true)
		if got := contest.Highest(scores); !slices.Equal(got, c.want) {
			t.Errorf("alpha %v: %v, want %v", c.alpha, got, c.want)
		}
	}
}

// TestImportance: without differences shares are equal, and the more important head never has less.
func TestImportance(t *testing.T) {
	for _, imp := range [][]float64{{0, 0, 0}, {2, 2, 2}, {math.NaN(), 1, 1}} {
		if got := Importance(imp, 31, 1.5, 100); !slices.Equal(got, []int{11, 10, 10}) {
			t.Errorf("importance %v: %v, want equal shares", imp, got)
		}
	}
	// b = 24: 8 each and 128 by importance, 8:4:2:1:1.
	if got, want := Importance([]float64{8, 4, 2, 1, 1, 0, 0, 0}, 192, 1.5, 100), []int{72, 40, 24, 16, 16, 8, 8, 8}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// Of 72 and 40 there are 30 at the most: the 52 beyond go to the others: 6 to the 24, 46 to the other five.
	got := Importance([]float64{8, 4, 2, 1, 1, 0, 0, 0}, 192, 1.5, 30)
	if want := []int{30, 30, 30, 16 + 10, 16 + 9, 8 + 9, 8 + 9, 8 + 9}; !slices.Equal(got, want) {
		t.Errorf("at most 30: %v, want %v", got, want)
	}
	// More than all lists can hold is shared as if there were no end.
	if got, want := Importance([]float64{3, 1}, 100, 1.0, 20), []int{75, 25}; !slices.Equal(got, want) {
		t.Errorf("at most 20: %v, want %v", got, want)
	}
}

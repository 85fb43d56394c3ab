package policy

import (
	"slices"
	"testing"
)

// TestNormalisedScoresShareOtherwise: a head that has all of its attention on its best tokens counts for more than one of
// even attention if scores are weighted by that, and a budget by hand says how much.
func TestNormalisedScoresShareOtherwise(t *testing.T) {
	s := Shape{1, 2, 2, 2}
	in := &Input{
		Candidates: []Candidates{{Pos: all(6)}, {Pos: all(6)}},
		Columns:    [][]float32{{3, 3, 3, 3, 3, 3}, {5, 2.9, 2.9, 0, 0, 0}},
	}
	// Of the four highest the even head has three. Its best two have a third of its sum, 1 each then; the other's have
	// 7.9 of 10.8: its three count 3.7, 2.1 and 2.1.
	for normalise, want := range [][]int{{3, 1}, {1, 3}} {
		p := mustPlan(t, Recipe{"observed", nil, []Wrap{{"adakv", map[string]float64{"alpha": 0, "normalise": float64(normalise)}}}})
		p.Score.PerQuery = false
		r, err := NewRun(p, s, Budget{Tokens: 2, Reserve: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Prompt(6)
		if _, err := r.Layer(0, in, GoLoops); err != nil {
			t.Fatal(err)
		}
		if got := r.Caps()[0]; !slices.Equal(got, want) {
			t.Errorf("normalise %d: %v, want %v", normalise, got, want)
		}
	}
}

// TestEveryHeadHasAToken: where published integers give a head nothing and no window is protected, it has one token.
func TestEveryHeadHasAToken(t *testing.T) {
	in := &Input{Candidates: []Candidates{{Pos: all(6)}, {Pos: all(6)}}, Columns: [][]float32{{3, 3, 3, 3, 3, 3}, {1, 1, 1, 1, 1, 1}}}
	for _, parity := range []bool{false, true} {
		for rounding, want := range [][]int{{3, 1}, {3, 1}, {3, 1}} {
			p := mustPlan(t, Recipe{"observed", nil, []Wrap{{"adakv", map[string]float64{"alpha": 0, "rounding": float64(rounding)}}}})
			p.Score.PerQuery = false
			r, err := NewRun(p, Shape{1, 2, 2, 2}, Budget{Tokens: 2, Reserve: 1, Parity: parity}, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Prompt(6)
			if _, err := r.Layer(0, in, GoLoops); err != nil {
				t.Fatal(err)
			}
			if got := r.Caps()[0]; !slices.Equal(got, want) {
				t.Errorf("rounding %d, parity %v: %v, want %v", rounding, parity, got, want)
			}
		}
	}
}

// TestFirstOfCritical: the part of the budget that goes by scores alone is the knob's.
func TestFirstOfCritical(t *testing.T) {
	row := []float32{.4, .3, .2, .1}
	c := &Candidates{Pos: all(4), OutL1: []float32{1, 1, 3, 8}} // weighed .4 .3 .6 .8
	for first, want := range map[float64][]int32{0: {2, 3}, .5: {0, 3}, 1: {0, 1}} {
		p := mustPlan(t, Recipe{"observed", nil, []Wrap{{"criticalkv", map[string]float64{"first": first, "epsilon": 0}}}})
		if got := pick(p, &scored{Heads: [][]float32{row}}, 0, c, 2); !slices.Equal(got, want) {
			t.Errorf("first %v: %v, want %v", first, got, want)
		}
	}
}

// TestRoundingOfCake: a layer of no preference has nothing beside its window by the published arithmetic, in parity too,
// and a token by ours.
func TestRoundingOfCake(t *testing.T) {
	for _, c := range []struct {
		rounding float64
		parity   bool
		want     []int
	}{{0, false, []int{17, 3}}, {1, false, []int{18, 2}}, {0, true, []int{18, 2}}} { // 16 beside two windows of 2
		p := mustPlan(t, Recipe{Method: "cake", Knobs: map[string]float64{"window": 2, "rounding": c.rounding}})
		r, err := NewRun(p, Shape{2, 1, 1, 2}, Budget{Tokens: 10, Reserve: 1, Parity: c.parity}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Prompt(50)
		r.cake = cascade{preference: []float64{1}, sizes: []Sizes{{[]int{0}, []int{0}}}}
		if _, err := r.cascade(1, &Sizes{[]int{50}, []int{0}}, &seen{sc: &scored{}}); err != nil {
			t.Fatal(err)
		}
		if got := slices.Concat(r.Caps()...); !slices.Equal(got, c.want) {
			t.Errorf("rounding %v, parity %v: %v, want %v", c.rounding, c.parity, got, c.want)
		}
	}
}

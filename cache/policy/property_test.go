package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// shapes cover one query head a KV head, several, and one KV head for all.
var shapes = []Shape{{2, 1, 1, 4}, {2, 4, 4, 2}, {2, 6, 2, 4}, {3, 9, 3, 4}, {2, 8, 1, 2}}

// randomInput is what any plan could ask of a layer whose KV heads have kept some of the earlier tokens, fewer each, before
// the new ones came. With flat, all numbers are equal.
func randomInput(rng *rand.Rand, p *Plan, s Shape, stored, fresh int, flat bool) *Input {
	draw := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = 0.5
			if !flat {
				x[i] = float32(rng.NormFloat64())
			}
		}
		return x
	}
	in := &Input{
		Candidates: make([]Candidates, s.KVHeads),
		Columns:    make([][]float32, s.Heads),
		Queries:    draw(min(max(1, p.Score.Window), fresh) * s.Heads * s.HeadDim),
		Spread: &Spread{
			N: 5, Mean: draw(s.Heads * s.HeadDim), Cov: make([]float32, s.Heads*s.HeadDim*s.HeadDim),
			Rope: func(pos int) []float32 {
				row := make([]float32, s.HeadDim)
				for c := 0; c < len(row); c += 2 {
					sin, cos := math.Sincos(float64(pos) * math.Pow(100, -float64(c)/float64(s.HeadDim)))
					row[c], row[c+1] = float32(cos), float32(sin)
				}
				return row
			},
		},
	}
	for h := range in.Candidates {
		var pos []int32
		for i := range stored {
			if i == 0 || rng.IntN(3+h) > 0 {
				pos = append(pos, int32(2*i))
			}
		}
		for i := range fresh {
			pos = append(pos, int32(2*stored+i))
		}
		c := Candidates{Pos: pos, K: draw(len(pos) * s.HeadDim), V: draw(len(pos) * s.HeadDim), OutL1: draw(len(pos))}
		for i, x := range c.OutL1 {
			c.OutL1[i] = max(x, -x)
		}
		in.Candidates[h] = c
		for q := range s.Heads / s.KVHeads {
			row := draw(len(pos))
			for i, x := range row {
				row[i] = max(x, -x)
			}
			in.Columns[h*s.Heads/s.KVHeads+q] = row
		}
	}
	return in
}

// eachInput gives all recipes inputs of all lengths around their window, with and without tokens kept earlier.
func eachInput(t *testing.T, do func(t *testing.T, p *Plan, s Shape, in *Input, what string)) {
	plans(t, func(t *testing.T, _ string, p *Plan) {
		rng := rand.New(rand.NewPCG(21, 22))
		p.Score.Future = min(p.Score.Future, 8) // as good as 512 positions, and fast
		w := max(4, p.Score.Window)
		for _, s := range shapes {
			for _, fresh := range []int{1, 2, 3, 4, 5, w - 1, w, w + 1, 2*w + 3} {
				for _, stored := range []int{0, 1, 9} {
					for _, flat := range []bool{false, true} {
						in := randomInput(rng, p, s, stored, fresh, flat)
						do(t, p, s, in, fmt.Sprintf("%d heads for %d, %d stored, %d new, flat %v", s.Heads, s.KVHeads, stored, fresh, flat))
					}
				}
			}
		}
	})
}

// mustScore scores layer 1 of an input.
func mustScore(t *testing.T, p *Plan, s Shape, in *Input) *scored {
	t.Helper()
	sc, err := scoreLayer(p, s, 1, in, tablesOf(s, rand.New(rand.NewPCG(1, 1))), GoLoops)
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

// Every recipe, whatever the prompt: scores are finite, one for each candidate, and from 0 on unless their kind says
// otherwise; as many tokens stay as may, ascending and each once, protected ones among them; all stay where all fit; where
// tokens go one by one, none of those that leave is worth more than one that stays; heads of one set keep one set.
func TestEveryRecipeSelects(t *testing.T) {
	eachInput(t, func(t *testing.T, p *Plan, s Shape, in *Input, what string) {
		sc := mustScore(t, p, s, in)
		var first []int32
		for h := range in.Candidates {
			c := &in.Candidates[h]
			n := len(c.Pos)
			if sc.Heads != nil && len(sc.Heads[h]) != n {
				t.Fatalf("%s: head %d: %d scores for %d candidates", what, h, len(sc.Heads[h]), n)
			}
			if sc.Heads != nil && slices.ContainsFunc(sc.Heads[h], func(x float32) bool { return x-x != 0 }) {
				t.Fatalf("%s: head %d: scores %v", what, h, sc.Heads[h])
			}
			if sc.Heads != nil && !p.Score.signed() && slices.Min(sc.Heads[h]) < 0 {
				t.Fatalf("%s: head %d: scores below 0: %v", what, h, sc.Heads[h])
			}
			for _, limit := range []int{1, 2, 3, 4, 7, n / 2, n - 1, n, n + 5} {
				if limit < 1 {
					continue
				}
				kept := pick(p, sc, h, c, limit)
				if err := selects(p, sc, h, c, limit, kept); err != nil {
					t.Fatalf("%s: head %d, %d of %d: kept %v: %v", what, h, limit, n, kept, err)
				}
				if limit != 3 {
					continue
				}
				if h == 0 {
					first = kept
				} else if sc.OneSet && !slices.Equal(kept, first) {
					t.Fatalf("%s: head %d keeps %v, head 0 %v", what, h, kept, first)
				}
			}
		}
	})
}

// selects says what is wrong with a selection.
func selects(p *Plan, sc *scored, head int, c *Candidates, limit int, kept []int32) error {
	n := len(c.Pos)
	if len(kept) != min(limit, n) {
		return fmt.Errorf("%d tokens", len(kept))
	}
	stays := make([]bool, n)
	for i, at := range kept {
		if at < 0 || int(at) >= n || i > 0 && kept[i-1] >= at {
			return fmt.Errorf("not ascending candidates")
		}
		stays[at] = true
	}
	guarded := make([]bool, n)
	guards := 0
	for i, pos := range c.Pos {
		if int(pos) < p.Protect.Sinks || i >= n-p.Protect.recent(limit) {
			guarded[i] = true
			guards++
		}
	}
	if guards > limit { // then the newest or the first of them stay
		for i := range stays {
			if stays[i] && !guarded[i] {
				return fmt.Errorf("candidate %d took the place of a protected one", i)
			}
		}
		return nil
	}
	lowest, highest := float32(math.Inf(1)), float32(math.Inf(-1))
	for i := range stays {
		if guarded[i] {
			if !stays[i] {
				return fmt.Errorf("protected candidate %d left", i)
			}
			continue
		}
		worth := float32(i) // position alone decides: the newest
		if sc.Heads != nil {
			worth = sc.Heads[head][i]
		}
		if stays[i] {
			lowest = min(lowest, worth)
		} else {
			highest = max(highest, worth)
		}
	}
	if (p.Select.Kind == SelectTop || sc.Heads == nil) && lowest < highest {
		return fmt.Errorf("one of %v stayed, one of %v left", lowest, highest)
	}
	return nil
}

// The same input gives the same bits, and nothing of one layer or prompt reaches the next.
func TestEveryRecipeRepeats(t *testing.T) {
	eachInput(t, func(t *testing.T, p *Plan, s Shape, in *Input, what string) {
		a := mustScore(t, p, s, in)
		mustScore(t, p, s, randomInput(rand.New(rand.NewPCG(8, 8)), p, s, 4, 6, false))
		b := mustScore(t, p, s, in)
		for h := range a.Heads {
			if !slices.Equal(a.Heads[h], b.Heads[h]) {
				t.Fatalf("%s: head %d: %v, then %v", what, h, a.Heads[h], b.Heads[h])
			}
			c := &in.Candidates[h]
			if x, y := pick(p, a, h, c, 3), pick(p, b, h, c, 3); !slices.Equal(x, y) {
				t.Fatalf("%s: head %d: kept %v, then %v", what, h, x, y)
			}
		}
	})
}

// A KV head's scores don't depend on what other KV heads hold, unless the layer shares one set.
func TestHeadsScoreAlone(t *testing.T) {
	s := Shape{2, 6, 2, 4}
	plans(t, func(t *testing.T, _ string, p *Plan) {
		if p.Reduce.Kind == ReduceLayer || p.Select.Kind == SelectChunks || p.Score.Heads > 0 {
			return
		}
		rng := rand.New(rand.NewPCG(31, 32))
		in := randomInput(rng, p, s, 9, 20, false)
		want := mustScore(t, p, s, in)
		other := randomInput(rng, p, s, 5, 20, false)
		in.Candidates[1] = other.Candidates[1]
		copy(in.Columns[3:], other.Columns[3:])
		in.Candidates[1].Pos = slices.Clone(in.Candidates[1].Pos)
		for i := range in.Candidates[1].Pos {
			in.Candidates[1].Pos[i] += 8 // the newest tokens are the same
		}
		if got := mustScore(t, p, s, in); want.Heads != nil && !slices.Equal(got.Heads[0], want.Heads[0]) {
			t.Errorf("head 0: %v, then %v", want.Heads[0], got.Heads[0])
		}
	})
}

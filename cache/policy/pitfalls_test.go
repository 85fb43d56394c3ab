package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"kvlens/cache/policy/stage"
)

// Mistakes that published implementations have made, one test each.

// positions are n positions from first on.
func positions(first, n int) []int32 {
	pos := make([]int32, n)
	for i := range pos {
		pos[i] = int32(first + i)
	}
	return pos
}

// A sentinel that equals the highest score lets ties evict what is protected.
func TestPitfall1EqualScoresKeepProtected(t *testing.T) {
	plans(t, func(t *testing.T, _ string, p *Plan) {
		p.Protect.Sinks, p.Protect.Recent = 3, 4
		const n, limit = 40, 9
		for _, score := range []float32{0, 1, -1, math.MaxFloat32, -math.MaxFloat32} {
			row := slices.Repeat([]float32{score}, n)
			c := &Candidates{Pos: positions(0, n), OutL1: row}
			kept := pick(p, &scored{Heads: [][]float32{row}}, 0, c, limit)
			for _, want := range []int32{0, 1, 2, 36, 37, 38, 39} {
				if !slices.Contains(kept, want) {
					t.Errorf("scores %v: %d is not in %v", score, want, kept)
				}
			}
		}
	})
}

// A share of a short prompt that rounds to nothing leaves an empty cache and NaN; and the last 0 of a list are not all.
func TestPitfall2SomethingStays(t *testing.T) {
	plans(t, func(t *testing.T, _ string, p *Plan) {
		rng := rand.New(rand.NewPCG(1, 2))
		s := Shape{2, 4, 2, 4}
		for n := 1; n <= 5; n++ {
			in := randomInput(rng, p, s, 0, n, false)
			sc := mustScore(t, p, s, in)
			for h := range in.Candidates {
				if sc.Heads != nil && slices.ContainsFunc(sc.Heads[h], func(x float32) bool { return x-x != 0 }) {
					t.Errorf("%d tokens: scores %v", n, sc.Heads[h])
				}
				if kept := pick(p, sc, h, &in.Candidates[h], 1); len(kept) != 1 {
					t.Errorf("1 of %d tokens: kept %v", n, kept)
				}
			}
		}
	})
	marked := make([]bool, 4)
	if n := stage.Protect(marked, positions(0, 4), 0, 0, 4); n != 0 || slices.Contains(marked, true) {
		t.Errorf("the last 0 of 4: %v", marked)
	}
}

// H2O needs all queries, each on what came before it: column sums add up to the number of queries, a token that nothing
// followed has its own query's attention only, and the first query sees one token.
func TestPitfall10ColumnSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	const d, n = 4, 13
	q, k := make([]float32, d*n), make([]float32, d*n)
	for i := range q {
		q[i], k[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
	}
	sums, row, last := make([]float32, n), make([]float32, n), make([]float32, n)
	stage.Attention(GoLoops, sums, row, q, d, n, k, d)
	stage.Attention(GoLoops, last, row, q[(n-1)*d:], d, 1, k, d)
	total := float32(0)
	for _, x := range sums {
		total += x
	}
	if math.Abs(float64(total-n)) > 1e-4 {
		t.Errorf("column sums add up to %v after %d queries", total, n)
	}
	if math.Abs(float64(sums[n-1]-last[n-1])) > 1e-6 {
		t.Errorf("the newest token has %v, its own query gives it %v", sums[n-1], last[n-1])
	}
	one := make([]float32, 1)
	stage.Attention(GoLoops, one, row, q, d, 1, k[:d], d)
	if one[0] != 1 {
		t.Errorf("the first query gives the first token %v", one[0])
	}
}

// oneHot is an input in which query head h gives most of its attention to token h of its KV head.
func oneHot(s Shape) *Input {
	const n = 24
	in := &Input{Candidates: make([]Candidates, s.KVHeads), Queries: make([]float32, s.Heads*s.HeadDim)}
	for h := range in.Candidates {
		k := make([]float32, n*s.HeadDim)
		for c := range s.HeadDim {
			k[c*s.HeadDim+c] = 20 // token c looks along channel c
		}
		in.Candidates[h] = Candidates{Pos: positions(0, n), K: k}
	}
	for h := range s.Heads {
		in.Queries[h*s.HeadDim+h] = 10
	}
	return in
}

// KV heads are scored as such, not expanded to query heads, and the group axis is the inner one: query head h belongs to
// KV head h div g. Heads that are no whole groups are refused.
func TestPitfall11OneRowPerKVHead(t *testing.T) {
	s := Shape{2, 9, 3, 16}
	p := mustPlan(t, Recipe{Method: "snapkv", Knobs: map[string]float64{"window": 1, "kernel": 1}})
	sc := mustScore(t, p, s, oneHot(s))
	if len(sc.Heads) != s.KVHeads {
		t.Fatalf("scores of %d heads, want %d", len(sc.Heads), s.KVHeads)
	}
	for h := range sc.Heads {
		got := bestOf(sc.Heads[h], 3)
		if want := []int32{int32(3 * h), int32(3*h + 1), int32(3*h + 2)}; !slices.Equal(got, want) {
			t.Errorf("KV head %d looks at %v, want %v", h, got, want)
		}
	}
	s.Heads = 10
	if _, err := scoreLayer(p, s, 1, oneHot(s), nil, GoLoops); err == nil {
		t.Error("10 heads for 3 KV heads are no error")
	}
}

// bestOf are the n highest entries, ascending.
func bestOf(row []float32, n int) []int32 {
	marked := make([]bool, len(row))
	stage.Top(marked, row, n, nil)
	return stage.Indices(marked)
}

// Heads repeat (0 0 0 1 1 1), they don't tile (0 1 0 1 0 1): attention of one query head reaches one KV head.
func TestPitfall12RepeatNotTile(t *testing.T) {
	s := Shape{2, 6, 2, 4}
	p := mustPlan(t, Recipe{Method: "observed"})
	for q := range s.Heads {
		in := &Input{Candidates: make([]Candidates, 2), Columns: make([][]float32, 6)}
		for h := range in.Candidates {
			in.Candidates[h].Pos = positions(0, 5)
		}
		for h := range in.Columns {
			in.Columns[h] = make([]float32, 5)
		}
		in.Columns[q][2] = 1
		sc := mustScore(t, p, s, in)
		for h, row := range sc.Heads {
			if (row[2] != 0) != (h == q/3) {
				t.Errorf("query head %d: KV head %d has %v", q, h, row)
			}
		}
	}
}

// The same for every kind of reduction: rows of a group and no others make a KV head's score.
func TestPitfall13GroupAxisIsInner(t *testing.T) {
	s := Shape{2, 6, 2, 4}
	for kind, want := range map[ReduceKind][]float32{
		ReduceMean: {2, 5}, ReduceMax: {3, 6}, ReduceSum: {6, 15}, ReduceLayer: {3.5, 3.5},
	} {
		in := &Input{Candidates: []Candidates{{Pos: positions(0, 1)}, {Pos: positions(0, 1)}}}
		for h := range s.Heads {
			in.Columns = append(in.Columns, []float32{float32(h + 1)})
		}
		sc := mustScore(t, &Plan{Score: Score{Kind: ScoreColumns}, Reduce: Reduce{kind}}, s, in)
		if got := []float32{sc.Heads[0][0], sc.Heads[1][0]}; !slices.Equal(got, want) {
			t.Errorf("reduction %d: %v, want %v", kind, got, want)
		}
	}
}

// A prompt shorter than the window, or a little longer: no crash, as many tokens as may stay, the newest among them where
// the window stays.
func TestPitfall15ShortPrompts(t *testing.T) {
	plans(t, func(t *testing.T, _ string, p *Plan) {
		if p.Decode.Kind == DecodeStop {
			return
		}
		rng := rand.New(rand.NewPCG(15, 15))
		s := Shape{2, 4, 2, 4}
		for tokens := 1; tokens <= max(1, p.Score.Window)+1; tokens++ {
			budget := max(1, tokens-1)
			y := newToy(t, p, s, Budget{Tokens: budget, Reserve: reserveOf(p, budget), Prompt: tokens}, tablesOf(s, rng), 1)
			y.prompt(tokens)
			y.held(fmt.Sprintf("%d tokens", tokens), 0)
			for l := range y.pos {
				for h, pos := range y.pos[l] {
					if len(pos) == 0 || p.Protect.Recent > 0 && pos[len(pos)-1] != int32(tokens-1) {
						t.Fatalf("%d tokens, budget %d: layer %d head %d keeps %v", tokens, budget, l, h, pos)
					}
				}
			}
		}
	})
}

// The same prompt twice gives the same bits, whatever ran before it.
func TestPitfall21SameBits(t *testing.T) {
	s := Shape{3, 6, 2, 4}
	plans(t, func(t *testing.T, _ string, p *Plan) {
		run := func() ([][][]int32, [][]float32) {
			y := newToy(t, p, s, Budget{Tokens: 9, Reserve: reserveOf(p, 9), Prompt: 40}, tablesOf(s, rand.New(rand.NewPCG(2, 2))), 5)
			y.prompt(30)
			scores := slices.Clone(y.run.Scores(1))
			if p.Decode.Kind != DecodeStop {
				for range 12 {
					y.step()
				}
			}
			return y.pos, scores
		}
		pos, scores := run()
		again, same := run()
		for h := range scores {
			if !slices.Equal(scores[h], same[h]) {
				t.Errorf("head %d: scores %v, then %v", h, scores[h], same[h])
			}
		}
		for l := range pos {
			for h := range pos[l] {
				if !slices.Equal(pos[l][h], again[l][h]) {
					t.Errorf("layer %d head %d: %v, then %v", l, h, pos[l][h], again[l][h])
				}
			}
		}
	})
}

// No protected tokens is a number like any other: eviction goes on, in the prompt and in the answer.
func TestPitfall26NothingRecent(t *testing.T) {
	s := Shape{2, 4, 2, 4}
	plans(t, func(t *testing.T, _ string, p *Plan) {
		if p.Decode.Kind == DecodeStop {
			return
		}
		p.Protect = Protect{}
		for _, budget := range []int{1, 4, 9} {
			reserve := reserveOf(p, budget)
			y := newToy(t, p, s, Budget{Tokens: budget, Reserve: reserve, Prompt: 50}, tablesOf(s, rand.New(rand.NewPCG(4, 4))), 6)
			y.prompt(30)
			y.held("prompt", 0)
			for range 20 {
				y.step()
				y.held("step", reserve)
			}
		}
	})
}

// A question at the beginning of the prompt is none to a window at its end: the token that it asks for stays if the
// question comes last, and goes if it comes first.
func TestPitfall31QuestionFirstOrLast(t *testing.T) {
	const d, n, needle, budget = 8, 60, 30, 12
	s := Shape{1, 2, 1, d}
	for _, method := range []string{"snapkv", "tova"} {
		if !Find(method).Question {
			t.Errorf("%s: does not say that a question in the window helps it", method)
		}
		var knobs map[string]float64
		if method == "snapkv" {
			knobs = map[string]float64{"window": 4, "kernel": 1}
		}
		p := mustPlan(t, Recipe{Method: method, Knobs: knobs})
		w := p.Score.Window
		for _, last := range []bool{true, false} {
			rng := rand.New(rand.NewPCG(31, 31))
			k := make([]float32, n*d)
			for i := range k {
				k[i] = float32(rng.NormFloat64()) * .3
			}
			for j := range n {
				k[j*d] = 0 // only the needle answers along channel 0
			}
			k[needle*d], k[needle*d+1] = 20, -2 // and nothing else asks for it
			in := &Input{Candidates: []Candidates{{Pos: positions(0, n), K: k}}}
			for i := n - w; i < n; i++ {
				for range s.Heads {
					q := make([]float32, d)
					q[1] = 1
					if last { // the window is the question
						q[0] = 2
					}
					in.Queries = append(in.Queries, q...)
				}
			}
			kept := pick(p, mustScore(t, p, s, in), 0, &in.Candidates[0], budget)
			if slices.Contains(kept, needle) != last {
				t.Errorf("%s: question last %v: the answer at %d, kept %v", method, last, needle, kept)
			}
		}
	}
}

// A later prompt is scored against what is still stored: as if the tokens that left were masked, not as if they were there.
func TestPitfall32ScoresOfWhatIsStored(t *testing.T) {
	const d, n, w = 4, 30, 5
	rng := rand.New(rand.NewPCG(32, 32))
	s := Shape{1, 2, 1, d}
	p := mustPlan(t, Recipe{Method: "snapkv", Knobs: map[string]float64{"window": w, "pool": 0}})
	k, q := make([]float32, n*d), make([]float32, w*2*d)
	for i := range k {
		k[i] = float32(rng.NormFloat64())
	}
	for i := range q {
		q[i] = float32(rng.NormFloat64())
	}
	var pos []int32
	for i := range n {
		if i%3 != 1 || i >= n-w {
			pos = append(pos, int32(i))
		}
	}
	in := &Input{Candidates: []Candidates{{Pos: pos, K: gather(k, pos, d)}}, Queries: q}
	got := mustScore(t, p, s, in).Heads[0]
	want := make([]float64, n)
	for i := range w {
		for h := range s.Heads {
			row, sum := make([]float64, n), 0.0
			for _, j := range pos {
				if int(j) > n-w+i {
					continue
				}
				dot := 0.0
				for c := range d {
					dot += float64(q[(i*s.Heads+h)*d+c]) * float64(k[int(j)*d+c])
				}
				row[j] = math.Exp(dot / math.Sqrt(d))
				sum += row[j]
			}
			for j := range row {
				want[j] += row[j] / sum / float64(s.Heads)
			}
		}
	}
	for i, j := range pos[:len(pos)-w] {
		if math.Abs(float64(got[i])-want[j]) > 1e-5 {
			t.Errorf("position %d: %v, want %v", j, got[i], want[j])
		}
	}
}

// Query heads that are no multiple of KV heads are an error, not a guess.
func TestPitfall33HeadsAreWholeGroups(t *testing.T) {
	p := mustPlan(t, Recipe{Method: "snapkv"})
	for _, s := range []Shape{{2, 9, 2, 4}, {2, 2, 4, 4}, {2, 4, 0, 4}, {2, 4, -1, 4}} {
		in := &Input{Candidates: make([]Candidates, max(0, s.KVHeads)), Queries: make([]float32, max(0, s.Heads*s.HeadDim))}
		for h := range in.Candidates {
			in.Candidates[h] = Candidates{Pos: positions(0, 3), K: make([]float32, 3*s.HeadDim)}
		}
		if _, err := scoreLayer(p, s, 0, in, nil, GoLoops); err == nil {
			t.Errorf("%d heads for %d KV heads are no error", s.Heads, s.KVHeads)
		}
		if _, err := NewRun(p, s, Budget{Tokens: 8, Reserve: 1, Prompt: 8}, nil); err == nil {
			t.Errorf("a run with %d heads for %d KV heads is no error", s.Heads, s.KVHeads)
		}
	}
}

// Rows that see nothing are zeros, not NaN.
func TestPitfall34MaskedRows(t *testing.T) {
	inf := float32(math.Inf(-1))
	row := []float32{inf, inf, inf}
	GoLoops.Softmax(row)
	if !slices.Equal(row, []float32{0, 0, 0}) {
		t.Errorf("softmax of a masked row: %v", row)
	}
	// A prompt that is all window has no prefix: scores of nothing, and no NaN in the statistics of CAKE.
	s := Shape{2, 4, 2, 4}
	for _, kind := range []ScoreKind{ScoreWindow, ScoreIndicator} {
		p := &Plan{Score: Score{Kind: kind, Window: 8, Gamma: 200}, Pool: Pool{Kind: PoolAvg, Size: 5}, Protect: Protect{Recent: 8}}
		sc := mustScore(t, p, s, randomInput(rand.New(rand.NewPCG(1, 9)), p, s, 0, 6, false))
		if sc.Entropy != 0 || sc.Variance != 0 {
			t.Errorf("kind %d: entropy %v, variance %v", kind, sc.Entropy, sc.Variance)
		}
		for h := range sc.Heads {
			if slices.ContainsFunc(sc.Heads[h], func(x float32) bool { return x != 0 }) {
				t.Errorf("kind %d head %d: %v", kind, h, sc.Heads[h])
			}
		}
	}
}

package policy

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// scoreLayer scores a layer of a first prompt.
func scoreLayer(p *Plan, s Shape, layer int, in *Input, t *Tables, l Loops) (*scored, error) {
	return new(prompt).score(p, s, layer, in, t, l)
}

// columnsInput is two KV heads of two query heads each that share positions 2 and 5 only, with column sums by hand.
func columnsInput() *Input {
	return &Input{
		Candidates: []Candidates{{Pos: []int32{0, 2, 5}}, {Pos: []int32{1, 2, 4, 5}}},
		Columns:    [][]float32{{1, 2, 3}, {3, 4, 5}, {10, 20, 30, 40}, {0, 0, 0, 4}},
	}
}

// Where KV heads hold different tokens, a layer's mean of a token is over the heads that have it.
func TestLayerMeanOverDifferentLists(t *testing.T) {
	s := Shape{2, 4, 2, 4}
	sc := mustScore(t, &Plan{Score: Score{Kind: ScoreColumns}, Reduce: Reduce{ReduceLayer}}, s, columnsInput())
	for h, want := range [][]float32{{2, (2 + 4 + 20 + 0) / 4., (3 + 5 + 40 + 4) / 4.}, {5, 6.5, 15, 13}} {
		if !slices.Equal(sc.Heads[h], want) {
			t.Errorf("head %d: %v, want %v", h, sc.Heads[h], want)
		}
	}
	if sc.OneSet {
		t.Error("lists of different tokens can't keep one set")
	}
}

// Only the best semantic retrieval heads are asked; a KV head none of whose query heads is among them has the mean of all
// that were asked.
func TestRetrievalHeads(t *testing.T) {
	s := Shape{2, 4, 2, 4}
	in := &Input{
		Candidates: []Candidates{{Pos: positions(0, 2)}, {Pos: positions(0, 2)}},
		Columns:    [][]float32{{1, 2}, {3, 4}, {5, 6}, {9, 9}},
	}
	tables := &Tables{Semantic: [][]float32{{0, 0, 0, 0}, {.5, .7, .1, .5}}} // layer 1: 1, then 0 before 3, then 2
	for _, c := range []struct {
		heads  int
		reduce ReduceKind
		want   [][]float32
	}{
		{1, ReduceMean, [][]float32{{3, 4}, {3, 4}}},
		{2, ReduceMean, [][]float32{{2, 3}, {2, 3}}},
		{3, ReduceMean, [][]float32{{2, 3}, {9, 9}}},
		{2, ReduceLayer, [][]float32{{2, 3}, {2, 3}}},
		{4, ReduceLayer, [][]float32{{4.5, 5.25}, {4.5, 5.25}}},
		{0, ReduceLayer, [][]float32{{4.5, 5.25}, {4.5, 5.25}}},
		{9, ReduceMean, [][]float32{{2, 3}, {7, 7.5}}},
	} {
		p := &Plan{Score: Score{Kind: ScoreColumns, Heads: c.heads}, Reduce: Reduce{c.reduce}}
		sc, err := scoreLayer(p, s, 1, in, tables, GoLoops)
		if err != nil {
			t.Fatal(err)
		}
		for h := range c.want {
			for i, want := range c.want[h] {
				if math.Abs(float64(sc.Heads[h][i]-want)) > 1e-6 {
					t.Errorf("%d heads, reduction %d: %v, want %v", c.heads, c.reduce, sc.Heads, c.want)
				}
			}
		}
	}
}

// Layers that a method skips keep the newest tokens.
func TestSkippedLayers(t *testing.T) {
	s := Shape{3, 2, 2, 2}
	p := mustPlan(t, Recipe{Method: "knorm", Knobs: map[string]float64{"skip": 2}})
	c := Candidates{Pos: positions(0, 4), K: []float32{1, 0, 9, 0, 2, 0, 9, 0}}
	in := &Input{Candidates: []Candidates{c, c}}
	for layer, want := range [][]int32{{2, 3}, {2, 3}, {0, 2}} {
		sc, err := scoreLayer(p, s, layer, in, nil, GoLoops)
		if err != nil {
			t.Fatal(err)
		}
		if got := pick(p, sc, 0, &c, 2); !slices.Equal(got, want) {
			t.Errorf("layer %d: %v, want %v", layer, got, want)
		}
	}
}

// Chunks are those of all KV heads together, by the mean of their scores.
func TestChunksOfAllHeads(t *testing.T) {
	s := Shape{2, 2, 2, 2}
	in := &Input{
		Candidates: []Candidates{{Pos: positions(0, 4)}, {Pos: positions(0, 4)}},
		Columns:    [][]float32{{9, 9, 0, 0}, {0, 0, 10, 10}},
	}
	p := &Plan{Score: Score{Kind: ScoreColumns}, Select: Select{Kind: SelectChunks, Chunk: 2}}
	sc := mustScore(t, p, s, in)
	for h := range in.Candidates {
		if got := pick(p, sc, h, &in.Candidates[h], 2); !slices.Equal(got, []int32{2, 3}) {
			t.Errorf("head %d keeps %v", h, got)
		}
	}
	p.Heads.Kind = HeadsAdaptive // heads with budgets of their own have chunks of their own
	sc = mustScore(t, p, s, in)
	if got := pick(p, sc, 0, &in.Candidates[0], 2); !slices.Equal(got, []int32{0, 1}) {
		t.Errorf("head 0 alone keeps %v", got)
	}
}

// What a backend may get wrong is an error that names the layer, not a crash or a guess.
func TestScoreChecksItsInput(t *testing.T) {
	s := Shape{2, 4, 2, 4}
	snap := &Plan{Score: Score{Kind: ScoreWindow, Window: 3}}
	columns := &Plan{Score: Score{Kind: ScoreColumns}}
	expect := &Plan{Score: Score{Kind: ScoreExpected, Future: 4, Covariance: true, ValueNorm: true}}
	critical := &Plan{Score: Score{Kind: ScoreNorm}, Select: Select{Kind: SelectCritical}}
	for _, c := range []struct {
		name  string
		p     *Plan
		spoil func(in *Input)
		want  string
	}{
		{"fine", snap, func(*Input) {}, ""},
		{"fine", columns, func(*Input) {}, ""},
		{"fine", expect, func(*Input) {}, ""},
		{"fine", critical, func(*Input) {}, ""},
		{"a KV head too few", snap, func(in *Input) { in.Candidates = in.Candidates[:1] }, "candidates of 1 KV heads, want 2"},
		{"no candidates", columns, func(in *Input) { in.Candidates[1] = Candidates{} }, "KV head 1: no candidates"},
		{"no queries", snap, func(in *Input) { in.Queries = nil }, "0 numbers of queries"},
		{"a piece of a query", snap, func(in *Input) { in.Queries = in.Queries[:17] }, "17 numbers of queries"},
		{"more queries than tokens", snap, func(in *Input) { in.Queries = make([]float32, 16*99) }, "99 queries but"},
		{"keys too short", snap, func(in *Input) { in.Candidates[0].K = in.Candidates[0].K[1:] }, "KV head 0: keys of"},
		{"columns of too few heads", columns, func(in *Input) { in.Columns = in.Columns[:3] }, "column sums of 3 heads"},
		{"columns too short", columns, func(in *Input) { in.Columns[2] = nil }, "head 2: 0 column sums"},
		{"no spread", expect, func(in *Input) { in.Spread = nil }, "no mean of queries"},
		{"no covariance", expect, func(in *Input) { in.Spread.Cov = nil }, "no covariance"},
		{"no values", expect, func(in *Input) { in.Candidates[0].V = nil }, "KV head 0: values of 0"},
		{"no norms", critical, func(in *Input) { in.Candidates[1].OutL1 = nil }, "KV head 1: 0 norms of outputs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := randomInput(rand.New(rand.NewPCG(1, 1)), c.p, s, 3, 5, false)
			c.spoil(in)
			_, err := scoreLayer(c.p, s, 1, in, nil, GoLoops)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), "policy: layer 1: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	p := &Plan{Score: Score{Kind: ScoreWindow, Window: 1, Heads: 1}}
	if _, err := scoreLayer(p, s, 1, randomInput(rand.New(rand.NewPCG(1, 1)), p, s, 0, 5, false), nil, GoLoops); err == nil {
		t.Error("retrieval heads without a table are no error")
	}
}

// The mean rotation of the next positions is made once a prompt, and anew for the next one.
func TestOneRotationAPrompt(t *testing.T) {
	s := Shape{3, 2, 1, 2}
	p := mustPlan(t, Recipe{Method: "expected", Knobs: map[string]float64{"future": 8}})
	r, err := NewRun(p, s, Budget{Tokens: 6, Reserve: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var asked []int
	for _, tokens := range []int{7, 7, 9} {
		r.Prompt(tokens)
		for l := range s.Layers {
			in := randomInput(rand.New(rand.NewPCG(1, 1)), p, s, 0, tokens, false)
			rope := in.Spread.Rope
			in.Spread.Rope = func(pos int) []float32 {
				asked = append(asked, pos)
				return rope(pos)
			}
			if _, err := r.Layer(l, in, GoLoops); err != nil {
				t.Fatal(err)
			}
			alone, err := scoreLayer(p, s, l, in, nil, GoLoops)
			if err != nil {
				t.Fatal(err)
			}
			asked = asked[:len(asked)-8]
			if got := r.Scores(l); !slices.Equal(got[0], alone.Heads[0]) {
				t.Errorf("layer %d: %v, by itself %v", l, got, alone.Heads)
			}
		}
	}
	want := slices.Concat(all(8), all(8), all(8))
	for i := range want {
		want[i] += []int32{7, 7, 9}[i/8]
	}
	if len(asked) != len(want) {
		t.Fatalf("positions %v were asked for", asked)
	}
	for i, pos := range asked {
		if pos != int(want[i]) {
			t.Fatalf("positions %v were asked for, want %v", asked, want)
		}
	}
}

// What a token of an earlier prompt has is the attention of the new queries and a moving average that counts as one.
func TestStoredTokensPerQuery(t *testing.T) {
	p := mustPlan(t, Recipe{Method: "observed"})
	r := newRun(t, p, 1, Budget{Tokens: 9, Reserve: 1})
	r.Prompt(2)
	in := &Input{Candidates: []Candidates{{Pos: []int32{0, 40, 100, 101}}}, Columns: [][]float32{{.6, .3, .8, .3}, {.6, .3, .8, .3}}}
	if _, err := r.Layer(0, in, GoLoops); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{.2, .1, .4, .3} { // by 3, 3, 2 and 1
		if got := r.Scores(0)[0][i]; math.Abs(float64(got)-want) > 1e-6 {
			t.Errorf("token %d: %v, want %v", i, got, want)
		}
	}
}

package policy

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// newRun is a run of a plan on one layer with a KV head for every two query heads.
func newRun(t *testing.T, p *Plan, heads int, b Budget) *Run {
	t.Helper()
	r, err := NewRun(p, Shape{1, 2 * heads, heads, 2}, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestStep compares what leaves with sets by hand. No prompt came before: lists may hold B tokens.
func TestStep(t *testing.T) {
	pos := func(n int) [][]int32 { return [][]int32{all(n)} }
	for _, c := range []struct {
		name string
		plan Plan
		b    Budget
		in   StepInput
		want []int32
	}{
		{"nothing leaves before the list is full", Plan{Decode: capRule}, Budget{Tokens: 3, Reserve: 2}, StepInput{Pos: pos(4), Sums: [][]float32{{4, 3, 2, 1}}}, nil},
		{"cap", Plan{Decode: capRule}, Budget{Tokens: 3, Reserve: 2}, StepInput{Pos: pos(5), Sums: [][]float32{{4, 1, 2, 3, 0}}}, []int32{1, 4}},
		{"cap, of equals the lower stays", Plan{Decode: capRule}, Budget{Tokens: 3, Reserve: 2}, StepInput{Pos: pos(5), Sums: [][]float32{{1, 1, 1, 1, 1}}}, []int32{3, 4}},
		{
			"cap with sinks and a window",
			Plan{Protect: Protect{Sinks: 1, Recent: 1}, Decode: capRule},
			Budget{Tokens: 3, Reserve: 2},
			StepInput{Pos: pos(5), Sums: [][]float32{{0, 1, 3, 2, 0}}},
			[]int32{1, 3},
		},
		{"a cap without sums lets the oldest go", Plan{Decode: capRule}, Budget{Tokens: 3, Reserve: 1}, StepInput{Pos: pos(6)}, []int32{0, 1, 2}},
		{"no cap in parity", Plan{Decode: capRule}, Budget{Tokens: 3, Reserve: 1, Parity: true}, StepInput{Pos: pos(9), Sums: [][]float32{make([]float32, 9)}}, nil},
		{"nothing ever leaves", Plan{}, Budget{Tokens: 3, Reserve: 1}, StepInput{Pos: pos(9)}, nil},
		{"oldest", Plan{Decode: Decode{Kind: DecodeOldest}}, Budget{Tokens: 3}, StepInput{Pos: pos(4)}, []int32{0}},
		{"oldest but for sinks", Plan{Protect: Protect{Sinks: 2}, Decode: Decode{Kind: DecodeOldest}}, Budget{Tokens: 3}, StepInput{Pos: pos(5)}, []int32{2, 3}},
		{"more sinks than room", Plan{Protect: Protect{Sinks: 9, Recent: 1}, Decode: Decode{Kind: DecodeOldest}}, Budget{Tokens: 3}, StepInput{Pos: pos(5)}, []int32{2, 3}},
		{
			"sums outside the recent",
			Plan{Protect: Protect{Recent: 2}, Decode: Decode{Kind: DecodeSums, Decay: 1}},
			Budget{Tokens: 3},
			StepInput{Pos: pos(4), Sums: [][]float32{{2, 1, 0, 0}}},
			[]int32{1},
		},
		{
			"half the budget is recent",
			Plan{Protect: Protect{Part: 0.5}, Decode: Decode{Kind: DecodeSums, Decay: 1}},
			Budget{Tokens: 4},
			StepInput{Pos: pos(5), Sums: [][]float32{{2, 1, 3, 0, 0}}},
			[]int32{1},
		},
		{
			"the newest token's attention, mean of two heads",
			Plan{Decode: Decode{Kind: DecodeRow}},
			Budget{Tokens: 3},
			StepInput{Pos: pos(4), Rows: [][]float32{{.1, .2, .3, .4}, {.5, .1, .2, .2}}},
			[]int32{1}, // .3, .15, .25, .3
		},
		{
			"the highest of two heads",
			Plan{Decode: Decode{Kind: DecodeRow, Reduce: Reduce{ReduceMax}}},
			Budget{Tokens: 3},
			StepInput{Pos: pos(4), Rows: [][]float32{{.1, .2, .3, .4}, {.5, .1, .2, .2}}},
			[]int32{1}, // .5, .2, .3, .4
		},
		{
			// Pooled over the three before the window of two: .6/3, .6/3, .3/3. The window's .9 is no neighbour.
			"pooled before the window",
			Plan{Decode: Decode{Kind: DecodeRow, Recent: 2, Pool: Pool{Kind: PoolAvg, Size: 3}}},
			Budget{Tokens: 4},
			StepInput{Pos: pos(5), Rows: [][]float32{{.3, .3, .0, .9, .0}, {.3, .3, .0, .9, .0}}},
			[]int32{2},
		},
		{
			"the maximum of neighbours, after the mean",
			Plan{Decode: Decode{Kind: DecodeRow, Recent: 1, Pool: Pool{Kind: PoolMax, Size: 3, After: true}}},
			Budget{Tokens: 4},
			StepInput{Pos: pos(5), Rows: [][]float32{{.8, 0, .2, .1, 0}, {0, 0, .2, .1, 0}}},
			[]int32{3}, // means .4, 0, .2, .1: .4, .4, .2, .2
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRun(t, &c.plan, 1, c.b)
			got := r.Step(0, &c.in)
			if !slices.Equal(got[0], c.want) {
				t.Errorf("%v leave, want %v", got[0], c.want)
			}
		})
	}
}

// TestStepMasked: in one layer, a retrieval head goes by what tokens are worth and the others by age, whichever comes first.
func TestStepMasked(t *testing.T) {
	p := &Plan{Heads: Heads{Kind: HeadsMask, Duo: true, Retrieval: 0.5, Local: 2}, Decode: capRule}
	sums := []float32{3, 0, 1, 2}
	for retrieval, want := range [][][]int32{{{1}, {0}}, {{0}, {1}}} {
		scores := make([]float32, 4)
		scores[2*retrieval], scores[2*retrieval+1] = 1, 1
		r, err := NewRun(p, Shape{1, 4, 2, 2}, Budget{Tokens: 3, Reserve: 1}, &Tables{Retrieval: [][]float32{scores}})
		if err != nil {
			t.Fatal(err)
		}
		got := r.Step(0, &StepInput{Pos: [][]int32{all(4), all(4)}, Sums: [][]float32{sums, sums}})
		for h, leave := range got {
			if !slices.Equal(leave, want[h]) {
				t.Errorf("KV head %d retrieves: %v leave head %d, want %v", retrieval, leave, h, want[h])
			}
		}
	}
}

// TestStepOneSet: where a layer's lists are alike, its KV heads agree on what leaves.
func TestStepOneSet(t *testing.T) {
	rows := [][]float32{{.9, 0, .1}, {.9, 0, .1}, {0, .5, .5}, {0, .3, .7}} // mean .45, .2, .35
	sums := [][]float32{{3, 0, 1}, {0, 2, 2}}                               // mean 1.5, 1, 1.5
	for _, kind := range []DecodeKind{DecodeRow, DecodeCap} {
		p := &Plan{Reduce: Reduce{ReduceLayer}, Decode: Decode{Kind: kind, Reduce: Reduce{ReduceLayer}}}
		got := newRun(t, p, 2, Budget{Tokens: 2, Reserve: 1}).Step(0, &StepInput{Pos: [][]int32{all(3), all(3)}, Rows: rows, Sums: sums})
		for h, leave := range got {
			if !slices.Equal(leave, []int32{1}) {
				t.Errorf("rule %d, KV head %d: %v leave, want 1", kind, h, leave)
			}
		}
	}
}

// TestStepDifferentSets: lists of the same length that hold other tokens have no common rows: each KV head goes by its own.
func TestStepDifferentSets(t *testing.T) {
	rows := [][]float32{{.9, 0, .1}, {.9, 0, .1}, {0, .5, .5}, {0, .3, .7}}
	sums := [][]float32{{3, 0, 1}, {0, 2, 2}}
	for _, kind := range []DecodeKind{DecodeRow, DecodeCap} {
		p := &Plan{Reduce: Reduce{ReduceLayer}, Decode: Decode{Kind: kind, Reduce: Reduce{ReduceLayer}}}
		got := newRun(t, p, 2, Budget{Tokens: 2, Reserve: 1}).Step(0, &StepInput{Pos: [][]int32{{0, 1, 3}, {0, 2, 3}}, Rows: rows, Sums: sums})
		if !slices.Equal(got[0], []int32{1}) || !slices.Equal(got[1], []int32{0}) {
			t.Errorf("rule %d: %v leave, want 1 of the first and 0 of the second", kind, got)
		}
	}
}

// TestOneSetThroughPrompts: a layer's lists stay alike through answers and later prompts, also where the arena lacks room
// for what a layer may hold: after a prompt that fitted, all lists are as long.
func TestOneSetThroughPrompts(t *testing.T) {
	s := Shape{3, 6, 2, 4}
	tables := tablesOf(s, rand.New(rand.NewPCG(2, 2)))
	tables.Errors = []float32{.8, .1, .1}
	for _, method := range []string{"compresskv", "tova", "streamingllm", "window"} {
		t.Run(method, func(t *testing.T) {
			p := mustPlan(t, Recipe{Method: method})
			y := newToy(t, p, s, Budget{Tokens: 40, Reserve: reserveOf(p, 40), Slots: 6*(40+reserveOf(p, 40)) + 5}, tables, 3)
			for _, tokens := range []int{30, 50, 25, 80} {
				y.prompt(tokens)
				for range 13 {
					for l, heads := range y.pos {
						if !slices.Equal(heads[0], heads[1]) {
							t.Fatalf("%d new tokens, layer %d: %v and %v", tokens, l, heads[0], heads[1])
						}
					}
					y.step()
				}
			}
		})
	}
}

// TestSumsAreMeans: accumulated attention begins with what decoded tokens add to it, the mean of a KV head's query heads,
// whatever reduction chooses tokens.
func TestSumsAreMeans(t *testing.T) {
	for group := range 3 {
		p := mustPlan(t, Recipe{Method: "h2o", Knobs: map[string]float64{"group": float64(group)}})
		r := newRun(t, p, 1, Budget{Tokens: 9, Reserve: 1})
		r.Prompt(2)
		keeps, err := r.Layer(0, &Input{Candidates: []Candidates{{Pos: all(2)}}, Columns: [][]float32{{1.5, .5}, {1, 1}}}, GoLoops)
		if err != nil {
			t.Fatal(err)
		}
		if got := keeps[0].Sums[0]; !slices.Equal(got, []float32{1.25, .75}) {
			t.Errorf("reduction %d: sums begin with %v, want 1.25 and 0.75", group, got)
		}
	}
}

// TestPitfall28HeavyHittersFreeze: a token that every later one looks at displaces an old heavy hitter that none looks at
// any more, if sums decay; without decay the old one stays for as long as its sum is higher.
func TestPitfall28HeavyHittersFreeze(t *testing.T) {
	const star, steps = 5, 24
	for _, c := range []struct {
		decay float64
		stays int32
	}{{1, 0}, {0.8, star}} {
		p := &Plan{Protect: Protect{Recent: 6}, Decode: Decode{Kind: DecodeSums, Decay: c.decay}}
		r := newRun(t, p, 1, Budget{Tokens: 7, Reserve: 1})
		pos, sums := []int32{0}, []float32{6}
		for at := int32(1); at < steps; at++ {
			pos, sums = append(pos, at), append(sums, 0)
			for i := range sums {
				sums[i] *= float32(c.decay)
				if at < star && i == 0 || pos[i] == star {
					sums[i]++
				}
			}
			leave := r.Step(0, &StepInput{Pos: [][]int32{pos}, Sums: [][]float32{sums}})[0]
			for i := len(leave) - 1; i >= 0; i-- {
				pos, sums = slices.Delete(pos, int(leave[i]), int(leave[i])+1), slices.Delete(sums, int(leave[i]), int(leave[i])+1)
			}
		}
		if pos[0] != c.stays {
			t.Errorf("decay %v: %v stay, want %d before the recent ones", c.decay, pos, c.stays)
		}
	}
}

// TestResize: with less room lists come down to their share of it with the next step and keep what is protected; with more
// they grow again.
func TestResize(t *testing.T) {
	s := Shape{3, 6, 2, 4}
	plansFor(t, 10, func(t *testing.T, _ string, p *Plan) {
		if p.Decode.Kind == DecodeStop {
			return
		}
		y := newToy(t, p, s, Budget{Tokens: 20, Reserve: 2, Prompt: 50}, tablesOf(s, rand.New(rand.NewPCG(6, 6))), 5)
		y.prompt(50)
		y.step()
		old := slices.Concat(y.run.Caps()...)
		if err := y.run.Resize(p, Budget{Tokens: 10, Reserve: 1, Prompt: 50}); err != nil {
			t.Fatal(err)
		}
		halves := slices.Concat(y.run.Caps()...)
		if sum(halves) != 60 {
			t.Errorf("budgets %v sum to %d, want 60", halves, sum(halves))
		}
		for i, n := range halves {
			if n > 1 && (2*n < old[i]-2 || 2*n > old[i]+2) {
				t.Errorf("list %d may hold %d of 10 where it held %d of 20", i, n, old[i])
			}
		}
		y.step()
		y.held("after less", 1)
		y.protected()
		before := count(y.pos)
		if err := y.run.Resize(p, Budget{Tokens: 20, Reserve: 2, Prompt: 50}); err != nil {
			t.Fatal(err)
		}
		for range 40 {
			y.step()
			y.held("after more", 2)
		}
		if after := count(y.pos); after <= before {
			t.Errorf("%d tokens were held, with more room %d", before, after)
		}
	})
	if err := newRun(t, &Plan{}, 1, Budget{Tokens: 1}).Resize(&Plan{}, Budget{}); err == nil {
		t.Error("a budget of nothing passes")
	}
}

// TestResizeFollowsThePlan: the next prompt is scored by the window that suits the new budget.
func TestResizeFollowsThePlan(t *testing.T) {
	window := func(w float64) *Plan {
		return mustPlan(t, Recipe{Method: "snapkv", Knobs: map[string]float64{"window": w, "kernel": 1}})
	}
	y := newToy(t, window(8), Shape{1, 2, 1, 2}, Budget{Tokens: 20, Reserve: 1}, nil, 1)
	y.prompt(30)
	if y.p = window(2); y.run.Resize(y.p, Budget{Tokens: 8, Reserve: 1}) != nil {
		t.Fatal("a smaller window is refused")
	}
	y.step()
	y.prompt(10)
	scores := y.run.Scores(0)[0] // those of the window are 0
	if n := len(scores); scores[n-3] == 0 || scores[n-2] != 0 || len(y.pos[0][0]) != 8 {
		t.Errorf("scores %v, %d tokens stay", scores, len(y.pos[0][0]))
	}
	y.protected()
}

// TestRunRefuses: what does not fit together is an error, not a panic.
func TestRunRefuses(t *testing.T) {
	good, b := Shape{2, 4, 2, 2}, Budget{Tokens: 3, Reserve: 1}
	for _, s := range []Shape{{}, {2, 4, 3, 2}, {0, 4, 2, 2}, {2, 4, 2, 0}, {2, 4, 0, 2}, {2, -4, -2, 2}} {
		if _, err := NewRun(&Plan{}, s, b, nil); err == nil {
			t.Errorf("a model of %+v passes", s)
		}
	}
	for _, b := range []Budget{{}, {Tokens: -1}, {Tokens: 1, Reserve: -1}, {Tokens: 1, Slots: -1}} {
		if _, err := NewRun(&Plan{}, good, b, nil); err == nil {
			t.Errorf("a budget of %+v passes", b)
		}
	}
	r, err := NewRun(mustPlan(t, Recipe{Method: "snapkv"}), good, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	two := &Input{Candidates: make([]Candidates, 2)}
	if _, err := r.Layer(0, two, GoLoops); err == nil {
		t.Error("a layer without a prompt passes")
	}
	r.Prompt(4)
	for _, layer := range []int{-1, 2} {
		if _, err := r.Layer(layer, two, GoLoops); err == nil {
			t.Errorf("layer %d of 2 passes", layer)
		}
	}
	if _, err := r.Layer(0, &Input{Candidates: make([]Candidates, 3)}, GoLoops); err == nil {
		t.Error("three KV heads of two pass")
	}
	if _, err := r.Layer(0, two, GoLoops); err == nil {
		t.Error("no candidates pass")
	}
}

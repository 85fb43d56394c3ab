package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// capsOf are the budgets of all lists after a first prompt.
func capsOf(t *testing.T, p *Plan, s Shape, b Budget, first int, tables *Tables) (*toy, []int) {
	t.Helper()
	y := newToy(t, p, s, b, tables, uint64(first))
	y.prompt(first)
	return y, slices.Concat(y.run.Caps()...)
}

// TestEveryBudgetMeetsTheArena: once something has to leave, what lists may hold sums to what the arena has for them, each
// list has room for a token, and beside what is protected where the mean has.
func TestEveryBudgetMeetsTheArena(t *testing.T) {
	for _, tokens := range []int{1, 3, 9, 20} {
		plansFor(t, tokens, func(t *testing.T, _ string, p *Plan) {
			if p.Decode.Kind == DecodeStop {
				return
			}
			rng := rand.New(rand.NewPCG(8, 9))
			for _, s := range []Shape{{1, 2, 1, 2}, {3, 4, 2, 2}, {5, 6, 3, 2}} {
				for _, first := range []int{tokens + 1, 2 * tokens, 3*tokens + 7} {
					if first <= tokens {
						continue
					}
					lists := s.Layers * s.KVHeads
					for _, spare := range []int{0, lists - 1} { // slots that no equal share uses
						b := Budget{Tokens: tokens, Reserve: reserveOf(p, tokens), Prompt: first}
						want := lists * tokens
						if p.Ragged() {
							b.Slots = lists*(tokens+b.Reserve) + spare
							want += spare
						}
						y, caps := capsOf(t, p, s, b, first, tablesOf(s, rng))
						if y.run.oneSet() {
							want -= want % s.KVHeads // lists of a layer are equal
						}
						what := fmt.Sprintf("%v, %d of %d tokens, %d spare: %v", s, tokens, first, spare, caps)
						if sum(caps) != want {
							t.Fatalf("%s sum to %d, want %d", what, sum(caps), want)
						}
						least := 1
						if guard := y.run.protects(tokens); guard < tokens && p.Heads.Kind != HeadsMask {
							least = guard
						}
						if slices.Min(caps) < least {
							t.Fatalf("%s: less than %d", what, least)
						}
					}
				}
			}
		})
	}
}

// same fails unless two plans keep the same tokens of a prompt and of the answer after it.
func same(t *testing.T, a, b *Plan, s Shape, tables *Tables) {
	t.Helper()
	var ends [2]*toy
	for i, p := range []*Plan{a, b} {
		ends[i] = newToy(t, p, s, Budget{Tokens: 20, Reserve: 2, Prompt: 70}, tables, 12)
		ends[i].prompt(50)
		for range 9 {
			ends[i].step()
		}
	}
	for l := range ends[0].pos {
		for h := range ends[0].pos[l] {
			if !slices.Equal(ends[0].pos[l][h], ends[1].pos[l][h]) {
				t.Errorf("layer %d head %d: %v and %v", l, h, ends[0].pos[l][h], ends[1].pos[l][h])
			}
		}
	}
}

// TestSpecialCases: where what a method adds is neutral, it is the method that it adds to.
func TestSpecialCases(t *testing.T) {
	snap := map[string]float64{"window": 4, "kernel": 5, "pool": float64(PoolMax)}
	many, one := Shape{3, 6, 2, 4}, Shape{3, 2, 1, 4}
	even := tablesOf(many, rand.New(rand.NewPCG(1, 1)))
	for _, row := range even.Retrieval {
		for i := range row {
			row[i] = 0.25
		}
	}
	ada := func(alpha float64) []Wrap { return []Wrap{{"adakv", map[string]float64{"alpha": alpha}}} }
	knobs := func(more map[string]float64) map[string]float64 {
		all := map[string]float64{}
		for _, m := range []map[string]float64{snap, more} {
			for k, v := range m {
				all[k] = v
			}
		}
		return all
	}
	for _, c := range []struct {
		name  string
		a, b  Recipe
		shape Shape
	}{
		{"AdaKV where all is sure", Recipe{"snapkv", snap, ada(1)}, Recipe{"snapkv", snap, nil}, many},
		{"AdaKV of one KV head", Recipe{"snapkv", snap, ada(0.2)}, Recipe{"snapkv", snap, nil}, one},
		{"HeadKV where all are as important", Recipe{"headkv", snap, nil}, Recipe{"snapkv", snap, nil}, many},
		{"a flat pyramid", Recipe{"pyramidkv", knobs(map[string]float64{"beta": 1}), nil}, Recipe{"snapkv", snap, nil}, many},
		{"Ada-Pyramid where all is sure", Recipe{"adapyramid", knobs(map[string]float64{"alpha": 1}), nil}, Recipe{"pyramidkv", snap, nil}, many},
	} {
		t.Run(c.name, func(t *testing.T) { same(t, mustPlan(t, c.a), mustPlan(t, c.b), c.shape, even) })
	}
	t.Run("CompressKV of all heads", func(t *testing.T) {
		p := mustPlan(t, Recipe{Method: "compresskv", Knobs: map[string]float64{"window": 4, "heads": 6}})
		p.Layers = Layers{}
		q := mustPlan(t, Recipe{Method: "snapkv", Knobs: map[string]float64{"window": 4, "after": 0}})
		q.Reduce = Reduce{ReduceLayer} // all heads averaged, a layer's lists alike
		same(t, p, q, many, even)
	})
}

// TestCompressKVSets: all KV heads of a layer hold the same tokens, through the answer too; other retrieval heads mean
// other tokens.
func TestCompressKVSets(t *testing.T) {
	s := Shape{3, 6, 2, 4}
	p := mustPlan(t, Recipe{Method: "compresskv", Knobs: map[string]float64{"window": 4, "heads": 2}})
	tables := tablesOf(s, rand.New(rand.NewPCG(2, 2)))
	run := func() *toy {
		y := newToy(t, p, s, Budget{Tokens: 20, Reserve: 2, Prompt: 70}, tables, 4)
		y.prompt(60)
		for range 12 {
			y.step()
			for l, heads := range y.pos {
				if !slices.Equal(heads[0], heads[1]) {
					t.Fatalf("layer %d: %v and %v", l, heads[0], heads[1])
				}
			}
		}
		return y
	}
	before := run()
	for _, row := range tables.Semantic {
		slices.Reverse(row)
	}
	if after := run(); slices.Equal(before.pos[0][0], after.pos[0][0]) {
		t.Errorf("other heads, but the same tokens: %v", after.pos[0][0])
	}
}

// TestMaskedBudgets: retrieval heads hold the whole text where there is room, the others share the rest.
func TestMaskedBudgets(t *testing.T) {
	s := Shape{2, 4, 2, 2}
	tables := tablesOf(s, rand.New(rand.NewPCG(5, 5)))
	tables.Retrieval = [][]float32{{.1, .9, .2, .3}, {.1, .1, .8, .1}} // by KV head .9, .3, .1, .8
	tables.Induction = tables.Retrieval
	tables.Echo = [][]float32{{0, 0, .5, 0}, {0, 0, 0, 0}}
	for _, c := range []struct {
		name   string
		r      Recipe
		tokens int
		want   []int
	}{
		{"the answer too", Recipe{"duo", map[string]float64{"retrieval": .25, "sinks": 4}, nil}, 27, []int{30, 26, 26, 26}},
		// 80 slots, 30 of them for the retrieval head: 50 for three.
		{"one by duo", Recipe{"duo", map[string]float64{"retrieval": .25, "sinks": 4}, nil}, 20, []int{30, 17, 17, 16}},
		// The window of the others is 4 + 6, or a fifth of the text; what is left goes to the retrieval head.
		{"narrow window", Recipe{"duo", map[string]float64{"retrieval": .25, "sinks": 4, "local": 6}, nil}, 20, []int{50, 10, 10, 10}},
		{"a fifth of the text", Recipe{"razor", map[string]float64{"retrieval": .25, "echo": 0, "sinks": 4, "local": 1}, nil}, 20, []int{50, 10, 10, 10}},
		// Two retrieval heads would take 60 of 40: the others have four sinks and a token, or a quarter of their share.
		{"echo too", Recipe{"razor", map[string]float64{"retrieval": .25, "echo": .25, "sinks": 4}, nil}, 10, []int{17, 17, 3, 3}},
		{"none", Recipe{"duo", map[string]float64{"retrieval": 0, "sinks": 4}, nil}, 10, []int{10, 10, 10, 10}},
		{"all", Recipe{"duo", map[string]float64{"retrieval": 1, "sinks": 4}, nil}, 10, []int{10, 10, 10, 10}},
		{"all fits", Recipe{"duo", map[string]float64{"retrieval": .25, "sinks": 4, "local": 6}, nil}, 30, []int{30, 30, 30, 30}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, caps := capsOf(t, mustPlan(t, c.r), s, Budget{Tokens: c.tokens, Reserve: 1, Prompt: 30}, 25, tables)
			if !slices.Equal(caps, c.want) {
				t.Errorf("%v, want %v", caps, c.want)
			}
		})
	}
}

// TestMaskedDecode: a head that is no retrieval head holds its sinks and the newest tokens at every step.
func TestMaskedDecode(t *testing.T) {
	s := Shape{1, 2, 2, 2}
	tables := tablesOf(s, rand.New(rand.NewPCG(5, 5)))
	tables.Retrieval = [][]float32{{0, 1}}
	p := mustPlan(t, Recipe{Method: "duo", Knobs: map[string]float64{"retrieval": .5, "sinks": 2}})
	y := newToy(t, p, s, Budget{Tokens: 20, Reserve: 2, Prompt: 32}, tables, 1)
	y.prompt(30)
	for range 9 {
		y.step()
		pos := y.pos[0][0] // 8 of 40 slots; the other head has 32
		want := []int32{0, 1, y.next - 6, y.next - 5, y.next - 4, y.next - 3, y.next - 2, y.next - 1}
		if !slices.Equal(pos, want) {
			t.Fatalf("after %d tokens: %v, want %v", y.next, pos, want)
		}
	}
	if n := len(y.pos[0][1]); n < 32 || n > 34 {
		t.Errorf("the retrieval head holds %d tokens of 39, want 32 to 34", n)
	}
}

// TestPitfall29ListsAreAsLongAsTheirBudgets: what AdaKV takes from a head is not stored.
func TestPitfall29ListsAreAsLongAsTheirBudgets(t *testing.T) {
	s := Shape{3, 6, 3, 4}
	p := mustPlan(t, Recipe{Method: "snapkv", Knobs: map[string]float64{"window": 4}, Wraps: []Wrap{{Name: "adakv"}}})
	y, caps := capsOf(t, p, s, Budget{Tokens: 20, Reserve: 2}, 90, nil)
	if held := count(y.pos); held != sum(caps) || held != 9*20 {
		t.Errorf("%d tokens are held, budgets sum to %d, want 180", held, sum(caps))
	}
	if slices.Min(caps) == slices.Max(caps) {
		t.Errorf("budgets of heads do not differ: %v", caps)
	}
}

// TestBudgetsByHand: below the published floor of 32 tokens layers still differ, and are sure of the window and a token; a
// ceiling is a multiple of the mean; what HeadKV shares out is what is beside the window.
func TestBudgetsByHand(t *testing.T) {
	window := func(more map[string]float64) map[string]float64 {
		more["window"] = 4
		return more
	}
	for _, c := range []struct {
		name   string
		r      Recipe
		s      Shape
		tokens int
		tables Tables
		want   []int
	}{
		// 5 each and 33 to share: 16.5, to even, 9.9 and 6.6.
		{"few tokens", Recipe{"compresskv", window(map[string]float64{}), nil}, Shape{3, 4, 2, 2}, 16, Tables{Errors: []float32{.5, .3, .2}}, []int{21, 21, 15, 15, 12, 12}},
		// 5 each and 105 to share: 94.5, of which 75 fit below the ceiling of 80, 5.25 twice, and the rest in turn.
		{"ceiling", Recipe{"compresskv", window(map[string]float64{"floor": 5, "ceiling": 2}), nil}, Shape{3, 4, 2, 2}, 40, Tables{Errors: []float32{.9, .05, .05}}, []int{80, 80, 20, 20, 20, 20}},
		// The same, but what is left goes to the first of the highest errors that can have more.
		{"the paper's ties", Recipe{"compresskv", window(map[string]float64{"floor": 5, "ceiling": 2, "ties": 1}), nil}, Shape{3, 4, 2, 2}, 40, Tables{Errors: []float32{.9, .05, .05}}, []int{80, 80, 30, 30, 10, 10}},
		// Beside the window 96, of which 8 each, and 64 by importance: a half, a quarter and two eighths.
		{"importance", Recipe{"headkv", window(map[string]float64{}), nil}, Shape{2, 2, 2, 2}, 28, Tables{Retrieval: [][]float32{{.8, .4}, {.2, .2}}}, []int{44, 28, 20, 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.tables.Semantic = tablesOf(c.s, rand.New(rand.NewPCG(7, 7))).Semantic
			_, caps := capsOf(t, mustPlan(t, c.r), c.s, Budget{Tokens: c.tokens, Reserve: 2}, 90, &c.tables)
			if !slices.Equal(caps, c.want) {
				t.Errorf("%v, want %v", caps, c.want)
			}
		})
	}
}

// TestPublishedRoundingsUnderACap: where published integers exceed the sum, a cap still holds; in parity they stand.
func TestPublishedRoundingsUnderACap(t *testing.T) {
	pyramid := mustPlan(t, Recipe{Method: "pyramidkv", Knobs: map[string]float64{"rounding": 1}})
	ada := mustPlan(t, Recipe{"snapkv", map[string]float64{"window": 1}, []Wrap{{"adakv", map[string]float64{"rounding": 1, "alpha": 0.5}}}})
	for _, c := range []struct {
		name   string
		p      *Plan
		s      Shape
		tokens int
	}{{"pyramid", pyramid, Shape{6, 2, 1, 2}, 32}, {"AdaKV", ada, Shape{1, 8, 8, 2}, 5}} {
		exceeded := 0
		for first := 100; first < 110; first++ {
			for _, parity := range []bool{false, true} {
				_, caps := capsOf(t, c.p, c.s, Budget{Tokens: c.tokens, Reserve: 1, Parity: parity}, first, nil)
				switch most := c.s.Layers * c.s.KVHeads * c.tokens; {
				case sum(caps) > most && parity:
					exceeded++
				case sum(caps) > most:
					t.Fatalf("%s: %v sum to %d, the arena has %d", c.name, caps, sum(caps), most)
				}
			}
		}
		if exceeded == 0 {
			t.Errorf("%s: the published integers exceed no sum here: the grid shows nothing", c.name)
		}
	}
}

// TestFirstAverages: the moving average of our rule begins with a prompt's scores as one token's attention, whatever they
// sum to, and with nothing where they are no attention.
func TestFirstAverages(t *testing.T) {
	for method, want := range map[string]float64{"snapkv": 1, "knorm": 0} {
		p := mustPlan(t, Recipe{Method: method})
		y := newToy(t, p, Shape{2, 4, 2, 2}, Budget{Tokens: 60, Reserve: 2}, nil, 3)
		y.prompt(50)
		for h, scores := range y.run.Scores(1) {
			all, got := 0.0, 0.0
			for _, x := range scores {
				all += float64(x)
			}
			for i, x := range scores {
				a := float64(y.sums[1][h][int32(i)])
				got += a
				if math.Abs(a-want*float64(x)/all) > 1e-6 {
					t.Fatalf("%s: token %d begins with %v, its score is %v of %v", method, i, a, x, all)
				}
			}
			if math.Abs(got-want) > 1e-5 {
				t.Errorf("%s: averages begin with a sum of %v, want %v", method, got, want)
			}
		}
	}
}

// TestParityKeepsWhatIsPublished: layers that a method leaves alone keep everything, masked heads exactly their sinks and
// window whatever the budget, and a prompt as long as the budget is shared out.
func TestParityKeepsWhatIsPublished(t *testing.T) {
	s := Shape{2, 4, 2, 2}
	tables := tablesOf(s, rand.New(rand.NewPCG(5, 5)))
	tables.Retrieval = [][]float32{{.1, .9, .2, .3}, {.1, .1, .8, .1}} // by KV head .9, .3, .1, .8
	tables.Induction, tables.Echo = tables.Retrieval, tables.Retrieval
	none := tablesOf(s, rand.New(rand.NewPCG(5, 5)))
	for _, row := range none.Retrieval {
		clear(row)
	}
	duo := map[string]float64{"retrieval": .5, "sinks": 4, "local": 6}
	for _, c := range []struct {
		name   string
		r      Recipe
		tables *Tables
		tokens int
		want   []int // of 30
	}{
		{"skipped layers", Recipe{"knorm", map[string]float64{"skip": 1}, nil}, nil, 12, []int{30, 30, 12, 12}},
		{"duo", Recipe{"duo", duo, nil}, tables, 12, []int{30, 10, 10, 30}},
		{"duo with room for all", Recipe{"duo", duo, nil}, tables, 40, []int{30, 10, 10, 30}},
		{"sinks are many", Recipe{"duo", map[string]float64{"retrieval": .5, "sinks": 16, "local": 6}, nil}, tables, 12, []int{30, 22, 22, 30}},
		{"razor's fifth", Recipe{"razor", map[string]float64{"retrieval": .5, "sinks": 1, "local": 1}, nil}, tables, 12, []int{30, 7, 7, 30}},
		{"no head retrieves", Recipe{"headkv", map[string]float64{"window": 2}, nil}, none, 12, []int{12, 12, 12, 12}},
	} {
		t.Run(c.name, func(t *testing.T) {
			y, _ := capsOf(t, mustPlan(t, c.r), s, Budget{Tokens: c.tokens, Reserve: 1, Prompt: 30, Parity: true}, 30, c.tables)
			var got []int
			for _, pos := range slices.Concat(y.pos...) {
				got = append(got, len(pos))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("lists hold %v, want %v", got, c.want)
			}
		})
	}
	// AdaKV's published integers for 4 tokens of each of two heads, all of them the highest: 0.8 · 4 and no whole sure token.
	ada := mustPlan(t, Recipe{"snapkv", map[string]float64{"window": 1}, []Wrap{{"adakv", map[string]float64{"rounding": 1}}}})
	for first, want := range map[int]int{4: 4, 5: 4} { // fewer than the budget all stay
		y, _ := capsOf(t, ada, Shape{1, 2, 2, 2}, Budget{Tokens: 5, Reserve: 1, Parity: true}, first, nil)
		if got := len(y.pos[0][0]); got != want {
			t.Errorf("AdaKV: %d of %d tokens stay, want %d", got, first, want)
		}
	}
}

package policy

import (
	"fmt"
	"slices"
	"testing"

	"kvlens/cache/policy/stage"
	"kvlens/web/lab/golden"
)

// reader is one layer's attention over arrays, whose lists a Run shortens: token after token, as a backend would.
type reader struct {
	t    *testing.T
	s    Shape
	p    *Plan
	run  *Run
	q, k [][][]float32 // [n_heads][tokens][head_dim], [n_kv_heads][tokens][head_dim]
	pos  [][]int32     // [n_kv_heads]
	sums [][]float32   // [n_kv_heads]
}

func newReader(t *testing.T, p *Plan, q, k [][][]float32, b Budget) *reader {
	t.Helper()
	s := Shape{1, len(q), len(k), len(q[0][0])}
	run, err := NewRun(p, s, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &reader{t: t, s: s, p: p, run: run, q: q, k: k, pos: make([][]int32, len(k)), sums: make([][]float32, len(k))}
}

// prompt reads the first tokens.
func (r *reader) prompt(tokens int) {
	r.t.Helper()
	group := r.s.Heads / r.s.KVHeads
	in := &Input{Candidates: make([]Candidates, r.s.KVHeads), Columns: make([][]float32, r.s.Heads)}
	for h := range in.Candidates {
		in.Candidates[h] = Candidates{Pos: all(tokens), K: slices.Concat(r.k[h][:tokens]...)}
	}
	row := make([]float32, tokens)
	for h := range in.Columns {
		in.Columns[h] = make([]float32, tokens)
		stage.Attention(stage.Go{}, in.Columns[h], row, slices.Concat(r.q[h][:tokens]...), r.s.HeadDim, tokens, in.Candidates[h/group].K, r.s.HeadDim)
	}
	r.run.Prompt(tokens)
	keeps, err := r.run.Layer(0, in, stage.Go{})
	if err != nil {
		r.t.Fatal(err)
	}
	copy(r.pos, keeps[0].Heads)
	copy(r.sums, keeps[0].Sums)
}

// step reads token t.
func (r *reader) step(t int) {
	group := r.s.Heads / r.s.KVHeads
	in := &StepInput{Pos: r.pos, Sums: r.sums, Rows: make([][]float32, r.s.Heads)}
	for h := range r.pos {
		r.pos[h] = append(r.pos[h], int32(t))
		r.sums[h] = append(r.sums[h], 0)
		var keys []float32
		for _, p := range r.pos[h] {
			keys = append(keys, r.k[h][p]...)
		}
		for q := h * group; q < (h+1)*group; q++ {
			row := make([]float32, len(r.pos[h]))
			stage.Attention(stage.Go{}, row, make([]float32, len(row)), r.q[q][t], r.s.HeadDim, 1, keys, r.s.HeadDim)
			in.Rows[q] = row
			for i, a := range row {
				r.sums[h][i] += a / float32(group)
			}
		}
	}
	for h, leave := range r.run.Step(0, in) {
		for i := len(leave) - 1; i >= 0; i-- {
			at := int(leave[i])
			r.pos[h], r.sums[h] = slices.Delete(r.pos[h], at, at+1), slices.Delete(r.sums[h], at, at+1)
		}
	}
}

func heavyPlan(t *testing.T, recent int) *Plan {
	p := mustPlan(t, Recipe{Method: "h2o"})
	p.Protect = Protect{Recent: recent}
	return p
}

// TestGoldenH2O reads prompts and then token by token, K expanded to all query heads.
func TestGoldenH2O(t *testing.T) {
	n := golden.Count(t)
	layers := golden.PolicyInputs(t)
	runs, fixed := golden.H2O(t)
	for i, c := range runs {
		l := layers[c.Layer]
		var keys [][][]float32
		for h := range l.Q {
			keys = append(keys, l.K[h/(len(l.Q)/len(l.K))])
		}
		r := newReader(t, heavyPlan(t, c.Recent), l.Q, keys, Budget{Tokens: c.HH + c.Recent, Reserve: 1})
		r.prompt(c.P)
		at := c.P - 1
		for _, want := range c.Steps {
			for ; at < want.T; at++ {
				r.step(at + 1)
			}
			for h := range want.Kept {
				n.Case(1)
				what := fmt.Sprintf("run %d token %d head %d", i, want.T, h)
				if !slices.Equal(r.pos[h], want.Kept[h]) {
					t.Errorf("%s: kept %v, want %v", what, r.pos[h], want.Kept[h])
					continue
				}
				if want.Acc != nil {
					golden.Close(t, what, r.sums[h], want.Acc[h], 1e-4, 0)
				}
			}
		}
	}
	var ones, logits [][]float32
	for _, x := range fixed.Logits {
		ones, logits = append(ones, []float32{1}), append(logits, []float32{x})
	}
	r := newReader(t, heavyPlan(t, fixed.Recent), [][][]float32{ones}, [][][]float32{logits}, Budget{Tokens: fixed.HH + fixed.Recent, Reserve: 1})
	r.prompt(1)
	for _, want := range fixed.Steps {
		if want.T > 0 {
			r.step(want.T)
		}
		n.Case(1)
		if !slices.Equal(r.pos[0], want.Kept) {
			t.Errorf("fixed logits, token %d: kept %v, want %v", want.T, r.pos[0], want.Kept)
			continue
		}
		golden.Close(t, fmt.Sprintf("fixed logits, token %d", want.T), r.sums[0], want.Acc, 1e-4, 0)
	}
}

// TestGoldenStreamingLLM streams token by token, and makes room for several at once.
func TestGoldenStreamingLLM(t *testing.T) {
	n := golden.Count(t)
	g := golden.StreamingLLM(t)
	newRun := func(sinks, tokens int) *Run {
		p := mustPlan(t, Recipe{Method: "streamingllm", Knobs: map[string]float64{"sinks": float64(sinks)}})
		r, err := NewRun(p, Shape{1, 1, 1, 2}, Budget{Tokens: tokens, Reserve: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for i, c := range g.PerStep {
		r := newRun(c.S, c.S+c.R)
		var pos []int32
		for _, step := range c.Steps {
			pos = append(pos, int32(step.T))
			n.Case(2)
			if !slices.Equal(pos, step.Attends) {
				t.Errorf("run %d: token %d attends to %v, want %v", i, step.T, pos, step.Attends)
			}
			if pos = without(pos, r.Step(0, &StepInput{Pos: [][]int32{pos}})[0]); !slices.Equal(pos, step.Stored) {
				t.Errorf("run %d: after token %d %v, want %v", i, step.T, pos, step.Stored)
			}
		}
	}
	for _, c := range g.Space {
		n.Case(1)
		want := c.Stored
		if c.Coming >= c.R { // the original keeps no recent token at all; ours reads such a chunk in pieces
			n.Tie(1)
			want = append(all(c.S), int32(c.N-1))
		}
		room := max(c.S+c.R-c.Coming, c.S+1)
		pos := all(c.N)
		if len(pos) > room {
			pos = without(pos, newRun(c.S, room).leave(pos, nil, room))
		}
		if !slices.Equal(pos, want) {
			t.Errorf("%d + %d of %d, room for %d: %v, want %v", c.S, c.R, c.N, c.Coming, pos, want)
		}
	}
}

// without is pos without the indices in leave.
func without(pos, leave []int32) []int32 {
	pos = slices.Clone(pos)
	for i := len(leave) - 1; i >= 0; i-- {
		pos = slices.Delete(pos, int(leave[i]), int(leave[i])+1)
	}
	return pos
}

// TestGoldenCakePrefill runs CAKE's cascade over all layers: budgets and what stays after the prompt, which is the same
// whether the originals shared the budget layer after layer or at the end.
func TestGoldenCakePrefill(t *testing.T) {
	n := golden.Count(t)
	layers := golden.PolicyInputs(t)
	_, runs := golden.Cake(t)
	for i, c := range runs {
		if c.Prompt != 0 {
			continue // the inputs are of prompt 0
		}
		p := mustPlan(t, Recipe{Method: "cake", Knobs: map[string]float64{
			"window": float64(c.W), "gamma": c.Gamma, "tau1": c.Tau1, "tau2": c.Tau2,
		}})
		r, err := NewRun(p, tinyShape, Budget{Tokens: c.B, Reserve: 1, Parity: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Prompt(c.L)
		kept := make([][][]int32, len(layers))
		for l := range layers {
			keeps, err := r.Layer(l, tinyInput(&layers[l], tinyShape, p), stage.Go{})
			if err != nil {
				t.Fatal(err)
			}
			for _, keep := range keeps {
				if keep.Layer == l {
					kept[l] = keep.Heads
					continue
				}
				for h, at := range keep.Heads {
					kept[keep.Layer][h] = pickFrom(kept[keep.Layer][h], at)
				}
			}
		}
		for l, budget := range c.Budgets {
			n.Case(1)
			if r.Caps()[l][0] != budget+c.W {
				t.Errorf("run %d layer %d: budget %d, want %d", i, l, r.Caps()[l][0], budget+c.W)
			}
			for h, want := range c.Kept["prefill"][l] {
				gap := c.Gap[l*len(c.Kept["prefill"][l])+h]
				n.Case(1)
				if gap != nil && *gap < 1e-5 {
					n.Tie(1)
					continue
				}
				want = slices.Sorted(slices.Values(want))
				if !slices.Equal(kept[l][h], want) {
					t.Errorf("run %d layer %d head %d: kept %v, want %v", i, l, h, kept[l][h], want)
				}
			}
		}
	}
}

// pickFrom are the elements of pos at indices.
func pickFrom(pos, at []int32) []int32 {
	out := make([]int32, len(at))
	for i, j := range at {
		out[i] = pos[j]
	}
	return out
}

package policy

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"kvlens/cache/policy/stage"
)

// toy is a model's layer of random numbers, whose cache of tokens a Run works on.
type toy struct {
	t     *testing.T
	shape Shape
	rng   *rand.Rand
	p     *Plan
	run   *Run
	pos   [][][]int32   // [layers][n_kv_heads] stored positions
	k     [][][]float32 // [layers][n_kv_heads] of all tokens ever, [tokens][head_dim]
	sums  [][]map[int32]float32
	next  int32
	odd   bool                                            // some numbers are none, infinite, or hardly numbers
	from  [][][]int32                                     // [layers][n_kv_heads] candidates of the last prompt
	left  func(layer int, in *StepInput, leave [][]int32) // looks at what leaves; may be nil
}

// oddities are what a broken model could compute.
var oddities = []float32{
	float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.Copysign(0, -1)), 1e-45, -1e-45, math.MaxFloat32, -math.MaxFloat32,
}

func newToy(t *testing.T, p *Plan, s Shape, b Budget, tables *Tables, seed uint64) *toy {
	t.Helper()
	run, err := NewRun(p, s, b, tables)
	if err != nil {
		t.Fatal(err)
	}
	y := &toy{t: t, shape: s, rng: rand.New(rand.NewPCG(seed, 7)), p: p, run: run}
	for range s.Layers {
		y.pos = append(y.pos, make([][]int32, s.KVHeads))
		y.k = append(y.k, make([][]float32, s.KVHeads))
		sums := make([]map[int32]float32, s.KVHeads)
		for h := range sums {
			sums[h] = map[int32]float32{}
		}
		y.sums = append(y.sums, sums)
	}
	return y
}

func (y *toy) numbers(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(y.rng.NormFloat64())
		if y.odd && y.rng.IntN(20) == 0 {
			out[i] = oddities[y.rng.IntN(len(oddities))]
		}
	}
	return out
}

// gather are rows of x at positions.
func gather(x []float32, pos []int32, width int) []float32 {
	var out []float32
	for _, p := range pos {
		out = append(out, x[int(p)*width:][:width]...)
	}
	return out
}

// prompt runs a prompt through all layers and checks what must hold of every list.
func (y *toy) prompt(tokens int) {
	y.t.Helper()
	s, d := y.shape, y.shape.HeadDim
	y.run.Prompt(tokens)
	y.from = nil
	for l := range s.Layers {
		y.from = append(y.from, make([][]int32, s.KVHeads))
		in := &Input{Candidates: make([]Candidates, s.KVHeads), Columns: make([][]float32, s.Heads)}
		queries := min(max(y.p.Score.Window, 1), tokens)
		in.Queries = y.numbers(queries * s.Heads * d)
		for h := range s.KVHeads {
			y.k[l][h] = append(y.k[l][h], y.numbers(tokens*d)...)
			c := &in.Candidates[h]
			c.Pos = slices.Clone(y.pos[l][h])
			for i := range tokens {
				c.Pos = append(c.Pos, y.next+int32(i))
			}
			y.from[l][h] = c.Pos
			c.K = gather(y.k[l][h], c.Pos, d)
			c.V = c.K
			c.OutL1 = make([]float32, len(c.Pos))
			for i := range c.OutL1 {
				c.OutL1[i] = y.rng.Float32()
			}
		}
		for h := range in.Columns {
			in.Columns[h] = make([]float32, len(in.Candidates[h/(s.Heads/s.KVHeads)].Pos))
			for i := range in.Columns[h] {
				in.Columns[h][i] = y.rng.Float32()
			}
		}
		if y.p.Score.Kind == ScoreExpected {
			in.Spread = y.spread()
		}
		keeps, err := y.run.Layer(l, in, stage.Go{})
		if err != nil {
			y.t.Fatal(err)
		}
		for i, keep := range keeps {
			last := i == len(keeps)-1
			if last != (keep.Layer == l) {
				y.t.Fatalf("keep %d of %d is of layer %d in layer %d", i, len(keeps), keep.Layer, l)
			}
			for h, kept := range keep.Heads {
				from := y.pos[keep.Layer][h]
				if last {
					from = in.Candidates[h].Pos
				}
				var pos []int32
				for j, at := range kept {
					if j > 0 && at <= kept[j-1] {
						y.t.Fatalf("layer %d head %d: kept %v", keep.Layer, h, kept)
					}
					pos = append(pos, from[at])
					if last && keep.Sums != nil {
						y.sums[l][h][from[at]] = keep.Sums[h][j]
					}
				}
				y.pos[keep.Layer][h] = pos
			}
		}
		if n, most := count(y.pos), y.run.slots(); n > most && !y.run.budget.Parity && y.p.Decode.Kind != DecodeStop {
			y.t.Fatalf("after layer %d of a prompt all lists hold %d tokens, the arena has %d slots", l, n, most)
		}
	}
	y.next += int32(tokens)
}

func count(pos [][][]int32) (n int) {
	for _, heads := range pos {
		for _, p := range heads {
			n += len(p)
		}
	}
	return n
}

func (y *toy) spread() *Spread {
	s := y.shape
	sp := &Spread{N: 9, Mean: y.numbers(s.Heads * s.HeadDim), Cov: make([]float32, s.Heads*s.HeadDim*s.HeadDim)}
	sp.Rope = func(int) []float32 { return slices.Repeat([]float32{1, 0}, s.HeadDim/2) }
	return sp
}

// step decodes one token.
func (y *toy) step() {
	y.t.Helper()
	s := y.shape
	group := s.Heads / s.KVHeads
	for l := range s.Layers {
		in := &StepInput{Pos: make([][]int32, s.KVHeads), Rows: make([][]float32, s.Heads), Sums: make([][]float32, s.KVHeads)}
		for h := range s.KVHeads {
			y.k[l][h] = append(y.k[l][h], y.numbers(s.HeadDim)...)
			y.pos[l][h] = append(y.pos[l][h], y.next)
			in.Pos[h] = y.pos[l][h]
			mean := make([]float32, len(in.Pos[h]))
			for q := range group {
				row := y.numbers(len(in.Pos[h]))
				stage.Go{}.Softmax(row)
				in.Rows[h*group+q] = row
				for i := range row {
					mean[i] += row[i] / float32(group)
				}
			}
			for i, p := range in.Pos[h] {
				a := y.sums[l][h][p]
				if y.p.Decode.Kind == DecodeCap {
					a = float32(y.p.Decode.Decay)*a + float32(1-y.p.Decode.Decay)*mean[i]
				} else {
					a = float32(y.p.Decode.Decay)*a + mean[i]
				}
				y.sums[l][h][p] = a
				in.Sums[h] = append(in.Sums[h], a)
			}
		}
		left := y.run.Step(l, in)
		if y.left != nil {
			y.left(l, in, left)
		}
		for h, leave := range left {
			for i := len(leave) - 1; i >= 0; i-- {
				y.pos[l][h] = slices.Delete(y.pos[l][h], int(leave[i]), int(leave[i])+1)
			}
		}
	}
	y.next++
}

// held fails if a list holds more than it may.
func (y *toy) held(what string, reserve int) {
	y.t.Helper()
	for l, caps := range y.run.Caps() {
		for h, n := range caps {
			if got := len(y.pos[l][h]); got > n+reserve {
				y.t.Fatalf("%s: layer %d head %d holds %d tokens, may hold %d + %d", what, l, h, got, n, reserve)
			}
		}
	}
}

// tablesOf are made-up head tables.
func tablesOf(s Shape, rng *rand.Rand) *Tables {
	table := func() [][]float32 {
		var rows [][]float32
		for range s.Layers {
			row := make([]float32, s.Heads)
			for i := range row {
				row[i] = rng.Float32()
			}
			rows = append(rows, row)
		}
		return rows
	}
	t := &Tables{Model: "weights", Retrieval: table(), Semantic: table(), Induction: table(), Echo: table(), Sink: table(), Local: table()}
	sum := float32(0)
	for range s.Layers {
		e := rng.Float32() + 0.01
		t.Errors = append(t.Errors, e)
		sum += e
	}
	for i := range t.Errors {
		t.Errors[i] /= sum
	}
	return t
}

// reserveOf is what the arena keeps beyond a budget.
func reserveOf(p *Plan, tokens int) int {
	if p.PerStep() {
		return 1
	}
	return max(1, min(tokens/8, 16))
}

// plans are those of all recipes.
func plans(t *testing.T, do func(t *testing.T, name string, p *Plan)) {
	t.Helper()
	plansFor(t, 1<<20, do)
}

// plansFor are those of all recipes, with the observation windows that a budget begins with.
func plansFor(t *testing.T, tokens int, do func(t *testing.T, name string, p *Plan)) {
	t.Helper()
	all := recipes(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r := all[name]
		for _, k := range Find(r.Method).Knobs {
			if k.Name == "window" {
				r.Knobs = map[string]float64{"window": float64(Observation(int(k.Default), tokens))}
			}
		}
		p, err := r.Plan()
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { do(t, name, p) })
	}
}

// filled fails if lists do not hold as many of n tokens as they may: all of them, if all lists have room for that.
func (y *toy) filled(n int) {
	y.t.Helper()
	for l, heads := range y.pos {
		for h, pos := range heads {
			want := min(n, y.run.Caps()[l][h])
			if n <= y.run.budget.Tokens {
				want = n
			}
			if len(pos) != want {
				y.t.Fatalf("layer %d head %d: %d of %d tokens stayed, may hold %d", l, h, len(pos), n, y.run.Caps()[l][h])
			}
		}
	}
}

// protected fails if a list lost sinks or recent tokens for which it has room.
func (y *toy) protected() {
	y.t.Helper()
	for l, heads := range y.pos {
		for h, pos := range heads {
			sinks, recent := y.run.plan.Protect.Sinks, min(y.p.Protect.recent(len(pos)), len(pos), int(y.next))
			if sinks+recent > min(len(pos), y.run.Caps()[l][h]) {
				sinks, recent = 0, min(recent, 1) // but the newest stays
			}
			for i := range sinks {
				if pos[i] != int32(i) {
					y.t.Fatalf("layer %d head %d: sink %d left %v", l, h, i, pos)
				}
			}
			if recent > 0 && pos[len(pos)-recent] != y.next-int32(recent) {
				y.t.Fatalf("layer %d head %d: the last %d of %d tokens are not in %v", l, h, recent, y.next, pos)
			}
		}
	}
}

// all are the numbers below n.
func all(n int) []int32 {
	keep := make([]int32, n)
	for i := range keep {
		keep[i] = int32(i)
	}
	return keep
}

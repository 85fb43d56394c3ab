package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"kvlens/cache/policy/stage"
	"kvlens/web/lab/golden"
)

// tinyBase is the RoPE base of the tiny model.
const tinyBase = 10000

var tinyShape = Shape{golden.TinyLayers, golden.TinyHeads, golden.TinyKVHeads, golden.TinyHeadDim}

// expanded is the tiny model with a KV head for every query head, as some originals store it.
var expanded = Shape{golden.TinyLayers, golden.TinyHeads, golden.TinyHeads, golden.TinyHeadDim}

// rope gives cos and sin of a position.
func rope(pos int) []float32 {
	row := make([]float32, golden.TinyHeadDim)
	for c := range golden.TinyHeadDim / 2 {
		sin, cos := math.Sincos(float64(pos) * math.Pow(tinyBase, -2*float64(c)/golden.TinyHeadDim))
		row[2*c], row[2*c+1] = float32(cos), float32(sin)
	}
	return row
}

// tinyInput is what a plan asks of a layer of the tiny model after the prompt.
func tinyInput(g *golden.TinyLayer, s Shape, p *Plan) *Input {
	group, tokens := s.Heads/s.KVHeads, len(g.Q[0])
	in := &Input{Candidates: make([]Candidates, s.KVHeads)}
	pos := make([]int32, tokens)
	for i := range pos {
		pos[i] = int32(i)
	}
	for h := range in.Candidates {
		of := h * golden.TinyKVHeads / s.KVHeads
		in.Candidates[h] = Candidates{Pos: pos, K: slices.Concat(g.K[of]...), V: slices.Concat(g.V[of]...), OutL1: g.OutL1[of]}
	}
	for i := tokens - min(p.Score.Window, tokens); i < tokens; i++ {
		for h := range g.Q {
			in.Queries = append(in.Queries, g.Q[h][i]...)
		}
	}
	if p.Score.Kind == ScoreColumns {
		in.Columns = make([][]float32, s.Heads)
		row := make([]float32, tokens)
		for h := range in.Columns {
			in.Columns[h] = make([]float32, tokens)
			stage.Attention(GoLoops, in.Columns[h], row, slices.Concat(g.Q[h]...), s.HeadDim, tokens, in.Candidates[h/group].K, s.HeadDim)
		}
	}
	if p.Score.Kind == ScoreExpected {
		in.Spread = tinySpread(g, p.Protect.Sinks)
	}
	return in
}

// tinySpread is mean and covariance of the queries before RoPE, but for the first.
func tinySpread(g *golden.TinyLayer, sinks int) *Spread {
	const d = golden.TinyHeadDim
	s := &Spread{Rope: rope, Neox: true, N: len(g.Q[0]) - sinks}
	for _, queries := range g.Q {
		mean, cov := make([]float64, d), make([]float64, d*d)
		plain := make([][]float32, 0, s.N)
		for pos, q := range queries[sinks:] {
			back := rope(pos + sinks)
			for c := 1; c < len(back); c += 2 {
				back[c] = -back[c]
			}
			q = slices.Clone(q)
			(&stage.Rotation{CosSin: back, Neox: true}).Apply(q)
			plain = append(plain, q)
			for c, x := range q {
				mean[c] += float64(x) / float64(s.N)
			}
		}
		for _, q := range plain {
			for a := range d {
				for b := range d {
					cov[a*d+b] += (float64(q[a]) - mean[a]) * (float64(q[b]) - mean[b]) / float64(s.N)
				}
			}
		}
		for _, x := range mean {
			s.Mean = append(s.Mean, float32(x))
		}
		for _, x := range cov {
			s.Cov = append(s.Cov, float32(x))
		}
	}
	return s
}

// mustPlan is a recipe's plan.
func mustPlan(t *testing.T, r Recipe) *Plan {
	t.Helper()
	p, err := r.Plan()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// compareSet compares what was kept with a reference's set: exactly where the cut is clear; at a tie the same number,
// and no score that was kept below one that was not, by more than 10⁻⁶.
func compareSet(t *testing.T, n *golden.Counter, what string, got, want []int32, clear bool, scores []float32) {
	t.Helper()
	n.Case(1)
	if clear || scores == nil {
		if !slices.Equal(got, want) {
			t.Errorf("%s: kept %v, want %v", what, got, want)
		}
		return
	}
	n.Tie(1)
	if len(got) != len(want) {
		t.Errorf("%s: kept %d, want %d", what, len(got), len(want))
		return
	}
	in := map[int32]bool{}
	for _, i := range want {
		in[i] = true
	}
	lowest, highest := float32(math.Inf(1)), float32(math.Inf(-1))
	for i, s := range scores {
		if in[int32(i)] {
			lowest = min(lowest, s)
		} else {
			highest = max(highest, s)
		}
	}
	if lowest < highest-1e-6 {
		t.Errorf("%s: the reference kept %v but dropped %v", what, lowest, highest)
	}
	for _, i := range got {
		if !in[i] && scores[i] < lowest-1e-6 {
			t.Errorf("%s: kept %d with %v, the reference's lowest is %v", what, i, scores[i], lowest)
		}
	}
}

// sentinels are a head's scores with those of protected tokens above all.
func sentinels(p *Plan, sc *scored, head int) []float32 {
	if sc.Heads == nil {
		return nil
	}
	scores := slices.Clone(sc.Heads[head])
	for i := range scores {
		if i < p.Protect.Sinks || i >= len(scores)-p.Protect.Recent {
			scores[i] = float32(math.Inf(1))
		}
	}
	return scores
}

// pressRecipe is a class of kvpress as a recipe of ours; no method for those that we have not.
func pressRecipe(c *golden.Press) Recipe {
	snap := map[string]float64{"window": float64(c.Params.Window), "kernel": float64(c.Params.Kernel), "pool": float64(PoolAvg), "after": 0}
	r := Recipe{Method: "snapkv", Knobs: snap}
	ada := Wrap{Name: "adakv", Knobs: map[string]float64{"alpha": c.Params.Alpha, "rounding": 2}}
	critical := Wrap{Name: "criticalkv", Knobs: map[string]float64{"epsilon": c.Params.Epsilon, "first": c.Params.First}}
	switch c.Class {
	case "SnapKVPress", "KeyRerotationPress(SnapKVPress)":
	case "PyramidKVPress":
		r.Method = "pyramidkv"
		snap["beta"], snap["rounding"] = float64(c.Params.Beta), 2
	case "AdaKVPress(SnapKVPress)":
		r.Wraps = []Wrap{ada}
	case "CriticalKVPress(SnapKVPress)":
		r.Wraps = []Wrap{critical}
	case "CriticalAdaKVPress(SnapKVPress)":
		r.Wraps = []Wrap{critical, ada}
	case "ChunkKVPress(SnapKVPress)":
		r.Wraps = []Wrap{{Name: "chunkkv", Knobs: map[string]float64{"chunk": float64(c.Params.Chunk)}}}
	case "TOVAPress":
		r = Recipe{Method: "tova"}
	case "ObservedAttentionPress":
		r = Recipe{Method: "observed"}
	case "KnormPress":
		r = Recipe{Method: "knorm"}
	case "AdaKVPress(KnormPress)":
		r = Recipe{Method: "knorm", Wraps: []Wrap{ada}}
	case "KeyDiffPress":
		r = Recipe{Method: "keydiff"}
	case "ExpectedAttentionPress":
		r = Recipe{Method: "expected", Knobs: map[string]float64{
			"future": float64(c.Params.Future), "sinks": float64(c.Params.Sinks), "covariance": flag(c.Params.Covariance),
			"values": flag(c.Params.ValueNorm), "epsilon": c.Params.Epsilon,
		}}
	case "StreamingLLMPress", "KeyRerotationPress(StreamingLLMPress)":
		r = Recipe{Method: "streamingllm", Knobs: map[string]float64{"sinks": float64(c.Params.Sinks)}}
	case "DuoAttentionPress":
		retrieval := 0
		for _, streaming := range slices.Concat(c.Params.Streaming...) {
			retrieval += int(flag(!streaming))
		}
		r = Recipe{Method: "duo", Knobs: map[string]float64{
			"sinks": float64(c.Params.SinkSize), "local": float64(c.Params.Recent),
			"retrieval": float64(retrieval) / (golden.TinyLayers * golden.TinyKVHeads),
		}}
	case "ThinKPress", "LagKVPress", "CURPress", "MergingPress(SnapKVPress)":
		return Recipe{}
	default:
		return Recipe{Method: c.Class} // which fails
	}
	return r
}

// pressPlan is the plan of a class of kvpress, nil for those that we have not.
func pressPlan(t *testing.T, c *golden.Press) *Plan {
	t.Helper()
	r := pressRecipe(c)
	if r.Method == "" {
		return nil // the claims have the reason
	}
	p := mustPlan(t, r)
	p.Score.Mean = true // scores of a window are means there
	return p
}

// pressBudget is what a run of kvpress may hold: a share of the prompt, which PyramidKV rounds.
func pressBudget(c *golden.Press, run *golden.PressRun) Budget {
	b := Budget{Tokens: max(1, int(float64(run.L)*(1-run.Ratio))), Prompt: run.L, Parity: true}
	if c.Class == "PyramidKVPress" {
		b.Tokens = int(math.Round(float64(run.L) * (1 - run.Ratio)))
	}
	return b
}

// pressTables has DuoAttention's mask.
func pressTables(c *golden.Press) *Tables {
	t := &Tables{}
	for _, layer := range c.Params.Streaming {
		var row []float32
		for _, streaming := range layer {
			row = append(row, slices.Repeat([]float32{float32(flag(!streaming))}, golden.TinyHeads/golden.TinyKVHeads)...)
		}
		t.Retrieval = append(t.Retrieval, row)
	}
	return t
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// Scores, budgets and what is kept of prompt 0, whose tensors were recorded.
func TestGoldenKVPress(t *testing.T) {
	n := golden.Count(t)
	layers := golden.PolicyInputs(t)
	for _, c := range golden.Presses(t) {
		p := pressPlan(t, &c)
		if p == nil {
			continue
		}
		for _, rec := range c.Runs {
			if rec.Prompt != 0 {
				continue
			}
			run, err := NewRun(p, tinyShape, pressBudget(&c, &rec), pressTables(&c))
			if err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
			run.Prompt(rec.L)
			for l := range layers {
				what := fmt.Sprintf("%s ratio %v layer %d", c.Name, rec.Ratio, l)
				in := tinyInput(&layers[l], tinyShape, p)
				keeps, err := run.Layer(l, in, GoLoops)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				sc := &scored{Heads: run.Scores(l)}
				if c.Scores != nil && sc.Heads != nil {
					comparePressScores(t, n, what, sc.Heads, c.Scores[l], p)
				}
				for h, kept := range keeps[0].Heads {
					clear := rec.Clear == nil || rec.Clear[l][h] || strings.HasPrefix(c.Class, "Critical")
					compareSet(t, n, fmt.Sprintf("%s head %d", what, h), kept, rec.Kept[l][h], clear, sentinels(p, sc, h))
				}
			}
		}
	}
}

// comparePressScores compares scores outside what is protected, which kvpress marks by the highest score + 1.
func comparePressScores(t *testing.T, n *golden.Counter, what string, got, want [][]float32, p *Plan) {
	t.Helper()
	for h := range got {
		from, to := p.Protect.Sinks, len(got[h])-p.Protect.Recent
		golden.Close(t, fmt.Sprintf("%s head %d scores", what, h), got[h][from:to], want[h][from:to], 5e-6, 1e-5)
		n.Case(1)
	}
}

package kernel_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"kvlens/cache/policy"
	"kvlens/wasm/gpu/gputest"
	"kvlens/web/lab/golden"
)

// goldenShape is that of the tiny model, of whose layers two are made: lists are not where their KV heads are.
var goldenShape = policy.Shape{Layers: golden.TinyLayers, Heads: golden.TinyHeads, KVHeads: golden.TinyKVHeads, HeadDim: golden.TinyHeadDim}

// pressPlan is a class of kvpress as a plan of ours, nil for those that we have not.
func pressPlan(t *testing.T, c *golden.Press) *policy.Plan {
	t.Helper()
	snap := map[string]float64{"window": float64(c.Params.Window), "kernel": float64(c.Params.Kernel), "pool": float64(policy.PoolAvg), "after": 0}
	ada := policy.Wrap{Name: "adakv", Knobs: map[string]float64{"alpha": c.Params.Alpha, "rounding": 2}}
	critical := policy.Wrap{Name: "criticalkv", Knobs: map[string]float64{"epsilon": c.Params.Epsilon, "first": c.Params.First}}
	on := map[bool]float64{true: 1}
	inner := strings.TrimSuffix(c.Class[strings.Index(c.Class, "(")+1:], ")")
	var r policy.Recipe
	switch inner {
	case "SnapKVPress":
		r = policy.Recipe{Method: "snapkv", Knobs: snap}
	case "PyramidKVPress":
		snap["beta"], snap["rounding"] = float64(c.Params.Beta), 2
		r = policy.Recipe{Method: "pyramidkv", Knobs: snap}
	case "StreamingLLMPress":
		r = policy.Recipe{Method: "streamingllm", Knobs: map[string]float64{"sinks": float64(c.Params.Sinks)}}
	case "TOVAPress":
		r = policy.Recipe{Method: "tova"}
	case "ObservedAttentionPress":
		r = policy.Recipe{Method: "observed"}
	case "KnormPress":
		r = policy.Recipe{Method: "knorm"}
	case "KeyDiffPress":
		r = policy.Recipe{Method: "keydiff"}
	case "ExpectedAttentionPress":
		r = policy.Recipe{Method: "expected", Knobs: map[string]float64{
			"future": float64(c.Params.Future), "sinks": float64(c.Params.Sinks), "covariance": on[c.Params.Covariance],
			"values": on[c.Params.ValueNorm], "epsilon": c.Params.Epsilon,
		}}
	case "DuoAttentionPress":
		r = policy.Recipe{Method: "duo", Knobs: map[string]float64{
			"sinks": float64(c.Params.SinkSize), "local": float64(c.Params.Recent), "retrieval": 2.0 / 6,
		}}
	case "ThinKPress", "LagKVPress", "CURPress":
		return nil
	default:
		t.Fatalf("%s: no recipe of ours is compared", c.Class)
	}
	switch outer, _, _ := strings.Cut(c.Class, "("); outer {
	case "AdaKVPress":
		r.Wraps = []policy.Wrap{ada}
	case "CriticalKVPress":
		r.Wraps = []policy.Wrap{critical}
	case "CriticalAdaKVPress":
		r.Wraps = []policy.Wrap{critical, ada}
	case "ChunkKVPress":
		r.Wraps = []policy.Wrap{{Name: "chunkkv", Knobs: map[string]float64{"chunk": float64(c.Params.Chunk)}}}
	case "MergingPress":
		return nil
	}
	p, err := r.Plan()
	if err != nil {
		t.Fatal(c.Name, err)
	}
	p.Score.Mean = true // scores of a window are means there
	return p
}

// pressBudget is what a run of kvpress may hold, and the tables of a class: heads that do not stream hold everything.
func pressBudget(c *golden.Press, run *golden.PressRun) (policy.Budget, *policy.Tables) {
	b := policy.Budget{Tokens: max(1, int(float64(run.L)*(1-run.Ratio))), Prompt: run.L, Parity: true}
	if c.Class == "PyramidKVPress" {
		b.Tokens = int(math.Round(float64(run.L) * (1 - run.Ratio)))
	}
	tables := &policy.Tables{}
	for _, layer := range c.Params.Streaming {
		var row []float32
		for _, streams := range layer {
			row = append(row, slices.Repeat([]float32{map[bool]float32{false: 1}[streams]}, golden.TinyHeads/golden.TinyKVHeads)...)
		}
		tables.Retrieval = append(tables.Retrieval, row)
	}
	return b, tables
}

// Scores and what is kept of prompt 0 by kvpress' classes: scored, shared among heads and selected by the kernels.
func TestGoldenPresses(t *testing.T) {
	n, dev := golden.Count(t), gputest.Open(t)
	lib := newLibrary(dev)
	for l, layer := range golden.PolicyInputs(t) {
		for _, c := range golden.Presses(t) {
			p := pressPlan(t, &c)
			if p == nil {
				continue // the claims have the reason
			}
			r := newGoldenRig(t, lib, dev, &layer, golden.TinyKVHeads, len(layer.Q[0]))
			scores := r.scores(p, nil)
			for h := range scores {
				if c.Scores == nil {
					break
				}
				from, to := p.Protect.Sinks, r.rows-p.Protect.Recent // which kvpress marks
				golden.Close(t, fmt.Sprintf("%s layer %d head %d scores", c.Name, l, h), scores[h][from:to], c.Scores[l][h][from:to], 1e-5, 5e-5)
				n.Case(1)
			}
			for _, rec := range c.Runs {
				if rec.Prompt != 0 {
					continue // the tensors are prompt 0's
				}
				b, tables := pressBudget(&c, &rec)
				run, err := policy.NewRun(p, goldenShape, b, tables)
				r.must(err)
				run.Prompt(rec.L)
				sz := &policy.Sizes{Candidates: []int{rec.L, rec.L}, Sinks: slices.Repeat([]int{min(p.Protect.Sinks, rec.L)}, 2)}
				var quotas []policy.LayerQuotas
				for at := range l + 1 {
					quotas, err = run.Quotas(at, sz, counted{r, p})
					r.must(err)
				}
				for h, kept := range r.keeps(p, quotas[len(quotas)-1].Lists) {
					clear := rec.Clear == nil || rec.Clear[l][h] || strings.HasPrefix(c.Class, "Critical")
					what := fmt.Sprintf("%s ratio %v layer %d head %d", c.Name, rec.Ratio, l, h)
					var row []float32
					if scores != nil {
						row = scores[h]
					}
					compareKept(t, n, what, kept, rec.Kept[l][h], clear, row, p)
				}
			}
			r.close()
		}
	}
}

// selectPlan is the plan of an original repository's selection, and how many KV heads it works on.
func selectPlan(t *testing.T, c *golden.Selection) (*policy.Plan, int) {
	t.Helper()
	heads := golden.TinyKVHeads
	if strings.Contains(c.Name, "per_query_head") {
		heads = golden.TinyHeads
	}
	recent := policy.Protect{Recent: c.Params.Window}
	name, _, _ := strings.Cut(c.Name, "_")
	switch name {
	case "streamingllm":
		return &policy.Plan{Protect: policy.Protect{Sinks: 4}}, heads
	case "l2norm":
		return &policy.Plan{Score: policy.Score{Kind: policy.ScoreNorm}}, heads
	case "h2o":
		return &policy.Plan{Score: policy.Score{Kind: policy.ScoreColumns}, Protect: recent, Decode: policy.Decode{Kind: policy.DecodeSums}}, heads
	}
	kinds := map[string]policy.PoolKind{"avgpool": policy.PoolAvg, "maxpool": policy.PoolMax}
	groups := map[string]policy.ReduceKind{"": policy.ReduceMean, "mean before pooling": policy.ReduceMean, "max before pooling": policy.ReduceMax, "sum before pooling": policy.ReduceSum}
	group, ok := groups[c.Params.Group]
	if !ok {
		t.Fatalf("%s: group %q", c.Name, c.Params.Group)
	}
	p := &policy.Plan{
		Score: policy.Score{Kind: policy.ScoreWindow, Window: c.Params.Window, Mean: name == "adakv" || name == "headkv"},
		Pool:  policy.Pool{Kind: kinds[c.Params.Pool], Size: c.Params.Kernel, After: true}, Reduce: policy.Reduce{Kind: group},
		Protect: recent,
	}
	if name == "compresskv" {
		p.Reduce.Kind, p.Score.Heads, p.Pool.After = policy.ReduceLayer, c.Params.FirstK, false
	}
	return p, heads
}

// What the original repositories' classes keep of given tensors, with budgets as recorded.
func TestGoldenSelections(t *testing.T) {
	n, dev := golden.Count(t), gputest.Open(t)
	lib := newLibrary(dev)
	layers := golden.PolicyInputs(t)
	for i, c := range golden.Selections(t) {
		if strings.HasPrefix(c.Name, "compresskv_baseline") {
			continue // documents defects
		}
		what := fmt.Sprintf("%d %s layer %d", i, c.Name, c.Layer)
		p, heads := selectPlan(t, &c)
		tables := &policy.Tables{Semantic: make([][]float32, scoreLayer+1)}
		if c.Params.Order != nil { // as the rig's layer has it
			row := make([]float32, golden.TinyHeads)
			for rank, h := range c.Params.Order[c.Layer] {
				row[h] = float32(len(row) - rank)
			}
			tables.Semantic[scoreLayer] = row
		}
		r := newGoldenRig(t, lib, dev, &layers[c.Layer], heads, len(layers[c.Layer].Q[0]))
		var scores [][]float32
		if !slices.Contains(c.Params.Skip, c.Layer) {
			scores = r.scores(p, tables)
		} else {
			p.Score.SkipLayers = scoreLayer + 1 // position alone decides
		}
		for h, row := range c.Scores {
			golden.Close(t, fmt.Sprintf("%s head %d scores", what, h), scores[h][:len(row)], row, 1e-5, 1e-4)
			n.Case(1)
		}
		quotas := make([]policy.Quota, heads)
		for h := range quotas {
			quotas[h] = r.guard(p, c.Budget[h])
		}
		for h, kept := range r.keeps(p, quotas) {
			var row []float32
			if scores != nil {
				row = scores[h]
			}
			compareKept(t, n, fmt.Sprintf("%s head %d", what, h), kept, c.Kept[h], c.TieFree == nil || *c.TieFree, row, p)
		}
		r.close()
	}
}

// CAKE's indicator, and its preferences by entropy and variance: entropy^(1/τ₁) · variance^(1/τ₂).
func TestGoldenCake(t *testing.T) {
	n, dev := golden.Count(t), gputest.Open(t)
	lib := newLibrary(dev)
	indicator, runs := golden.Cake(t)
	for l, layer := range golden.PolicyInputs(t) {
		score := func(window int, gamma float64) (scores [][]float32, entropy, variance float64) {
			r := newGoldenRig(t, lib, dev, &layer, golden.TinyKVHeads, len(layer.Q[0]))
			defer r.close()
			scores = r.scores(&policy.Plan{
				Score: policy.Score{Kind: policy.ScoreIndicator, Window: window, Gamma: gamma}, Pool: policy.Pool{Kind: policy.PoolAvg, Size: 5},
				Protect: policy.Protect{Recent: window},
			}, nil)
			entropy, variance = r.unrest()
			return scores, entropy, variance
		}
		scores, _, _ := score(8, 200)
		for h, want := range indicator[l] {
			golden.Close(t, fmt.Sprintf("layer %d head %d", l, h), scores[h][:len(want)], want, 2e-5, 1e-4)
			n.Case(1)
		}
		for i, run := range runs {
			if run.Prompt != 0 {
				continue // the inputs are of prompt 0
			}
			_, entropy, variance := score(run.W, run.Gamma)
			got := math.Pow(entropy, 1/run.Tau1) * math.Pow(variance, 1/run.Tau2)
			golden.Close(t, fmt.Sprintf("run %d layer %d preference", i, l), []float64{got}, run.Preference[l:l+1], 0, 2e-4)
			n.Case(1)
		}
	}
}

// unrest is a layer's entropy and variance, which the host adds up from parts.
func (r *scoreRig) unrest() (entropy, variance float64) {
	r.t.Helper()
	all := r.shape.KVHeads * r.c.Stride()
	for i, v := range r.read("worth", all+2*64)[all:] {
		if i%2 == 0 {
			entropy += float64(v)
		} else {
			variance += float64(v)
		}
	}
	return entropy, variance
}

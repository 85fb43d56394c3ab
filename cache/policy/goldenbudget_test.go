package policy

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"kvlens/cache/policy/stage"
	"kvlens/web/lab/golden"
)

// layerOf runs one layer of the tiny model's prompt in parity with the published code.
func layerOf(t *testing.T, p *Plan, s Shape, tokens, layer int, in *Input, tables *Tables) (caps []int, keep Keep) {
	t.Helper()
	r, err := NewRun(p, s, Budget{Tokens: tokens, Reserve: 1, Parity: true}, tables)
	if err != nil {
		t.Fatal(err)
	}
	r.Prompt(len(in.Candidates[0].Pos))
	keeps, err := r.Layer(layer, in, stage.Go{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Caps()[layer], keeps[len(keeps)-1]
}

// TestGoldenSelectBudgets computes what the originals give layers and heads, from scores, importances and errors on.
func TestGoldenSelectBudgets(t *testing.T) {
	n := golden.Count(t)
	layers := golden.PolicyInputs(t)
	for i, c := range golden.Selections(t) {
		if strings.HasPrefix(c.Name, "compresskv_baseline") {
			continue // documents defects
		}
		p, shape := selectPlan(t, &c)
		tables := order(&c)
		beta := Layers{Kind: LayersPyramid, Beta: c.Params.Beta}
		switch c.Name {
		case "pyramidkv_kv_head":
			p.Layers = beta
		case "adakv_pyramid_gqa":
			p.Layers = beta
			fallthrough
		case "adakv_gqa":
			p.Heads = Heads{Kind: HeadsAdaptive, Alpha: c.Params.Alpha, Normalise: c.Params.Normalize}
		case "headkv_per_query_head":
			p.Heads = Heads{Kind: HeadsImportance, Beta: c.Params.Beta}
			for _, row := range c.Params.Importance {
				var heads []float32
				for _, x := range row {
					heads = append(heads, float32(math.Pow(x, c.Params.Temp)))
				}
				tables.Retrieval = append(tables.Retrieval, heads)
			}
		case "compresskv":
			p.Layers = Layers{Kind: LayersError, Floor: 32, Ceiling: 3}
			for _, e := range c.Params.Errors {
				tables.Errors = append(tables.Errors, float32(e))
			}
		case "snapkv_per_query_head", "snapkv_kv_head", "h2o_oneshot_kv_head", "l2norm_skip0", "streamingllm_oneshot":
			continue // equal budgets
		case "headkv_kv_head":
			continue // exceeds its budgets by the window, which is not to be imitated
		default:
			t.Errorf("%s: no budgets are compared", c.Name)
		}
		in := tinyInput(&layers[c.Layer], shape, p)
		caps, keep := layerOf(t, p, shape, c.Params.B, c.Layer, in, tables)
		what := fmt.Sprintf("%d %s layer %d", i, c.Name, c.Layer)
		n.Case(len(caps))
		for h, kept := range keep.Heads {
			if len(kept) != c.Budget[h] {
				t.Errorf("%s head %d: may hold %d and kept %d, want %d", what, h, caps[h], len(kept), c.Budget[h])
			}
		}
	}
}

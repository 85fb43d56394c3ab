package policy

import (
	"fmt"
	"strings"
	"testing"

	"kvlens/web/lab/golden"
)

// selectPlan is the plan of an original repository's selection, and the shape it works on.
func selectPlan(t *testing.T, c *golden.Selection) (*Plan, Shape) {
	t.Helper()
	shape := tinyShape
	if strings.Contains(c.Name, "per_query_head") {
		shape = expanded
	}
	name, _, _ := strings.Cut(c.Name, "_")
	switch name {
	case "streamingllm":
		return &Plan{Protect: Protect{Sinks: 4}}, shape
	case "l2norm":
		return mustPlan(t, Recipe{Method: "knorm", Knobs: map[string]float64{"skip": float64(len(c.Params.Skip))}}), shape
	case "h2o":
		p := mustPlan(t, Recipe{Method: "h2o", Knobs: map[string]float64{"recent": 0}})
		p.Protect.Recent = c.Params.Window
		return p, shape
	}
	kinds := map[string]PoolKind{"avgpool": PoolAvg, "maxpool": PoolMax}
	groups := map[string]ReduceKind{"": ReduceMean, "mean before pooling": ReduceMean, "max before pooling": ReduceMax, "sum before pooling": ReduceSum}
	group, ok := groups[c.Params.Group]
	if !ok {
		t.Fatalf("%s: group %q", c.Name, c.Params.Group)
	}
	p := mustPlan(t, Recipe{Method: "snapkv", Knobs: map[string]float64{
		"window": float64(c.Params.Window), "kernel": float64(c.Params.Kernel), "pool": float64(kinds[c.Params.Pool]), "group": float64(group),
	}})
	switch name {
	case "adakv", "headkv":
		p.Score.Mean = true
	case "compresskv":
		p.Reduce.Kind, p.Score.Heads, p.Pool.After = ReduceLayer, c.Params.FirstK, false
	}
	return p, shape
}

// order is a table of semantic retrieval heads that gives a recorded order.
func order(c *golden.Selection) *Tables {
	t := &Tables{}
	for _, heads := range c.Params.Order {
		row := make([]float32, len(heads))
		for rank, h := range heads {
			row[h] = float32(len(heads) - rank)
		}
		t.Semantic = append(t.Semantic, row)
	}
	return t
}

// What the original repositories' classes keep of given tensors, with budgets as recorded.
func TestGoldenSelect(t *testing.T) {
	n := golden.Count(t)
	layers := golden.PolicyInputs(t)
	for i, c := range golden.Selections(t) {
		if strings.HasPrefix(c.Name, "compresskv_baseline") {
			continue // documents defects
		}
		what := fmt.Sprintf("%d %s layer %d", i, c.Name, c.Layer)
		p, shape := selectPlan(t, &c)
		in := tinyInput(&layers[c.Layer], shape, p)
		sc, err := scoreLayer(p, shape, c.Layer, in, order(&c), GoLoops)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for h, row := range c.Scores {
			got := sc.Heads[h][:len(row)]
			golden.Close(t, fmt.Sprintf("%s head %d scores", what, h), got, row, 5e-6, 1e-4)
			n.Case(1)
		}
		for h := range in.Candidates {
			kept := pick(p, sc, h, &in.Candidates[h], c.Budget[h])
			clear := c.TieFree == nil || *c.TieFree
			compareSet(t, n, fmt.Sprintf("%s head %d", what, h), kept, c.Kept[h], clear, sentinels(p, sc, h))
		}
	}
}

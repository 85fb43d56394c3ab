package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
)

// TablesError says that tables are not what a recipe or a model needs.
type TablesError struct {
	Table string // semantic, retrieval, induction, echo, sink, local, errors or model
	Why   string
}

func (e *TablesError) Error() string {
	return fmt.Sprintf("policy: head tables: %s: %s", e.Table, e.Why)
}

// Check says, as a *TablesError, what is wrong with tables for a model of such a shape, whose weights have such a SHA-256.
func (t *Tables) Check(s Shape, weights string) error {
	if t == nil {
		return &TablesError{"model", "none"}
	}
	if t.Model == "" || t.Model != weights {
		return &TablesError{"model", fmt.Sprintf("measured on weights %.12q, not on %.12q", t.Model, weights)}
	}
	for _, n := range []string{"retrieval", "semantic", "induction", "echo", "sink", "local", "errors"} {
		if err := t.check(n, s); err != nil {
			return err
		}
	}
	return nil
}

// check checks one table: its shape, and numbers from 0 on.
func (t *Tables) check(name string, s Shape) error {
	if t == nil {
		return &TablesError{name, "not measured for this model"}
	}
	table := map[string][][]float32{
		"retrieval": t.Retrieval, "semantic": t.Semantic, "induction": t.Induction, "echo": t.Echo,
		"sink": t.Sink, "local": t.Local, "errors": {t.Errors},
	}[name]
	rows, columns := s.Layers, s.Heads
	if name == "errors" {
		rows, columns = 1, s.Layers
	}
	sum := 0.0
	for l, row := range table {
		if len(row) != columns {
			return &TablesError{name, fmt.Sprintf("row %d has %d numbers, want %d", l, len(row), columns)}
		}
		for _, x := range row {
			if !(x >= 0) || math.IsInf(float64(x), 0) {
				return &TablesError{name, fmt.Sprintf("row %d has %v", l, x)}
			}
			sum += float64(x)
		}
	}
	if len(table) != rows {
		return &TablesError{name, fmt.Sprintf("%d rows, want %d", len(table), rows)}
	}
	if name == "errors" && math.Abs(sum-1) > 1e-3 {
		return &TablesError{name, fmt.Sprintf("they sum to %v, not to 1", sum)}
	}
	return nil
}

// suits checks the tables that a plan needs.
func (t *Tables) suits(p *Plan, s Shape) error {
	var needed []string
	if p.Score.Heads > 0 && p.Score.Heads < s.Heads {
		needed = append(needed, "semantic")
	}
	if p.Layers.Kind == LayersError {
		needed = append(needed, "errors")
	}
	switch {
	case p.Heads.Kind == HeadsImportance, p.Heads.Kind == HeadsMask && p.Heads.Duo:
		needed = append(needed, "retrieval")
	case p.Heads.Kind == HeadsMask:
		needed = append(needed, "induction", "echo")
	}
	for _, name := range needed {
		if err := t.check(name, s); err != nil {
			return err
		}
	}
	return nil
}

// SemanticOrder is a layer's query heads by descending semantic retrieval score, of equals the lower one first
// (CompressKV).
func (t *Tables) SemanticOrder(layer int) []int {
	order := make([]int, len(t.Semantic[layer]))
	for h := range order {
		order[h] = h
	}
	sort.SliceStable(order, func(a, b int) bool { return cmp.Less(t.Semantic[layer][order[b]], t.Semantic[layer][order[a]]) })
	return order
}

// Importance is what KV heads of all layers are worth, layer after layer: the mean retrieval score of their query heads
// (HeadKV's R).
func (t *Tables) Importance(s Shape) []float64 {
	return byKVHead(t.Retrieval, s, func(group []float32) float64 {
		sum := 0.0
		for _, x := range group {
			sum += float64(x)
		}
		return sum / float64(len(group))
	})
}

// RazorMask says which KV heads are retrieval heads, [layers][n_kv_heads]: the given share of all by induction score, and
// another by echo score (RazorAttention).
func (t *Tables) RazorMask(s Shape, induction, echo float64) [][]bool {
	mask := make([]bool, s.Layers*s.KVHeads)
	best(mask, byKVHead(t.Induction, s, highest), induction)
	best(mask, byKVHead(t.Echo, s, highest), echo)
	return slices.Collect(slices.Chunk(mask, s.KVHeads))
}

// DuoMask says which KV heads are retrieval heads, [layers][n_kv_heads]: the given share of all by retrieval score
// (DuoAttention, which learns them instead).
func (t *Tables) DuoMask(s Shape, share float64) [][]bool {
	mask := make([]bool, s.Layers*s.KVHeads)
	best(mask, byKVHead(t.Retrieval, s, highest), share)
	return slices.Collect(slices.Chunk(mask, s.KVHeads))
}

// byKVHead makes one number for each KV head of all layers of those of its query heads.
func byKVHead(table [][]float32, s Shape, of func([]float32) float64) []float64 {
	var out []float64
	for _, row := range table {
		for group := range slices.Chunk(row, s.Heads/s.KVHeads) {
			out = append(out, of(group))
		}
	}
	return out
}

func highest(group []float32) float64 { return float64(slices.Max(group)) }

// best marks a share of the heads, the nearest whole number of them but at least one, by descending score; of equals the
// first. No share is none.
func best(mask []bool, scores []float64, share float64) {
	if !(share > 0) {
		return
	}
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return cmp.Less(scores[order[b]], scores[order[a]]) })
	for _, i := range order[:min(len(order), max(1, int(math.Round(share*float64(len(order))))))] {
		mask[i] = true
	}
}

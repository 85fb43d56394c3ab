package policy

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTablesCheck: tables of another shape, of other weights or with numbers that are none are refused, each by its name.
func TestTablesCheck(t *testing.T) {
	s := Shape{3, 6, 2, 4}
	fresh := func() *Tables { return tablesOf(s, rand.New(rand.NewPCG(1, 1))) }
	if err := fresh().Check(s, "weights"); err != nil {
		t.Fatal(err)
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		name, table string
		spoil       func(t *Tables)
	}{
		{"other weights", "model", func(t *Tables) { t.Model = "others" }},
		{"no weights", "model", func(t *Tables) { t.Model = "" }},
		{"a layer less", "retrieval", func(t *Tables) { t.Retrieval = t.Retrieval[1:] }},
		{"a layer more", "semantic", func(t *Tables) { t.Semantic = append(t.Semantic, t.Semantic[0]) }},
		{"a head less", "induction", func(t *Tables) { t.Induction[2] = t.Induction[2][1:] }},
		{"none", "echo", func(t *Tables) { t.Echo = nil }},
		{"NaN", "sink", func(t *Tables) { t.Sink[1][1] = nan }},
		{"infinite", "local", func(t *Tables) { t.Local[0][5] = inf }},
		{"negative", "semantic", func(t *Tables) { t.Semantic[0][0] = -1 }},
		{"errors of other layers", "errors", func(t *Tables) { t.Errors = append(t.Errors, 0) }},
		{"errors that sum to two", "errors", func(t *Tables) {
			for i := range t.Errors {
				t.Errors[i] *= 2
			}
		}},
	} {
		tables := fresh()
		c.spoil(tables)
		var refused *TablesError
		if err := tables.Check(s, "weights"); !errors.As(err, &refused) || refused.Table != c.table {
			t.Errorf("%s: %v, want an error of %s", c.name, err, c.table)
		}
	}
	var none *Tables
	if err := none.Check(s, "weights"); err == nil {
		t.Error("no tables pass")
	}
}

// TestNoTablesNoRun: recipes that need tables do not run without them, nor with tables of another shape; others do.
func TestNoTablesNoRun(t *testing.T) {
	s := Shape{3, 6, 2, 4}
	for _, m := range Methods() {
		if m.Wrapper {
			continue
		}
		p := mustPlan(t, Recipe{Method: m.Name})
		needs := m.Needs != Needs{}
		for _, tables := range []*Tables{nil, {}, tablesOf(Shape{3, 4, 2, 4}, rand.New(rand.NewPCG(1, 1)))} {
			_, err := NewRun(p, s, Budget{Tokens: 9, Reserve: 1}, tables)
			var refused *TablesError
			if errors.As(err, &refused) != needs || needs != (err != nil) {
				t.Errorf("%s with tables %v: %v, needs %+v", m.Name, tables, err, m.Needs)
			}
		}
	}
}

// TestDerivedTables compares orders, importances and masks with ones by hand.
func TestDerivedTables(t *testing.T) {
	s := Shape{2, 4, 2, 2}
	table := [][]float32{{.1, .5, .5, .2}, {.9, .1, .5, .5}}
	tables := &Tables{Semantic: table, Retrieval: table, Induction: table, Echo: [][]float32{{0, .3, .1, .3}, {0, 0, 0, 0}}}
	for l, want := range [][]int{{1, 2, 3, 0}, {0, 2, 3, 1}} {
		if got := tables.SemanticOrder(l); !slices.Equal(got, want) {
			t.Errorf("layer %d: order %v, want %v", l, got, want)
		}
	}
	for i, got := range tables.Importance(s) {
		if want := []float64{.3, .35, .5, .5}[i]; math.Abs(got-want) > 1e-6 {
			t.Errorf("importance of list %d: %v, want %v", i, got, want)
		}
	}
	for _, c := range []struct {
		name string
		got  [][]bool
		want []bool
	}{ // by KV head the highest are .5, .5, .9, .5, of echo .3, .3, 0, 0
		{"none", tables.DuoMask(s, 0), []bool{false, false, false, false}},
		{"at least one", tables.DuoMask(s, .01), []bool{false, false, true, false}},
		{"of equals the first", tables.DuoMask(s, .5), []bool{true, false, true, false}},
		{"all", tables.DuoMask(s, 1), []bool{true, true, true, true}},
		{"induction alone", tables.RazorMask(s, .25, 0), []bool{false, false, true, false}},
		{"both", tables.RazorMask(s, .25, .5), []bool{true, true, true, false}},
	} {
		if got := slices.Concat(c.got...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	// 30 layers of 3 KV heads: 14 % are 13 heads, 1 % is one.
	big := Shape{30, 9, 3, 64}
	tables = tablesOf(big, rand.New(rand.NewPCG(4, 4)))
	for l := range tables.Echo { // no head is chosen twice
		for h := range tables.Echo[l] {
			tables.Echo[l][h] = 1 - tables.Induction[l][h]
		}
	}
	n := 0
	for _, is := range slices.Concat(tables.RazorMask(big, .14, .01)...) {
		if is {
			n++
		}
	}
	if n != 14 {
		t.Errorf("%d of 90 KV heads are retrieval heads, want 14", n)
	}
}

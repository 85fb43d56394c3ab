package shaders

import (
	"maps"
	"slices"
	"sort"
	"strings"
)

// Kernel describes a file: which of its included files and constants a variant chooses.
type Kernel struct {
	Name     string
	Includes map[string][]string // the choices for what stands in braces
	Consts   map[string][]string // values that are in use; any other would do too
}

// Entry is the name of every kernel's entry point, Group the threads of its workgroups unless it is sample.
const (
	Entry = "main"
	Group = 64
)

var (
	layouts  = []string{"f32", "f16", "4", "8"}
	products = []string{"lib/product", "lib/product_lanes"}
	tiles    = []string{"1u", "8u"}
	splits   = []string{"4u", "16u"}
	booleans = []string{"false", "true"}
)

// Kernels lists every kernel, in the order in which a step runs them.
var Kernels = []Kernel{
	{Name: "embed", Includes: map[string][]string{"layout": layouts}},
	{
		Name: "matmul", Includes: map[string][]string{"layout": layouts, "input": {"plain", "normed"}, "product": products},
		Consts: map[string][]string{"ADD": booleans, "TILE": tiles},
	},
	{
		Name: "qkv", Includes: map[string][]string{"layout": layouts, "sink": {"rows"}, "product": products},
		Consts: map[string][]string{"TILE": tiles},
	},
	{
		Name: "qkv", Includes: map[string][]string{"layout": layouts, "sink": {"slots"}, "product": products},
		Consts: map[string][]string{"KEY_F16": booleans, "VALUE_F16": booleans},
	},
	{
		Name: "qkv", Includes: map[string][]string{"layout": {"8"}, "sink": {"rows", "slots"}, "product": products},
		Consts: map[string][]string{"TURN_KEYS": {"false"}},
	},
	{Name: "rope", Consts: map[string][]string{"TURN_KEYS": booleans}},
	{Name: "store", Consts: map[string][]string{"RECORDED": booleans, "UNTURN": booleans, "KEY_F16": booleans, "VALUE_F16": booleans}},
	{
		Name: "attend", Includes: map[string][]string{"merge": {"alone", "merge"}, "left": {"gone"}},
		Consts: map[string][]string{"PAIRS": {"16u", "32u"}, "KEY_F16": booleans, "VALUE_F16": booleans},
	},
	{Name: "attend", Includes: map[string][]string{"merge": {"alone", "merge"}, "left": {"mean"}}, Consts: map[string][]string{"PAIRS": {"16u"}}},
	{Name: "score", Includes: map[string][]string{"reads": {"all", "marked"}}, Consts: map[string][]string{"KEY_F16": booleans}},
	{
		Name: "weigh", Includes: map[string][]string{"top": {"top", "top_lanes"}, "left": {"gone", "mean"}},
		Consts: map[string][]string{"VALUE_F16": booleans},
	},
	{Name: "reduce", Consts: map[string][]string{"SPLITS": splits}},
	{Name: "output", Includes: map[string][]string{"layout": layouts, "product": products}, Consts: map[string][]string{"SPLITS": splits}},
	{Name: "gateup", Includes: map[string][]string{"layout": layouts, "product": products}, Consts: map[string][]string{"TILE": tiles}},
	{Name: "silu"},
	{Name: "norm"},
	{Name: "sample"},
	// Views, on demand and in no step.
	{Name: "view", Includes: map[string][]string{"from": {"keys"}}, Consts: map[string][]string{"KEY_F16": booleans}},
	{Name: "view", Includes: map[string][]string{"from": {"row"}}, Consts: map[string][]string{"KEY_F16": booleans, "SPLITS": splits}},

	// What recipes score by; kernel/scoring.go says which of them a plan takes.
	{
		Name: "lse", Includes: map[string][]string{"logits": {"keys"}, "whole": {"whole", "whole_lanes"}},
		Consts: map[string][]string{"PAIRS": {"16u", "32u"}, "KEY_F16": booleans},
	},
	{Name: "lse", Includes: map[string][]string{"logits": {"rows"}, "whole": {"whole", "whole_lanes"}}},
	{Name: "columns", Consts: map[string][]string{"PAIRS": {"16u", "32u"}, "TILE": {"2u", "4u"}, "KEY_F16": booleans}},
	{Name: "indicator", Consts: map[string][]string{"PAIRS": {"16u", "32u"}, "KEY_F16": booleans}},
	{Name: "norms", Consts: map[string][]string{"KEY_F16": booleans}},
	{Name: "direction", Consts: map[string][]string{"KEY_F16": booleans, "PARTS": splits}},
	{Name: "keydiff", Consts: map[string][]string{"KEY_F16": booleans, "PARTS": splits}},
	{Name: "spread"},
	{Name: "expected", Consts: map[string][]string{"KEY_F16": booleans, "DIM": {"32u", "64u"}}},
	{Name: "fold", Consts: map[string][]string{"VALUE_F16": booleans}},
	{
		Name: "accrue", Includes: map[string][]string{"top": {"top", "top_lanes"}},
		Consts: map[string][]string{"SHARED": booleans, "SPLITS": splits},
	},
	{Name: "bounds", Consts: map[string][]string{"KEY_F16": booleans, "RECORDED": booleans}},
	{Name: "quest"},

	{
		Name: "outputs", Includes: map[string][]string{"layout": layouts},
		Consts: map[string][]string{"LANES": {"1u", "64u"}},
	},

	// What recipes keep and drop; kernel/selection.go says which of them a plan takes.
	{Name: "adapt"},
	{Name: "select", Includes: map[string][]string{"rule": {"top", "chunks", "critical"}}},
	{Name: "absorb", Consts: map[string][]string{"KEY_F16": booleans, "VALUE_F16": booleans}},
	{Name: "keep", Includes: map[string][]string{"begin": {"zero"}}, Consts: map[string][]string{"KEY_F16": booleans, "VALUE_F16": booleans}},
	{Name: "keep", Includes: map[string][]string{"begin": {"zero"}}, Consts: map[string][]string{"KEY_F16": booleans, "UNTURN": {"true"}}},
	{Name: "keep", Includes: map[string][]string{"begin": {"zero", "share", "sums"}}, Consts: map[string][]string{"ACCRUE": {"true"}}},
	{Name: "compact", Consts: map[string][]string{"KEY_F16": booleans, "VALUE_F16": booleans}},
	{Name: "compact", Consts: map[string][]string{"ACCRUE": {"true"}}},
	{Name: "remember", Consts: map[string][]string{"AGAIN": booleans}},
	{Name: "positions"}, // once, after a prompt or an answer
	{Name: "byrank", Consts: map[string][]string{"KEY_F16": booleans, "PAIRS": {"16u", "32u"}}},
	{Name: "evict", Includes: map[string][]string{"worth": {"nothing", "sums"}}},
	{
		Name: "evict", Includes: map[string][]string{"worth": {"sums"}},
		Consts: map[string][]string{"KEY_F16": booleans, "VALUE_F16": booleans, "ABSORB": {"true"}},
	},
	{Name: "evict", Includes: map[string][]string{"worth": {"row"}, "top": {"top", "top_lanes"}}, Consts: map[string][]string{"SPLITS": splits}},
}

// FastProduct is a file for what kernels call product that needs more than every implementation has.
type FastProduct struct {
	File, Feature string   // a feature of the device or of its shading language
	Layouts       []string // of weights that it takes
}

// Fast lists the products of folder fast.
var Fast = []FastProduct{
	{"fast/product_subgroups", "subgroups", layouts},
	{"fast/product_dot", "packed_4x8_integer_dot_product", []string{"4", "8"}},
}

// FastKernels lists the kernels that multiply, with the products of Fast.
func FastKernels() []Kernel {
	var out []Kernel
	for _, k := range Kernels {
		if k.Includes["product"] == nil {
			continue
		}
		for _, f := range Fast {
			k.Includes = maps.Clone(k.Includes)
			k.Includes["product"], k.Includes["layout"] = []string{f.File}, f.Layouts
			out = append(out, k)
		}
	}
	return out
}

// Variants lists every combination of a kernel's choices.
func (k Kernel) Variants() []Variant {
	out := []Variant{{Kernel: k.Name}}
	expand := func(choices map[string][]string, of func(*Variant) *map[string]string) {
		for _, name := range names(choices) {
			var next []Variant
			for _, v := range out {
				for _, value := range choices[name] {
					w := v
					chosen := maps.Clone(*of(&w))
					if chosen == nil {
						chosen = map[string]string{}
					}
					chosen[name] = value
					*of(&w) = chosen
					next = append(next, w)
				}
			}
			out = next
		}
	}
	expand(k.Includes, func(v *Variant) *map[string]string { return &v.Includes })
	expand(k.Consts, func(v *Variant) *map[string]string { return &v.Consts })
	return out
}

// names are the keys of choices, in order.
func names[V any](choices map[string]V) []string {
	out := slices.Collect(maps.Keys(choices))
	sort.Slice(out, func(a, b int) bool { return out[a] < out[b] })
	return out
}

// Label names a variant for messages and as a key: the file and its choices.
func (v Variant) Label() string {
	parts := []string{v.Kernel}
	for _, choices := range []map[string]string{v.Includes, v.Consts} {
		for _, name := range names(choices) {
			parts = append(parts, name+"="+choices[name])
		}
	}
	return strings.Join(parts, " ")
}

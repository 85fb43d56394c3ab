package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kvlens/cache/policy"
	"kvlens/web/lab/golden"
)

func kvpressInputs(t *testing.T) string { return filepath.Join(golden.Dir(t), "kvpress_inputs.json") }

// Half of the prompt's tokens stay, those of the oracle where its cut is clear, and what it gave as scores.
func TestPolicy(t *testing.T) {
	compared := 0
	for _, p := range golden.Presses(t) {
		if p.Class != "SnapKVPress" || p.Params.Window != 8 || p.Params.Kernel != 5 {
			continue
		}
		for _, r := range p.Runs {
			if r.Prompt != 0 {
				continue
			}
			budget := r.Budget[0][0]
			out := run[policyOutput](t, "", "policy", kvpressInputs(t), "-recipe", "snapkv window=8 kernel=5 after=0", "-scores",
				"-budget", toJSON(t, budget))
			for l, layer := range out.Layers {
				for h, kept := range layer.Kept {
					if layer.Caps[h] != budget || len(kept) != budget {
						t.Errorf("layer %d, KV head %d: %d of %d tokens for a budget of %d", l, h, len(kept), layer.Caps[h], budget)
					}
					if r.Clear[l][h] && !slices.Equal(kept, r.Kept[l][h]) {
						t.Errorf("layer %d, KV head %d: %v, want %v", l, h, kept, r.Kept[l][h])
					}
					compared++
				}
			}
		}
	}
	if compared == 0 {
		t.Error("nothing was compared")
	}
}

// A recipe that shares a budget as it goes cuts layers twice; a share of the tokens is a budget too.
func TestPolicyCascade(t *testing.T) {
	out := run[policyOutput](t, "", "policy", kvpressInputs(t), "-recipe", "cake window=8", "-keep", "0.3")
	total := 0
	for l, layer := range out.Layers {
		for h, kept := range layer.Kept {
			if len(kept) != layer.Caps[h] || !slices.IsSorted(kept) || kept[len(kept)-1] != int32(out.Tokens-1) {
				t.Errorf("layer %d, KV head %d: %v for a budget of %d", l, h, kept, layer.Caps[h])
			}
			total += len(kept)
		}
	}
	if want := out.Budget * len(out.Layers) * 2; total != want || out.Budget != int(math.Round(0.3*float64(out.Tokens))) {
		t.Errorf("%d tokens stay in all lists, want %d (%d each)", total, want, out.Budget)
	}
}

// The short form and JSON are the same recipe; what is wrong is named.
func TestParseRecipe(t *testing.T) {
	short, err := parseRecipe("snapkv window=8 + adakv alpha=0.5")
	if err != nil {
		t.Fatal(err)
	}
	long, err := parseRecipe(toJSON(t, policy.Recipe{
		Method: "snapkv", Knobs: map[string]float64{"window": 8},
		Wraps: []policy.Wrap{{Name: "adakv", Knobs: map[string]float64{"alpha": 0.5}}},
	}))
	if err != nil || toJSON(t, short) != toJSON(t, long) {
		t.Errorf("%+v, %+v, %v", short, long, err)
	}
	for text, want := range map[string]string{
		"": "missing", "snapkv + ": "missing", "snap": "snap", "snapkv window": "window", "snapkv window=0": "window",
		"adakv": "adakv", `{"method":"snapkv","more":1}`: "more", "snapkv widow=8": "widow",
	} {
		if _, err := parseRecipe(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The schema has every registered name once, and every knob's default lies where the schema allows it.
func TestSchema(t *testing.T) {
	s := run[map[string]any](t, "", "policy", "-schema")
	methods := s["oneOf"].([]any)
	wrappers := s["properties"].(map[string]any)["wraps"].(map[string]any)["items"].(map[string]any)["oneOf"].([]any)
	names := map[string]bool{}
	for _, m := range append(slices.Clone(methods), wrappers...) {
		properties := m.(map[string]any)["properties"].(map[string]any)
		key := "method"
		if properties["name"] != nil {
			key = "name"
		}
		names[properties[key].(map[string]any)["const"].(string)] = true
		for name, k := range properties["knobs"].(map[string]any)["properties"].(map[string]any) {
			knob := k.(map[string]any)
			if x := knob["default"].(float64); x < knob["minimum"].(float64) || x > knob["maximum"].(float64) || knob["description"] == "" {
				t.Errorf("%s: %v", name, knob)
			}
		}
	}
	for _, m := range policy.Methods() {
		if !names[m.Name] {
			t.Errorf("%s is missing", m.Name)
		}
	}
	if len(names) != len(methods)+len(wrappers) || len(wrappers) == 0 {
		t.Errorf("%d names of %d methods and %d wrappers", len(names), len(methods), len(wrappers))
	}
}

// The README's table of policies is that of the registry.
func TestReadmeTable(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(golden.Root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "\n"+readmeTable()+"\n") {
		t.Error("README.md has another table of policies than `lab policy -table` prints")
	}
}

package llama_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/ref"
	"kvlens/web/lab/golden"
)

// kept are the recipes under which tokens leave, with combinations whose kernels depend on each other.
func kept(t testing.TB) []named {
	out := evicting(t)
	for _, pair := range [][2]string{{"adakv", "cake"}, {"criticalkv", "cake"}, {"chunkkv", "cake"}, {"criticalkv", "random"}, {"chunkkv", "random"}, {"adakv", "expected"}, {"criticalkv", "tova"}} {
		out = append(out, named{pair[0] + "(" + pair[1] + ")", policy.Recipe{Method: pair[1], Wraps: []policy.Wrap{{Name: pair[0]}}}})
	}
	return out
}

// roundedLogits is how far logits may be from each other where keys and values were rounded to halves, now and then another way.
const roundedLogits = 5e-3

// What the device keeps of prompts and of short answers is what the host keeps, under every recipe, in both formats of
// pages, from budgets of half a list down to a few tokens.
func TestKeptOnGPU(t *testing.T) {
	if !onGPU {
		t.Skip("needs WebGPU: set KVLENS_GPU=1")
	}
	led := new(cache.Ledger)
	host := load(t, golden.TinyModel(t), ref.New(led), led)
	host.FixPace(7)
	device := exact(t, nil)
	ids, tables := words(90, 1), anyTables(host)
	for i, r := range kept(t) {
		t.Run(r.name, func(t *testing.T) {
			o := llama.SessionOptions{
				Recipe: r.Recipe, Tokens: 60, Share: []float64{0.25, 0.5, 0.15}[i%3], Tables: tables, F32: i%2 > 0, Parity: i%5 == 4,
			}
			want, got := session(t, host, o), session(t, device, o)
			both := func(what string, f func(s *llama.Session) error) bool {
				a, b := f(want), f(got)
				if a != nil || b != nil { // published budgets may be more than the cap
					if !o.Parity || a == nil || b == nil || a.Error() != b.Error() {
						t.Fatalf("%s: %v, want %v", what, b, a)
					}
					return false
				}
				sameKept(t, what, want, got)
				for i, x := range want.Logits() {
					if y := got.Logits()[i]; math.Abs(float64(x-y)) > roundedLogits {
						t.Fatalf("%s: logit %d is %v, want %v", what, i, y, x)
					}
				}
				return true
			}
			for i, part := range [][]int32{ids[:40], ids[40:58], ids[58:90]} {
				if !both(fmt.Sprintf("prompt %d", i), func(s *llama.Session) error { return s.Prefill(ctx, part, nil) }) {
					return
				}
				if plan(t, r).Score.Kind == policy.ScoreNorm {
					return // keys of the same word are as long, but for rounding: near ties
				}
				for _, id := range part[:3] {
					if !both(fmt.Sprintf("token %d after prompt %d", id, i), func(s *llama.Session) error { return s.Decode(ctx, id) }) {
						return
					}
				}
			}
		})
	}
}

// sameKept compares what two sessions hold.
func sameKept(t *testing.T, what string, want, got *llama.Session) {
	t.Helper()
	x, y := held(want), held(got)
	for l := range x {
		for h := range x[l] {
			if !slices.Equal(x[l][h], y[l][h]) {
				t.Errorf("%s: layer %d, KV head %d keeps %v, want %v", what, l, h, y[l][h], x[l][h])
			}
		}
	}
}

// Where a longer text moves room from some lists of a layer to others, pages come free while what leaves has yet to join
// the compensation tokens: it joins once, with the keys and values that it had.
func TestPagesForLongerTextOnGPU(t *testing.T) {
	if !onGPU {
		t.Skip("needs WebGPU: set KVLENS_GPU=1")
	}
	led := new(cache.Ledger)
	host := load(t, golden.TinyModel(t), ref.New(led), led)
	host.FixPace(7)
	o := llama.SessionOptions{
		Recipe: policy.Recipe{Method: "razor", Knobs: map[string]float64{"local": 8}},
		Tokens: 20, Budget: 12, Tables: anyTables(host), F32: true,
	}
	want, got := session(t, host, o), session(t, exact(t, nil), o)
	for i, n := range []int{18, 70, 116} {
		before := held(want)[0]
		for _, s := range []*llama.Session{want, got} {
			prefill(t, s, words(n, i+1))
			forced(t, s, words(2, 9))
		}
		sameKept(t, "text", want, got)
		golden.Close(t, "logits", got.Logits(), want.Logits(), 1e-4, rel)
		var grew []int
		for h, list := range held(want)[0] {
			grew = append(grew, len(list)-len(before[h]))
		}
		if i == 1 && (slices.Min(grew) >= 0 || slices.Max(grew) <= 0) {
			t.Errorf("lists of layer 0 grew by %d tokens", grew)
		}
	}
}

// Published arithmetic may leave a layer nothing: then its lists are empty, and the answer's first token joins them.
func TestEmptyListsOnGPU(t *testing.T) {
	if !onGPU {
		t.Skip("needs WebGPU: set KVLENS_GPU=1")
	}
	led := new(cache.Ledger)
	host := load(t, golden.TinyModel(t), ref.New(led), led)
	host.FixPace(7)
	o := llama.SessionOptions{Budget: 2, Tokens: 40, F32: true, Plan: &policy.Plan{
		Score:  policy.Score{Kind: policy.ScoreIndicator, Window: 4, Gamma: 200},
		Layers: policy.Layers{Kind: policy.LayersCake, Tau1: 0.1, Tau2: 0.1, Reference: true},
		Decode: policy.Decode{Kind: policy.DecodeRow, Recent: 1},
	}}
	want, got := session(t, host, o), session(t, exact(t, nil), o)
	for _, s := range []*llama.Session{want, got} {
		prefill(t, s, words(30, 1))
	}
	empty := slices.ContainsFunc(held(want), func(l [][]int32) bool { return len(l[0])+len(l[1]) == 0 })
	if sameKept(t, "prompt", want, got); !empty {
		t.Errorf("no layer is empty: %v", held(want))
	}
	for _, s := range []*llama.Session{want, got} {
		forced(t, s, words(3, 2))
	}
	sameKept(t, "answer", want, got)
	golden.Close(t, "logits", got.Logits(), want.Logits(), 1e-4, rel)
}

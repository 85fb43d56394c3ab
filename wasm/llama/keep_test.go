package llama_test

import (
	"fmt"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/ref"
	"kvlens/web/lab/golden"
)

// What the device keeps of a prompt, and of a second one, is what the host keeps, under every registered recipe.
func TestKeptOnGPU(t *testing.T) {
	if !onGPU {
		t.Skip("needs WebGPU: set KVLENS_GPU=1")
	}
	led := new(cache.Ledger)
	host := load(t, golden.TeachModel(t), ref.New(led), led)
	device := ownTeach(t)
	ids := prose(t, 80)
	tables := anyTables(host)
	for _, r := range recipes() {
		if plan(t, r).Decode.Kind == policy.DecodeStop {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			o := llama.SessionOptions{Recipe: r.Recipe, Tokens: len(ids), Share: 0.25, Tables: tables}
			want, got := session(t, host, o), session(t, device, o)
			for i, part := range [][]int32{ids[:60], ids[60:]} {
				prefill(t, want, part)
				prefill(t, got, part)
				sameKept(t, fmt.Sprintf("prompt %d", i), want, got)
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

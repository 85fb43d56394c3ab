package llama_test

import (
	"fmt"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/ref"
	"kvlens/wasm/sample"
	"kvlens/web/lab/golden"
)

// An answer on the device leaves what it leaves on the host, under every recipe: the same tokens are kept after it, the
// same left at every step, and the logits are the same but for rounding.
func TestAnswersOnGPU(t *testing.T) {
	if !onGPU {
		t.Skip("needs WebGPU: set KVLENS_GPU=1")
	}
	const prompt, tokens = 60, 24
	led := new(cache.Ledger)
	host := load(t, golden.TeachModel(t), ref.New(led), led)
	device := ownTeach(t)
	ids := prose(t, prompt+tokens)
	for _, r := range recipes() {
		if r.Method == "full" {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			o := llama.SessionOptions{Recipe: r.Recipe, F32: true, Tokens: len(ids), Share: 0.25, Tables: anyTables(host)}
			if plan(t, r).Decode.Kind == policy.DecodeStop {
				o.Share, o.Tokens = 1, 2*len(ids)
			}
			want, got := session(t, host, o), session(t, device, o)
			prefill(t, want, ids[:prompt])
			prefill(t, got, ids[:prompt])
			if !equalSets(held(want), held(got)) {
				t.Skip("another choice in the prompt, which TestKeptOnGPU judges")
			}
			left := [2][][]llama.Eviction{}
			for i, s := range []*llama.Session{want, got} {
				_, err := s.Generate(ctx, llama.GenerateOptions{
					Max: tokens + 1, Forced: ids[prompt:], Sampler: sample.New(sample.Params{}), Evictions: true,
				}, func(t llama.Token) error {
					left[i] = append(left[i], t.Evicted)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			for step, x := range left[0] {
				if y := left[1][step]; fmt.Sprint(x) != fmt.Sprint(y) {
					t.Fatalf("step %d: %v left, want %v", step, y, x)
				}
			}
			sameKept(t, "answer", want, got)
			golden.Close(t, "logits after the answer", got.Logits(), want.Logits(), logitAbs, rel)
		})
	}
}

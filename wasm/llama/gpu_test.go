package llama_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/gpu"
	"kvlens/wasm/kernel"
	"kvlens/wasm/llama"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
	"kvlens/web/lab/golden"
)

// onGPU says that the tests run on WebGPU: natively with a Vulkan driver, or in a browser.
var onGPU = os.Getenv("KVLENS_GPU") == "1"

// library holds the kernels of a device that all tests share.
var library = sync.OnceValues(func() (*kernel.Library, error) {
	dev, err := gpu.Open(context.Background(), gpu.Options{Fallback: true})
	if err != nil {
		return nil, err
	}
	return kernel.NewLibrary(dev), nil
})

func gpuBackend(t testing.TB, led *cache.Ledger) step.Backend {
	t.Helper()
	lib, err := library()
	if err != nil {
		t.Fatal(err)
	}
	return lib.Backend(led)
}

// tooSlowForSoftware skips what a software GPU would take minutes for.
func tooSlowForSoftware(t *testing.T) {
	t.Helper()
	if onGPU {
		t.Skip("SmolLM2 takes a software GPU minutes here: it runs two short prompts")
	}
}

// The recorded decode gives the greedy tokens of the reference path, up to the first near tie.
func TestReplayEqualsReference(t *testing.T) {
	if !onGPU {
		t.Skip("needs WebGPU: set KVLENS_GPU=1")
	}
	const tokens = 256
	led := new(cache.Ledger)
	m := open(t, golden.TeachModel(t), ref.New(led), led)
	t.Cleanup(m.Close)
	prompts, _ := golden.Teach(t)
	o := llama.SessionOptions{F32: true, Tokens: len(prompts[0].IDs) + tokens}
	got, want := session(t, teach(t), o), session(t, m, o)
	prefill(t, got, prompts[0].IDs)
	prefill(t, want, prompts[0].IDs)
	answer := greedy(t, got, tokens, -1)
	for i, id := range answer {
		logits := want.Logits()
		best := int32(0)
		for j := range logits {
			if logits[j] > logits[best] {
				best = int32(j)
			}
		}
		sorted := slices.Sorted(slices.Values(logits))
		if margin := sorted[len(sorted)-1] - sorted[len(sorted)-2]; margin < clearMargin {
			t.Logf("%d tokens are equal, then a margin of %g", i, margin)
			return
		}
		if id != best {
			t.Fatalf("token %d is %d, want %d", i, id, best)
		}
		if err := want.Decode(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	if len(answer) != tokens {
		t.Errorf("%d tokens, want %d", len(answer), tokens)
	}
}

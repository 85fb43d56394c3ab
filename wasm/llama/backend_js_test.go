package llama_test

import (
	"testing"

	"kvlens/cache"
	"kvlens/wasm/cpu"
	"kvlens/wasm/step"
)

func newBackend(t testing.TB, led *cache.Ledger) step.Backend {
	t.Helper()
	if onGPU {
		return gpuBackend(t, led)
	}
	b, err := cpu.New(led, cpu.Options{Float: true})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// longest keeps the tests in a browser to the short prompts.
const longest = 100

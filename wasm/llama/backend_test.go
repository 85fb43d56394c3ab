//go:build !js

package llama_test

import (
	"testing"

	"kvlens/cache"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
)

// newBackend is the reference path natively, in a browser the CPU path with float activations, and WebGPU where the
// tests run on it: the same tests hold all to the oracle.
func newBackend(t testing.TB, led *cache.Ledger) step.Backend {
	if onGPU {
		return gpuBackend(t, led)
	}
	return ref.New(led)
}

// longest is the number of tokens of the longest prompt that is tried.
const longest = 1 << 20

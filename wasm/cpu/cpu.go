// Package cpu is the browser's backend without a GPU: the orchestration of wasm/ref with its hot loops in the SIMD module
// of wasm/simd. Where SIMD is missing, and outside the browser, the loops are ref's.
package cpu

import (
	"kvlens/cache"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
)

// Options of the backend.
type Options struct {
	// Float keeps activations in float32, which meets the tolerances of the oracle. Otherwise the products with 4- and
	// 8-bit weights round activations to 16-bit integers in groups of 32, and are several times faster.
	Float bool
}

// New makes the backend. Its memory, scratch included, is in the ledger.
func New(led *cache.Ledger, o Options) (step.Backend, error) { return newBackend(led, o), nil }

// withoutSIMD is the backend with the loops of ref.
func withoutSIMD(led *cache.Ledger, why string) step.Backend {
	return ref.NewWith(led, ref.Float32Loops(), step.Info{Name: "cpu", Detail: why})
}

package ref_test

import (
	"testing"

	"kvlens/cache"
	"kvlens/wasm/ref"
	"kvlens/wasm/ref/reftest"
	"kvlens/wasm/step"
)

func TestBackend(t *testing.T) {
	reftest.Run(t, func(led *cache.Ledger) (step.Backend, error) { return ref.New(led), nil }, reftest.Float32)
}

// The oracle must have the properties too, and meet itself.
func TestOracle(t *testing.T) {
	reftest.Run(t, func(led *cache.Ledger) (step.Backend, error) { return ref.NewF64(led), nil }, reftest.Float32)
}

package kernel_test

import (
	"testing"

	"kvlens/cache"
	"kvlens/wasm/gpu/gputest"
	"kvlens/wasm/kernel"
	"kvlens/wasm/ref/reftest"
	"kvlens/wasm/step"
)

// The behavioural suite of all backends, on one device, so that pipelines are compiled once.
func TestPlain(t *testing.T) { testBackend(t, true) }

// The same with the variants that share work through workgroup memory.
func TestLanes(t *testing.T) { testBackend(t, false) }

func testBackend(t *testing.T, plain bool) {
	lib := kernel.NewLibrary(gputest.Open(t))
	lib.Plain = plain
	reftest.Run(t, func(led *cache.Ledger) (step.Backend, error) { return lib.Backend(led), nil }, reftest.Float32)
}

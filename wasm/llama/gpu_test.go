package llama_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/gpu"
	"kvlens/wasm/kernel"
	"kvlens/wasm/step"
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

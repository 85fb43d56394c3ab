package kernel_test

import (
	"os"
	"strings"
	"testing"

	"kvlens/cache"
	"kvlens/shaders"
	"kvlens/wasm/gpu"
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
	lib := newLibrary(gputest.Open(t))
	lib.Plain = plain
	reftest.Run(t, func(led *cache.Ledger) (step.Backend, error) { return lib.Backend(led), nil }, reftest.Float32)
}

// newLibrary is a library of the embedded shaders; KVLENS_MUTANT=NAME=PATH replaces one file, to see which test notices.
func newLibrary(dev gpu.Device) *kernel.Library {
	lib := kernel.NewLibrary(dev)
	lib.Subgroups = false // here is the baseline; fast_js_test.go tries them
	name, path, ok := strings.Cut(os.Getenv("KVLENS_MUTANT"), "=")
	if ok {
		lib.Source = func(file string) ([]byte, error) {
			if file == name {
				return os.ReadFile(path)
			}
			return shaders.Text(file)
		}
	}
	return lib
}

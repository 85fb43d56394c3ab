// Package gputest opens devices for tests, and makes devices that fail.
package gputest

import (
	"context"
	"os"
	"testing"

	"kvlens/wasm/gpu"
)

// Open opens a device, software or not, for tests that run where KVLENS_GPU=1 is set: natively on Vulkan and in a worker
// of Chromium. Elsewhere the test is skipped. At the test's end nothing of it may be left on the device.
func Open(t testing.TB) gpu.Device { return OpenWith(t, gpu.Options{Fallback: true}) }

// OpenWith is Open with options.
func OpenWith(t testing.TB, o gpu.Options) gpu.Device {
	t.Helper()
	if os.Getenv("KVLENS_GPU") != "1" {
		t.Skip("SKIPPED: needs WebGPU: set KVLENS_GPU=1")
	}
	if os.Getenv("XDG_RUNTIME_DIR") == "" {
		_ = os.Setenv("XDG_RUNTIME_DIR", os.TempDir()) // or the drivers complain of it, each time
	}
	d, err := gpu.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// Faulty is a device whose NewBuffer fails at the Nth call, counted from 1, as if memory had run out.
type Faulty struct {
	gpu.Device
	N int
}

// NewBuffer makes a buffer unless it is the Nth.
func (f *Faulty) NewBuffer(label string, size int64) (gpu.Buffer, error) {
	if f.N--; f.N == 0 {
		return 0, &gpu.MemoryError{Label: label, Size: size, Msg: "the test says so"}
	}
	return f.Device.NewBuffer(label, size)
}

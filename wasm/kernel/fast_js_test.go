package kernel_test

import (
	"context"
	"strings"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/gpu"
	"kvlens/wasm/gpu/gputest"
	"kvlens/wasm/kernel"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref"
	"kvlens/wasm/ref/reftest"
	"kvlens/wasm/step"
)

// The kernels of shaders/fast are tried here only: the compiler of native runs is too old for them.

// fast opens a device that has the features of every fast kernel.
func fast(t *testing.T) gpu.Device {
	t.Helper()
	dev := gputest.Open(t)
	lib := kernel.NewLibrary(dev)
	lib.AskInteger()
	if !lib.Subgroups || !lib.Integer {
		t.Fatalf("features %v: no subgroups, or no dot products of bytes", dev.Info().Features)
	}
	i := dev.Info()
	t.Logf("subgroups of %d to %d threads", i.SubgroupMin, i.SubgroupMax)
	return dev
}

// The behavioural suite of all backends with subgroups, as exact as without.
func TestSubgroups(t *testing.T) {
	lib := newLibrary(fast(t))
	lib.Plain, lib.Subgroups = false, true
	reftest.Run(t, func(led *cache.Ledger) (step.Backend, error) { return lib.Backend(led), nil }, reftest.Float32)
}

func TestFastSelfTest(t *testing.T) {
	dev := fast(t)
	for integer, layouts := range map[bool][]quant.Layout{false: allLayouts, true: {quant.Layout4, quant.Layout8}} {
		lib := newLibrary(dev)
		lib.Plain, lib.Subgroups, lib.Integer = false, true, integer
		err := lib.SelfTest(context.Background(), ref.NewF64(new(cache.Ledger)), layouts...)
		if err != nil || lib.Refused != nil {
			t.Errorf("integer %v: %v, %v", integer, err, lib.Refused)
		}
		want := "subgroups"
		if integer {
			want = "activations in 8 bits"
		}
		if d := lib.Backend(new(cache.Ledger)).Info().Detail; !strings.Contains(d, want) {
			t.Errorf("integer %v: details %q", integer, d)
		}
	}
}

// A fast kernel that computes something else, or does not compile, makes way for the baseline, and the backend says so.
func TestFastGivesWay(t *testing.T) {
	dev := fast(t)
	for _, c := range []struct {
		integer  bool
		from, to string
	}{
		{false, "let size = subgroupAdd(1u);", "let size = GROUP;"},
		{false, "subgroupAdd(acc[i])", "subgroupMax(acc[i])"},
		{false, "enable subgroups;", ""},
		{true, "w.scale * scale_of[at].x", "scale_of[at].x"},
		{true, "pack4xI8", "pack4xU9"},
	} {
		lib := kernel.NewLibrary(&spoiled{dev, "matmul", c.from, c.to})
		lib.Plain, lib.Integer = false, c.integer
		if err := lib.SelfTest(context.Background(), ref.NewF64(new(cache.Ledger)), quant.Layout8); err != nil {
			t.Errorf("%s: %v", c.to, err)
		}
		detail := lib.Backend(new(cache.Ledger)).Info().Detail
		if lib.Refused == nil || lib.Subgroups || lib.Integer || !strings.Contains(detail, lib.Refused.Error()) {
			t.Errorf("%s: refused with %v; details %q", c.to, lib.Refused, detail)
		}
	}
}

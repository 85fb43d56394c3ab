package kernel_test

import (
	"context"
	"errors"
	"math/rand/v2"
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

// modest is a device that claims smaller limits, and counts what is asked of it.
type modest struct {
	gpu.Device
	limits     gpu.Limits
	dispatches int // of the last recording
	widest     uint32
}

func (d *modest) Info() gpu.Info {
	i := d.Device.Info()
	i.Limits = d.limits
	return i
}

func (d *modest) Run(list []gpu.Dispatch) error {
	for _, x := range list {
		d.widest = max(d.widest, x.X, x.Y, x.Z)
	}
	return d.Device.Run(list)
}

func (d *modest) Record(list []gpu.Dispatch, read gpu.Binding) (gpu.Recording, error) {
	d.dispatches = len(list)
	return d.Device.Record(list, read)
}

// Matrices that no binding reaches are split by rows, and grids that are too wide for x go on in y. The size of a model
// here is to the limits what a large vocabulary is to a device's.
func TestLimits(t *testing.T) {
	t.Run("bindings", func(t *testing.T) { testLimits(t, 3000, 3) })
	// 500 rows are 8 workgroups of threads, 4 × 2: x and y differ, so that neither can stand for the other.
	t.Run("workgroups", func(t *testing.T) { testLimits(t, 1<<20, 4) })
}

func testLimits(t *testing.T, binding int64, workgroups int) {
	dev := &modest{Device: gputest.Open(t)}
	dev.limits = dev.Device.Info().Limits
	dev.limits.MaxBinding, dev.limits.Workgroups = binding, workgroups
	lib := newLibrary(dev)
	shape := step.Shape{Layers: 1, Hidden: 64, Heads: 2, KVHeads: 1, HeadDim: 32, FFN: 96, Vocab: 500, RotDim: 32, Eps: 1e-5}
	for _, layout := range []quant.Layout{quant.LayoutF16, quant.Layout4, quant.Layout8} {
		m := reftest.NewModel(rand.New(rand.NewPCG(5, 6)), shape, 2, layout)
		var logits [2][]float32
		for i, b := range []step.Backend{lib.Backend(new(cache.Ledger)), ref.NewF64(new(cache.Ledger))} {
			x := reftest.Load(t, b, m)
			// The last ids are in the last part of the table.
			a := step.Args{IDs: []int32{3, 499}, To: 2, Logits: step.AllRows}
			if err := errors.Join(x.Grow(2, 2), x.Run(context.Background(), &a, 0, 2), x.Run(context.Background(), &a, 7, 9)); err != nil {
				t.Fatal(err)
			}
			logits[i] = make([]float32, 2*shape.Vocab)
			if err := errors.Join(b.Read(x.Scratch(step.Logits), 0, quant.Bytes(logits[i])), b.Close()); err != nil {
				t.Fatal(err)
			}
		}
		reftest.Compare(t, layout.String(), logits[0], logits[1], reftest.Float32)
	}
	if dev.widest > uint32(workgroups) {
		t.Errorf("a grid of %d workgroups in one dimension", dev.widest)
	}
}

// An arena is bound whole, so that the device's binding limits it; it is refused by name.
func TestArenaLimit(t *testing.T) {
	dev := &modest{Device: gputest.Open(t)}
	dev.limits = dev.Device.Info().Limits
	dev.limits.MaxBinding = 4096
	led := new(cache.Ledger)
	b := newLibrary(dev).Backend(led)
	if _, err := b.Alloc(cache.Free, "arena", 4112); !errors.Is(err, step.ErrMemory) {
		t.Errorf("an arena above the limit: %v", err)
	}
	if buf, err := b.Alloc(cache.Free, "arena", 4096); err != nil || led.Rows()[cache.Free].Allocated != 4096 {
		t.Errorf("an arena at the limit: %v, %d bytes in the ledger", err, led.Rows()[cache.Free].Allocated)
	} else {
		b.Free(buf)
	}
}

// A step of a model whose layers have one layout is six dispatches a layer, and six more at most.
func TestDispatches(t *testing.T) {
	dev := &modest{Device: gputest.Open(t)}
	dev.limits = dev.Device.Info().Limits
	m := reftest.NewModel(rand.New(rand.NewPCG(2, 3)), small, 8, quant.Layout8)
	r := newRig(t, newLibrary(dev), m, 8, cache.F16)
	r.must(r.exec.(step.Stepper).Begin(&step.Answer{Cache: r.cache, Arena: r.arena, Pending: 5}))
	if most := 6*small.Layers + 6; dev.dispatches > most || dev.dispatches < small.Layers {
		t.Errorf("%d dispatches a step, want at most %d", dev.dispatches, most)
	}
}

// Memory that runs out at any allocation is an error of its own, and leaves nothing on the device or in the ledger.
func TestOutOfMemory(t *testing.T) {
	dev := gputest.Open(t)
	m := reftest.NewModel(rand.New(rand.NewPCG(2, 3)), small, 4, quant.Layout8)
	buffers, bytes := dev.Live()
	for n := 1; ; n++ {
		led := new(cache.Ledger)
		faulty := &gputest.Faulty{Device: dev, N: n}
		b := newLibrary(faulty).Backend(led)
		err := allocate(b, led, m)
		if closed := b.Close(); closed != nil {
			t.Fatal(closed)
		}
		if left, size := dev.Live(); left != buffers || size != bytes || led.Total().Allocated != 0 {
			t.Fatalf("allocation %d: %d buffers of %d bytes are left, %d in the ledger", n, left-buffers, size-bytes, led.Total().Allocated)
		}
		if err == nil {
			if n < 12 {
				t.Errorf("only %d allocations", n-1)
			}
			return
		}
		if !errors.Is(err, step.ErrMemory) {
			t.Errorf("allocation %d: %v", n, err)
		}
	}
}

// allocate does everything that allocates.
func allocate(b *kernel.Backend, led *cache.Ledger, m *reftest.Model) error {
	weights, err := b.Alloc(cache.Weights, "weights", int64(len(m.Data)))
	if err != nil {
		return err
	}
	p := reftest.Located(m, weights)
	if p.Rope, err = b.Alloc(cache.Aux, "RoPE", int64(len(m.Rope))*4); err != nil {
		return err
	}
	x, err := b.Compile(&p)
	if err != nil {
		return err
	}
	if err := x.Grow(4, 1); err != nil {
		return err
	}
	geo := cache.Geometry{Layers: small.Layers, KVHeads: small.KVHeads, HeadDim: small.HeadDim, PageK: 8, PageV: 8}
	arena, err := b.Alloc(cache.Free, "arena", geo.FullBytes(8))
	if err != nil {
		return err
	}
	c, err := cache.New(geo, geo.FullBytes(8), led)
	if err != nil {
		return err
	}
	defer c.Close()
	a := step.Args{Cache: c, Arena: arena, IDs: []int32{1, 2}, To: 2}
	return x.Run(context.Background(), &a, 0, 3)
}

package choose

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"kvlens/cache"
	"kvlens/wasm/engine/core"
	"kvlens/wasm/gpu"
	"kvlens/wasm/gpu/gputest"
	"kvlens/wasm/kernel"
	"kvlens/wasm/proto"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
)

var ctx = context.Background()

// spoiled is a device whose compiler takes a sum for a product.
type spoiled struct{ gpu.Device }

func (d spoiled) Pipelines(ctx context.Context, list []gpu.Shader, progress func(done, total int)) ([]gpu.Pipeline, error) {
	for i := range list {
		list[i].Code = strings.Replace(list[i].Code, "silu(gate[t]) * sums[t]", "silu(gate[t]) + sums[t]", 1)
	}
	return d.Device.Pipelines(ctx, list, progress)
}

// A device is used if its kernels give what the reference gives, and closed with its backend or if they do not.
func TestChooseWithADevice(t *testing.T) {
	for _, c := range []struct {
		wrap      func(gpu.Device) gpu.Device
		name, why string
	}{
		{func(d gpu.Device) gpu.Device { return d }, "webgpu", proto.WhyTested},
		{func(d gpu.Device) gpu.Device { return spoiled{d} }, "ref", proto.WhySelfTest},
	} {
		dev := gputest.Open(t)
		chooser := Chooser{
			Open: func(context.Context, gpu.Options) (gpu.Device, error) { return c.wrap(dev), nil },
			CPU:  func(led *cache.Ledger, _ bool) (step.Backend, error) { return ref.New(led), nil },
		}
		led := new(cache.Ledger)
		b, why, err := chooser.Choose(ctx, core.Wish{Layouts: []quant.Layout{quant.Layout8}}, led)
		if err != nil || b.Info().Name != c.name || why != c.why {
			t.Fatalf("backend %s, reason %q, %v; want %s, %q", b.Info().Name, why, err, c.name, c.why)
		}
		if n, bytes := dev.Live(); led.Total().Allocated != bytes || bytes > gpu.StagingBytes {
			t.Errorf("the self-test leaves %d buffers of %d bytes, %d in the ledger", n, bytes, led.Total().Allocated)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if dev.LostReason() == "" {
			t.Errorf("%s: the device is still open", c.name)
		}
	}
}

// Activations in 8 bits are there for those who ask for them; where the device cannot, the details say so.
func TestChooseIntegers(t *testing.T) {
	dev := gputest.Open(t)
	chooser := Chooser{Open: func(context.Context, gpu.Options) (gpu.Device, error) { return dev, nil }}
	b, why, err := chooser.Choose(ctx, core.Wish{Backend: integer, Layouts: []quant.Layout{quant.Layout8}}, new(cache.Ledger))
	if err != nil || why != proto.WhyAsked {
		t.Fatalf("reason %q, %v", why, err)
	}
	want := "no dot products of bytes"
	if slices.Contains(dev.Info().Features, "packed_4x8_integer_dot_product") {
		want = "activations in 8 bits"
	}
	if d := b.Info().Detail; !strings.Contains(d, want) {
		t.Errorf("details %q, want %q", d, want)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// stuck is a device whose compiler never ends.
type stuck struct{ gpu.Device }

func (d stuck) Pipelines(context.Context, []gpu.Shader, func(done, total int)) ([]gpu.Pipeline, error) {
	<-d.Lost()
	return nil, &gpu.LostError{}
}

func TestChooseWithAStuckDevice(t *testing.T) {
	dev := gputest.Open(t)
	chooser := Chooser{
		Open: func(context.Context, gpu.Options) (gpu.Device, error) { return stuck{dev}, nil },
		CPU:  func(led *cache.Ledger, _ bool) (step.Backend, error) { return ref.New(led), nil },
		Test: time.Millisecond,
	}
	_, why, err := chooser.Choose(ctx, core.Wish{Layouts: []quant.Layout{quant.Layout8}}, new(cache.Ledger))
	if err != nil || why != proto.WhySilent {
		t.Errorf("reason %q, %v", why, err)
	}
}

// absent is a platform without a device.
func absent(reason string) func(context.Context, gpu.Options) (gpu.Device, error) {
	return func(context.Context, gpu.Options) (gpu.Device, error) { return nil, &gpu.AbsentError{Reason: reason} }
}

func TestChooseWithoutADevice(t *testing.T) {
	for _, why := range []string{
		gpu.NoBuild, gpu.NoWebGPU, gpu.NoAdapter, gpu.Software, gpu.Silent, gpu.NoDevice,
	} {
		c := Chooser{Open: absent(why), CPU: func(led *cache.Ledger, _ bool) (step.Backend, error) { return ref.New(led), nil }}
		for wish, want := range map[string]string{"": why, "cpu": proto.WhyAsked, "ref": proto.WhyAsked} {
			b, got, err := c.Choose(ctx, core.Wish{Backend: wish}, new(cache.Ledger))
			if err != nil || got != want || b.Info().Name != "ref" {
				t.Errorf("wish %q without a device (%s): reason %q, %v; want %q", wish, why, got, err, want)
			}
		}
		_, _, err := c.Choose(ctx, core.Wish{Backend: "webgpu"}, new(cache.Ledger))
		var failure proto.Failure
		if !errors.As(err, &failure) || failure.Code != proto.CodeBackend || failure.Args[1] != why {
			t.Errorf("WebGPU, insisted on, without a device: %v", err)
		}
	}
	if _, _, err := (&Chooser{}).Choose(ctx, core.Wish{Backend: "abacus"}, nil); err == nil {
		t.Error("an unknown backend gives no error")
	}
}

// Every reason of a missing device is one that the page knows.
func TestReasons(t *testing.T) {
	want := map[error]string{
		step.ErrMemory:          proto.WhyMemory,
		errSilent:               proto.WhySilent,
		&kernel.SelfTestError{}: proto.WhySelfTest,
		&gpu.ShaderError{}:      proto.WhySelfTest,
		errors.New("a slip"):    proto.WhySelfTest,
	}
	for err, why := range want {
		if got := reason(err); got != why {
			t.Errorf("%v: %s, want %s", err, got, why)
		}
	}
}

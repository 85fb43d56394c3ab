package choose

import (
	"context"
	"errors"
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

var allTypes = []quant.Type{quant.F32, quant.F16, quant.Q4_0, quant.Q4_1, quant.Q8_0}

// spoiled is a backend whose reads are off.
type spoiled struct {
	step.Backend
	after int // reads that are right
	by    float32
}

func (s *spoiled) Read(src step.Buffer, off int64, dst []byte) error {
	err := s.Backend.Read(src, off, dst)
	if s.after--; s.after < 0 {
		quant.Float32s(dst)[0] += s.by
	}
	return err
}

func TestSelfTestOfTheReference(t *testing.T) {
	if err := SelfTest(ctx, ref.NewF64(new(cache.Ledger)), allTypes); err != nil {
		t.Error(err)
	}
	zero := float32(0)
	for _, by := range []float32{0.01, 1, zero / zero} {
		for _, after := range []int{0, prompt, prompt + 2} { // in the prompt, in the token after it, in the answer
			err := SelfTest(ctx, &spoiled{ref.New(new(cache.Ledger)), after, by}, allTypes[:1])
			var wrong *WrongError
			if !errors.As(err, &wrong) {
				t.Errorf("off by %g after %d reads: %v", by, after, err)
			}
		}
	}
}

// On a device, its kernels pass; the ledger ends where it began.
func TestSelfTestOfWebGPU(t *testing.T) {
	dev := gputest.Open(t)
	for _, plain := range []bool{true, false} {
		lib := kernel.NewLibrary(dev)
		lib.Plain = plain
		led := new(cache.Ledger)
		b := lib.Backend(led)
		begin := time.Now()
		if err := SelfTest(ctx, b, allTypes); err != nil {
			t.Error(err)
		}
		t.Logf("plain %v: %v", plain, time.Since(begin))
		if err := b.Close(); err != nil {
			t.Error(err)
		}
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
		step.ErrMemory:       proto.WhyMemory,
		errSilent:            proto.WhySilent,
		&WrongError{}:        proto.WhySelfTest,
		&gpu.ShaderError{}:   proto.WhySelfTest,
		errors.New("a slip"): proto.WhySelfTest,
	}
	for err, why := range want {
		if got := reason(err); got != why {
			t.Errorf("%v: %s, want %s", err, got, why)
		}
	}
}

// Package choose finds the backend that a model runs on: WebGPU where there is a real adapter whose kernels give what
// the reference path gives, else the CPU path, with the reason.
package choose

import (
	"context"
	"errors"
	"time"

	"kvlens/cache"
	"kvlens/wasm/engine/core"
	"kvlens/wasm/gpu"
	"kvlens/wasm/kernel"
	"kvlens/wasm/proto"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
)

// Chooser is where backends come from.
type Chooser struct {
	Open func(context.Context, gpu.Options) (gpu.Device, error)
	CPU  func(led *cache.Ledger, float bool) (step.Backend, error)
	// Answer is how long the platform may take to come up with an adapter, and again with a device; Test how long the
	// self-test may take. A device that takes longer counts as silent. 0 means 5 seconds and a minute, or five minutes
	// on a software adapter.
	Answer, Test time.Duration
}

// Choose makes the backend that is wished for and says why it is this one. If it cannot be had, the error is a
// proto.Failure with the reason; without a wish there is always one.
func (c *Chooser) Choose(ctx context.Context, w core.Wish, led *cache.Ledger) (step.Backend, string, error) {
	switch w.Backend {
	case "ref":
		return ref.New(led), proto.WhyAsked, nil
	case "cpu":
		b, err := c.CPU(led, w.Float)
		return b, proto.WhyAsked, err
	case "webgpu", integer:
		b, err := c.webgpu(ctx, w, led, true)
		if err == nil || ctx.Err() != nil {
			return b, proto.WhyAsked, err
		}
		return nil, "", proto.Failure{
			Code: proto.CodeBackend, Op: "backend", Msg: err.Error(), Args: []string{w.Backend, reason(err)},
		}
	case "":
		b, err := c.webgpu(ctx, w, led, false)
		if err == nil || ctx.Err() != nil {
			return b, proto.WhyTested, err
		}
		why := reason(err)
		b, err = c.CPU(led, w.Float)
		return b, why, err
	}
	return nil, "", proto.Failure{
		Code: proto.CodeBadRequest, Op: "backend", Msg: "unknown backend", Args: []string{"backend"},
	}
}

// reason is the code for why WebGPU is not used.
func reason(err error) string {
	var absent *gpu.AbsentError
	switch {
	case errors.As(err, &absent):
		return absent.Reason
	case errors.Is(err, step.ErrMemory):
		return proto.WhyMemory
	case errors.Is(err, errSilent):
		return proto.WhySilent
	}
	return proto.WhySelfTest
}

// integer is the wish for WebGPU with activations in 8 bits.
const integer = "webgpu-int8"

var errSilent = errors.New("choose: the device does not answer")

// webgpu opens a device and tests it.
func (c *Chooser) webgpu(ctx context.Context, w core.Wish, led *cache.Ledger, fallback bool) (step.Backend, error) {
	dev, err := c.Open(ctx, gpu.Options{Fallback: fallback, Timeout: orElse(c.Answer, 5*time.Second)})
	if err != nil {
		return nil, err
	}
	lib := kernel.NewLibrary(dev)
	if w.Backend == integer {
		lib.AskInteger()
	}
	if err := c.test(ctx, dev, lib, w); err != nil {
		dev.Close()
		return nil, err
	}
	led.Add(cache.Staging, gpu.StagingBytes, gpu.StagingBytes) // the self-test has recorded steps
	return &backend{lib.Backend(led), dev, led}, nil
}

// test runs the self-test. A device that does not answer is abandoned, which ends what waits for it: only then can it be
// closed.
func (c *Chooser) test(ctx context.Context, dev gpu.Device, lib *kernel.Library, w core.Wish) error {
	limit := time.Minute
	if lib.Plain {
		limit *= 5
	}
	ctx, cancel := context.WithCancelCause(ctx) // a deadline would bring calendars and their formats into the engine
	defer cancel(nil)
	defer time.AfterFunc(orElse(c.Test, limit), func() { cancel(errSilent) }).Stop()
	ended := make(chan error, 1)
	go func() {
		ended <- lib.SelfTest(ctx, ref.New(new(cache.Ledger)), w.Layouts...)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		dev.Abandon("does not answer")
		select {
		case <-ended:
		case <-time.After(time.Second): // waits for something that no loss ends: better to close it beside that
		}
		return context.Cause(ctx)
	}
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// backend is a kernel backend that owns its device.
type backend struct {
	*kernel.Backend
	dev gpu.Device
	led *cache.Ledger
}

// Close frees all memory, and the device.
func (b *backend) Close() error {
	err := b.Backend.Close()
	b.dev.Close()
	b.led.Add(cache.Staging, -gpu.StagingBytes, -gpu.StagingBytes)
	return err
}

package main

import (
	"context"
	"syscall/js"
	"time"

	"kvlens/cache"
	"kvlens/wasm/cpu"
	"kvlens/wasm/jsutil"
	"kvlens/wasm/proto"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
)

// backend makes the backend that was asked for. The CPU path is the best there is in this build; the page is told why
// it is not the GPU.
func backend(ctx context.Context, name string, float bool, led *cache.Ledger) (step.Backend, string, error) {
	switch name {
	case "ref":
		return ref.New(led), proto.WhyAsked, nil
	case "cpu":
		b, err := cpu.New(led, cpu.Options{Float: float})
		return b, proto.WhyAsked, err
	case "":
		b, err := cpu.New(led, cpu.Options{Float: float})
		return b, whyNoGPU(ctx), err
	case "webgpu":
		return nil, "", proto.Failure{
			Code: proto.CodeBackend, Op: "backend", Msg: "this build has no GPU path",
			Args: []string{name, proto.WhyNotYet},
		}
	}
	return nil, "", proto.Failure{
		Code: proto.CodeBadRequest, Op: "backend", Msg: "unknown backend", Args: []string{"backend"},
	}
}

// whyNoGPU looks for a graphics adapter, so that the page can say what this machine has.
func whyNoGPU(ctx context.Context) string {
	gpu := js.Global().Get("navigator").Get("gpu")
	if gpu.IsUndefined() || gpu.IsNull() {
		return proto.WhyNoWebGPU
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	adapter, err := jsutil.Await(ctx, gpu.Call("requestAdapter"))
	switch {
	case err != nil || adapter.Type() != js.TypeObject:
		return proto.WhyNoAdapter
	case fallback(adapter):
		return proto.WhySoftware
	}
	return proto.WhyNotYet
}

// fallback reports a software adapter: a property of the adapter in older browsers, of its info in newer ones.
func fallback(adapter js.Value) bool {
	if adapter.Get("isFallbackAdapter").Truthy() {
		return true
	}
	info := adapter.Get("info")
	return info.Type() == js.TypeObject && info.Get("isFallbackAdapter").Truthy()
}

package main

import (
	"context"
	"syscall/js"

	"kvlens/cache"
	"kvlens/wasm/cpu"
	"kvlens/wasm/proto"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
)

// backend makes the backend that was asked for. The CPU path is the best there is in this build; the page is told why
// it is not the GPU. No adapter is asked for: that takes time, and where there is none the browser complains.
func backend(_ context.Context, name string, float bool, led *cache.Ledger) (step.Backend, string, error) {
	switch name {
	case "ref":
		return ref.New(led), proto.WhyAsked, nil
	case "cpu":
		b, err := cpu.New(led, cpu.Options{Float: float})
		return b, proto.WhyAsked, err
	case "":
		b, err := cpu.New(led, cpu.Options{Float: float})
		why := proto.WhyNotYet
		if !js.Global().Get("navigator").Get("gpu").Truthy() {
			why = proto.WhyNoWebGPU
		}
		return b, why, err
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

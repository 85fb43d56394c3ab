package main

import (
	"kvlens/cache"
	"kvlens/wasm/cpu"
	"kvlens/wasm/engine/choose"
	"kvlens/wasm/gpu"
	"kvlens/wasm/step"
)

// backends are what this worker can run a model on.
var backends = choose.Chooser{
	Open: gpu.Open,
	CPU: func(led *cache.Ledger, float bool) (step.Backend, error) {
		return cpu.New(led, cpu.Options{Float: float})
	},
}

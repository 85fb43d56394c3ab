package cpu_test

import (
	"testing"

	"kvlens/cache"
	"kvlens/wasm/cpu"
	"kvlens/wasm/ref/reftest"
	"kvlens/wasm/step"
)

// With float activations the backend is held to the oracle as the reference is. Natively it is the loops of ref.
func TestFloat(t *testing.T) {
	reftest.Run(t, open(cpu.Options{Float: true}), reftest.Float32)
}

// With integer activations each is off by up to half a step, 1/65,534 of the largest of its group of 32, random in sign:
// for outputs near 1 a standard deviation of about 4e-5, more behind a SiLU. That the products are exact but for this
// rounding is shown in wasm/simd.
func TestInteger(t *testing.T) {
	reftest.Run(t, open(cpu.Options{}), reftest.Tolerance{Abs: 4e-4, Rel: 2e-4})
}

// The backend says which loops it has.
func TestInfo(t *testing.T) {
	b, err := cpu.New(new(cache.Ledger), cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if info := b.Info(); info.Name != "cpu" || info.Detail == "" {
		t.Errorf("%+v", info)
	} else {
		t.Log(info.Detail)
	}
}

func open(o cpu.Options) reftest.Open {
	return func(led *cache.Ledger) (step.Backend, error) { return cpu.New(led, o) }
}

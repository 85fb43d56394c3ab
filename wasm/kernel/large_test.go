//go:build !js

package kernel_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/gpu"
	"kvlens/wasm/gpu/gputest"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref"
	"kvlens/wasm/ref/reftest"
	"kvlens/wasm/step"
)

// A table of 49,152 × 1,536 halves, 144 MiB, on a device with the specification's least limits, whose bindings end at
// 128 MiB: what TestLimits shows in small, at the size at which it happens.
func TestEmbeddingAboveTheBinding(t *testing.T) {
	dev := gputest.OpenWith(t, gpu.Options{Fallback: true, Minimal: true})
	shape := step.Shape{Layers: 1, Hidden: 1536, Heads: 1, KVHeads: 1, HeadDim: 32, FFN: 32, Vocab: 49152, RotDim: 32, Eps: 1e-5}
	if size := quant.LayoutF16.Size(shape.Vocab, shape.Hidden); size != 144<<20 || dev.Info().Limits.MaxBinding >= size {
		t.Fatalf("a table of %d bytes, bindings of %d", size, dev.Info().Limits.MaxBinding)
	}
	m := reftest.NewModel(rand.New(rand.NewPCG(7, 8)), shape, 1, quant.LayoutF16)
	var logits [2][]float32
	for i, b := range []step.Backend{newLibrary(dev).Backend(new(cache.Ledger)), ref.New(new(cache.Ledger))} {
		x := reftest.Load(t, b, m)
		a := step.Args{IDs: []int32{int32(shape.Vocab) - 1}, To: 1} // the last row lies beyond the first binding
		if err := errors.Join(x.Grow(1, 1), x.Run(context.Background(), &a, 0, 1), x.Run(context.Background(), &a, 7, 9)); err != nil {
			t.Fatal(err)
		}
		logits[i] = make([]float32, shape.Vocab)
		if err := errors.Join(b.Read(x.Scratch(step.Logits), 0, quant.Bytes(logits[i])), b.Close()); err != nil {
			t.Fatal(err)
		}
	}
	reftest.Compare(t, "logits", logits[0], logits[1], reftest.Float32)
}

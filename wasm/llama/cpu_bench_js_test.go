package llama_test

import (
	"testing"
	"time"

	"kvlens/cache"
	"kvlens/wasm/cpu"
	"kvlens/wasm/llama"
	"kvlens/wasm/quant"
	"kvlens/wasm/simd"
	"kvlens/wasm/weights"
	"kvlens/web/lab/golden"
)

// loadCPU loads a model for the CPU backend.
func loadCPU(t testing.TB, path string, o cpu.Options) *llama.Model {
	t.Helper()
	f, err := weights.OpenPath(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	led := new(cache.Ledger)
	b, err := cpu.New(led, o)
	if err != nil {
		t.Fatal(err)
	}
	m, err := llama.Load(ctx, f, b, llama.Options{Ledger: led})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// BenchmarkCPU reports tokens per second of both models: prefill of 128 tokens, decode at 32 and at 1,024 tokens of
// context. Each is the best of several short runs: what the machine can do, whatever else it does.
func BenchmarkCPU(b *testing.B) {
	for _, model := range []struct {
		name string
		path func(testing.TB) string
	}{{"teach", golden.TeachModel}, {"smollm2", golden.SmolLM2}} {
		b.Run(model.name, func(b *testing.B) {
			m := loadCPU(b, model.path(b), cpu.Options{})
			s, err := m.NewSession(llama.SessionOptions{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			ids := make([]int32, 1024)
			for i := range ids {
				ids[i] = int32(100 + i*7%1500)
			}
			prefill := func(n int) {
				s.Reset()
				if err := s.Prefill(ctx, ids[:n], nil); err != nil {
					b.Fatal(err)
				}
			}
			decode := func() {
				if err := s.Decode(ctx, 200); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				b.ReportMetric(best(8, 128, func() { prefill(128) }), "prefill-tokens/s")
				prefill(16)
				b.ReportMetric(best(40, 1, decode), "decode32-tokens/s")
				prefill(1000)
				b.ReportMetric(best(40, 1, decode), "decode1024-tokens/s")
				b.ReportMetric(ceiling(m.Config()), "ceiling-tokens/s")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// ceiling is how many tokens per second the products alone would allow, each done on the same weights over and over: one
// layer's products with 4-bit weights times the number of layers, and the head's with 8-bit weights, as SmolLM2 has them.
func ceiling(c llama.Config) float64 {
	query, key := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	product := func(layout quant.Layout, rows, cols int) func() {
		x, out, scratch := make([]float32, cols), make([]float32, rows), make([]float32, simd.ScratchFor(cols))
		data := make([]byte, layout.Size(rows, cols))
		off, _ := layout.Planes(rows, cols)
		acts := new(simd.Activations).Grow(1, cols)
		acts.Quantize(x, 1, cols)
		if layout == quant.Layout4 {
			return func() { simd.MatMul4(out, rows, data[:off], quant.Uint32s(data[off:]), acts, false, scratch) }
		}
		return func() { simd.MatMul8(out, rows, data[:off], quant.Uint16s(data[off:]), acts, false, scratch) }
	}
	seconds := 0.0
	for _, s := range []struct{ rows, cols int }{{query + 2*key, c.Hidden}, {c.Hidden, query}, {2 * c.FFN, c.Hidden}, {c.Hidden, c.FFN}} {
		f := product(quant.Layout4, s.rows, s.cols)
		seconds += 1 / best(20, 1, func() {
			for range c.Layers {
				f()
			}
		})
	}
	return 1 / (seconds + 1/best(20, 1, product(quant.Layout8, c.Vocab, c.Hidden)))
}

// best is the number of tokens per second in the fastest of some runs of f, which takes so many tokens.
func best(runs, tokens int, f func()) float64 {
	least := time.Hour
	for range runs {
		start := time.Now()
		f()
		least = min(least, time.Since(start))
	}
	return float64(tokens) / least.Seconds()
}

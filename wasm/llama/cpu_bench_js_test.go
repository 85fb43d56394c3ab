package llama_test

import (
	"testing"
	"time"

	"kvlens/cache"
	"kvlens/wasm/cpu"
	"kvlens/wasm/llama"
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
			decode := func(n int) {
				for range n {
					if err := s.Decode(ctx, 200); err != nil {
						b.Fatal(err)
					}
				}
			}
			for b.Loop() {
				b.ReportMetric(best(8, 128, func() { prefill(128) }), "prefill-tokens/s")
				prefill(16)
				b.ReportMetric(best(8, 4, func() { decode(4) }), "decode32-tokens/s")
				prefill(1000)
				b.ReportMetric(best(8, 4, func() { decode(4) }), "decode1024-tokens/s")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
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

package llama_test

import (
	"testing"

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
// context.
func BenchmarkCPU(b *testing.B) {
	for name, path := range map[string]func(testing.TB) string{"teach": golden.TeachModel, "smollm2": golden.SmolLM2} {
		m := loadCPU(b, path(b), cpu.Options{})
		s, err := m.NewSession(llama.SessionOptions{})
		if err != nil {
			b.Fatal(err)
		}
		ids := make([]int32, 1024)
		for i := range ids {
			ids[i] = int32(100 + i*7%1500)
		}
		fill := func(b *testing.B, n int) {
			s.Reset()
			if err := s.Prefill(ctx, ids[:n], nil); err != nil {
				b.Fatal(err)
			}
		}
		rate := func(b *testing.B, tokens int) {
			b.ReportMetric(float64(tokens*b.N)/b.Elapsed().Seconds(), "tokens/s")
			b.ReportMetric(0, "ns/op")
		}
		b.Run(name+"/prefill128", func(b *testing.B) {
			for b.Loop() {
				fill(b, 128)
			}
			rate(b, 128)
		})
		for _, context := range []string{"decode32", "decode1024"} {
			b.Run(name+"/"+context, func(b *testing.B) {
				n := map[string]int{"decode32": 24, "decode1024": 1016}[context]
				for b.Loop() {
					b.StopTimer()
					fill(b, n)
					b.StartTimer()
					for range 16 {
						if err := s.Decode(ctx, 200); err != nil {
							b.Fatal(err)
						}
					}
				}
				rate(b, 16)
			})
		}
	}
}

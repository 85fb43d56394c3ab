package capture

import (
	"context"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/llama"
	"kvlens/wasm/ref"
	"kvlens/wasm/weights"
	"kvlens/web/lab/golden"
)

// Attention computed from what was captured is the oracle's, in every layer and head.
func TestAttention(t *testing.T) {
	ctx := context.Background()
	f, err := weights.OpenPath(golden.TeachModel(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	led := new(cache.Ledger)
	b := ref.New(led)
	m, err := llama.Load(ctx, f, b, llama.Options{Ledger: led})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	prompts, _ := golden.Teach(t)
	c := m.Config()
	for _, p := range prompts {
		s, err := m.NewSession(llama.SessionOptions{Tokens: len(p.IDs), F32: true})
		if err != nil {
			t.Fatal(err)
		}
		layers := 0
		row := make([]float32, len(p.IDs))
		err = Prefill(ctx, s, &c, p.IDs, func(l *Layer) error {
			for h, want := range p.Attention[l.Index] {
				golden.Close(t, p.Name, l.Attention(row, l.Tokens-1, h), want, 1e-4, 0)
			}
			layers++
			return nil
		})
		if err != nil || layers != c.Layers {
			t.Errorf("%s: %d layers, %v", p.Name, layers, err)
		}
		s.Close()
	}
}

package policy

import (
	"math/rand/v2"
	"testing"
)

// What scoring and selecting costs one layer of SmolLM2 after a prompt of 1,024 tokens, by recipe.
func BenchmarkLayer(b *testing.B) {
	s := Shape{Layers: 30, Heads: 9, KVHeads: 3, HeadDim: 64}
	for _, r := range []Recipe{
		{Method: "snapkv"},
		{Method: "cake"},
		{Method: "compresskv"},
		{Method: "h2o"},
		{Method: "tova"},
		{Method: "knorm"},
		{Method: "keydiff"},
		{Method: "expected"},
		{Method: "snapkv", Wraps: []Wrap{{Name: "adakv"}}},
		{Method: "snapkv", Wraps: []Wrap{{Name: "chunkkv"}}},
		{Method: "snapkv", Wraps: []Wrap{{Name: "criticalkv"}}},
	} {
		name := r.Method
		for _, w := range r.Wraps {
			name = w.Name + "(" + name + ")"
		}
		b.Run(name, func(b *testing.B) {
			p, err := r.Plan()
			if err != nil {
				b.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 1))
			in := randomInput(rng, p, s, 0, 1024, false)
			run, err := NewRun(p, s, Budget{Tokens: 256, Reserve: 16, Prompt: 1100}, tablesOf(s, rng))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				run.Prompt(1024)
				if _, err := run.Layer(0, in, GoLoops); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package cpu_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/cpu"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref"
	"kvlens/wasm/ref/reftest"
	"kvlens/wasm/step"
)

// BenchmarkRecipes reports what scoring, selecting and storing take, in percent of the prefill that they join: one layer
// of SmolLM2, a prompt of 1,024 tokens, a quarter kept; and with the Go loops in place of SIMD, in percent of the same
// prefill. Each call takes the least time that it took in several runs.
func BenchmarkRecipes(b *testing.B) {
	simd := openLayer(b, func(led *cache.Ledger) (step.Backend, error) { return cpu.New(led, cpu.Options{}) })
	plain := openLayer(b, func(led *cache.Ledger) (step.Backend, error) { return ref.New(led), nil })
	full := simd.best(b, nil, 8)
	for _, r := range []policy.Recipe{
		{Method: "snapkv"},
		{Method: "cake"},
		{Method: "h2o"},
		{Method: "tova"},
		{Method: "knorm"},
		{Method: "keydiff"},
		{Method: "expected"},
		{Method: "streamingllm"},
		{Method: "snapkv", Wraps: []policy.Wrap{{Name: "criticalkv"}}},
	} {
		name := r.Method
		for _, w := range r.Wraps {
			name = w.Name + "(" + name + ")"
		}
		b.Run(name, func(b *testing.B) {
			plan, err := r.Plan()
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				b.ReportMetric(100*float64(simd.best(b, plan, 8))/float64(full), "%-of-prefill")
				b.ReportMetric(100*float64(plain.best(b, plan, 2))/float64(full), "%-with-go-loops")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// layer is a layer of SmolLM2's size on a backend, with random weights.
type layer struct {
	shape step.Shape
	b     step.Backend
	exec  step.Exec
	led   *cache.Ledger
	ids   []int32
}

const chunkRows = 64

func openLayer(b *testing.B, open reftest.Open) *layer {
	b.Helper()
	l := &layer{
		shape: step.Shape{
			Layers: 1, Hidden: 576, Heads: 9, KVHeads: 3, HeadDim: 64, FFN: 1536, Vocab: 64, RotDim: 64, Eps: 1e-5,
		},
		led: new(cache.Ledger), ids: make([]int32, 1024),
	}
	var err error
	if l.b, err = open(l.led); err != nil {
		b.Fatal(err)
	}
	m := reftest.NewModel(rand.New(rand.NewPCG(1, 2)), l.shape, chunkRows, quant.Layout4)
	for len(m.Rope) < len(l.ids)*l.shape.RotDim { // any angles will do
		m.Rope = append(m.Rope, m.Rope...)
	}
	l.exec = reftest.Load(b, l.b, m)
	if err := l.exec.Grow(len(l.ids), 1); err != nil {
		b.Fatal(err)
	}
	for i := range l.ids {
		l.ids[i] = int32(i % 64)
	}
	return l
}

// best is the least time of prefills: of all that Full does without a plan, else of what the plan adds to the attention
// and the products.
func (l *layer) best(b *testing.B, p *policy.Plan, times int) (sum time.Duration) {
	b.Helper()
	least := l.prefill(b, p)
	for range times - 1 {
		for i, took := range l.prefill(b, p) {
			least[i] = min(least[i], took)
		}
	}
	for _, took := range least {
		sum += took
	}
	return sum
}

func (l *layer) prefill(b *testing.B, p *policy.Plan) (took []time.Duration) {
	b.Helper()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	s := &l.shape
	geo := cache.Geometry{Layers: 1, KVHeads: s.KVHeads, HeadDim: s.HeadDim, Key: cache.F16, Value: cache.F16, PageK: 8, PageV: 8}
	size := geo.FullBytes(len(l.ids))
	arena, err := l.b.Alloc(cache.Free, "arena", size)
	must(err)
	defer l.b.Free(arena)
	c, err := cache.New(geo, size, l.led)
	must(err)
	defer c.Close()
	scorer := l.exec.(step.Scorer)
	must(scorer.Follow(p))
	defer func() { must(scorer.Follow(nil)) }()
	a := &step.Args{Cache: c, Arena: arena, IDs: l.ids}
	chunks := func(f func()) {
		for a.From = 0; a.From < len(l.ids); a.From = a.To {
			a.To = min(a.From+chunkRows, len(l.ids))
			f()
		}
	}
	run := func(from, to int) { must(l.exec.Run(context.Background(), a, from, to)) }
	count := func(f func()) {
		start := time.Now()
		f()
		took = append(took, time.Since(start))
	}
	chunks(func() { run(0, 1) })
	scorer.Begin(0)
	chunks(func() {
		if p == nil {
			count(func() { run(1, 2) })
			count(func() { run(2, 3) })
			count(func() { run(4, 7) })
		} else {
			run(1, 3)
			count(func() { must(scorer.Observe(a, 0)) })
		}
	})
	keep := make([][]int32, s.KVHeads)
	if p != nil {
		decide, err := policy.NewRun(p, policy.Shape{Layers: 1, Heads: s.Heads, KVHeads: s.KVHeads, HeadDim: s.HeadDim},
			policy.Budget{Tokens: 256, Reserve: 16, Prompt: 1100}, nil)
		must(err)
		var in *policy.Input
		count(func() { in, err = scorer.Input(a, 0) })
		must(err)
		count(func() {
			decide.Prompt(len(l.ids))
			keeps, err := decide.Layer(0, in, scorer.Loops())
			must(err)
			keep = keeps[len(keeps)-1].Heads
		})
	}
	count(func() {
		a.Slots = make([][]uint32, s.KVHeads)
		for h := range a.Slots {
			var positions []uint32
			for row := range l.ids {
				if p == nil {
					positions = append(positions, uint32(row))
				}
			}
			for _, row := range keep[h] {
				positions = append(positions, uint32(row))
			}
			slots, err := c.Put(0, h, positions)
			must(err)
			a.Slots[h] = make([]uint32, len(l.ids))
			for i := range a.Slots[h] {
				a.Slots[h][i] = cache.NoSlot
			}
			for i, pos := range positions {
				a.Slots[h][pos] = slots[i]
			}
		}
	})
	chunks(func() { count(func() { run(3, 4) }) })
	return took
}

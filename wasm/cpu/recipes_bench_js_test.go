package cpu_test

import (
	"context"
	"fmt"
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

// BenchmarkRows reports what a decode rule that looks at attention takes, in percent of a layer of a decoded token: one
// layer of SmolLM2, 256 and 1,024 tokens stored.
func BenchmarkRows(b *testing.B) {
	l := openLayer(b, func(led *cache.Ledger) (step.Backend, error) { return cpu.New(led, cpu.Options{}) })
	for _, n := range []int{256, 1024} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var part float64
			for b.Loop() {
				part = l.decoding(b, n)
			}
			b.ReportMetric(100*part, "%-of-decode")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// decoding is the time of Rows over that of the rest of a layer, after n tokens. The last one is decoded again and again.
func (l *layer) decoding(b *testing.B, n int) float64 {
	b.Helper()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	s := &l.shape
	geo := cache.Geometry{
		Layers: 1, KVHeads: s.KVHeads, HeadDim: s.HeadDim, Key: cache.F16, Value: cache.F16, PageK: 8, PageV: 8, Scores: true,
	}
	size := geo.FullBytes(n)
	arena, err := l.b.Alloc(cache.Free, "arena", size)
	must(err)
	defer l.b.Free(arena)
	c, err := cache.New(geo, size, l.led)
	must(err)
	defer c.Close()
	must(l.b.Upload(arena, 0, make([]byte, size)))
	scorer := l.exec.(step.Scorer)
	must(scorer.Follow(&policy.Plan{Decode: policy.Decode{Kind: policy.DecodeSums, Decay: 1}}))
	defer func() { must(scorer.Follow(nil)) }()
	a := &step.Args{
		Cache: c, Arena: arena, IDs: l.ids[:1], Pos: n - 1, To: 1, Stored: true, Slots: make([][]uint32, s.KVHeads),
	}
	for h := range a.Slots {
		positions := make([]uint32, n)
		for i := range positions {
			positions[i] = uint32(i)
		}
		slots, err := c.Put(0, h, positions)
		must(err)
		a.Slots[h] = slots[n-1:]
	}
	const batch = 20 // the browser's clock has steps of 0.1 ms
	rest, rows := time.Hour, time.Hour
	for range 60 {
		start := time.Now()
		for range batch {
			for _, ops := range [][2]int{{0, 2}, {3, 4}, {2, 3}, {4, 7}} {
				must(l.exec.Run(context.Background(), a, ops[0], ops[1]))
			}
		}
		rest = min(rest, time.Since(start))
		start = time.Now()
		for range batch {
			_, err := scorer.Rows(a, 0)
			must(err)
		}
		rows = min(rows, time.Since(start))
	}
	return float64(rows) / float64(rest)
}

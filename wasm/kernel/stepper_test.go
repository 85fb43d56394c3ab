package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/gpu/gputest"
	"kvlens/wasm/kernel"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref"
	"kvlens/wasm/ref/reftest"
	"kvlens/wasm/sample"
	"kvlens/wasm/step"
)

var small = step.Shape{
	Layers: 2, Hidden: 64, Heads: 4, KVHeads: 2, HeadDim: 32, FFN: 96, Vocab: 300, RotDim: 32, Eps: 1e-5,
}

// rig is a model on the device with one cache.
type rig struct {
	t     *testing.T
	b     step.Backend
	exec  step.Exec
	cache *cache.Cache
	arena step.Buffer
	pos   int
	ops   int
}

func newRig(t *testing.T, lib *kernel.Library, m *reftest.Model, tokens int, f cache.Format) *rig {
	t.Helper()
	led := new(cache.Ledger)
	return newRigOn(t, lib.Backend(led), led, m, tokens, f)
}

func newRigOn(t *testing.T, b step.Backend, led *cache.Ledger, m *reftest.Model, tokens int, f cache.Format) *rig {
	t.Helper()
	r := &rig{t: t, b: b, ops: len(m.Program.Ops)}
	t.Cleanup(func() { _ = r.b.Close() })
	r.exec = reftest.Load(t, r.b, m)
	r.must(r.exec.Grow(8, 1))
	s := m.Shape
	geo := cache.Geometry{Layers: s.Layers, KVHeads: s.KVHeads, HeadDim: s.HeadDim, Key: f, Value: f, PageK: 2, PageV: 8}
	var err error
	r.arena, err = r.b.Alloc(cache.Free, "arena", geo.FullBytes(tokens))
	r.must(err)
	r.cache, err = cache.New(geo, geo.FullBytes(tokens), led)
	r.must(err)
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// decode stores one token by the operations of the program and returns the logits.
func (r *rig) decode(m *reftest.Model, id int32) []float32 {
	r.t.Helper()
	ctx := context.Background()
	r.must(r.cache.Reserve(1))
	a := step.Args{Cache: r.cache, Arena: r.arena, IDs: []int32{id}, Pos: r.pos, To: 1, Stored: true}
	r.must(r.exec.Run(ctx, &a, 0, 1))
	for l := range m.Shape.Layers {
		op := 1 + 6*l
		r.must(r.exec.Run(ctx, &a, op, op+1))
		a.Slots = nil
		for h := range m.Shape.KVHeads {
			slots, err := r.cache.Take(l, h, 1)
			r.must(err)
			a.Slots = append(a.Slots, slots)
		}
		r.must(r.exec.Run(ctx, &a, op+2, op+3)) // store
		r.must(r.exec.Run(ctx, &a, op+1, op+2)) // attend
		r.must(r.exec.Run(ctx, &a, op+3, op+6))
	}
	r.must(r.exec.Run(ctx, &a, r.ops-2, r.ops))
	r.pos++
	logits := make([]float32, m.Shape.Vocab)
	r.must(r.b.Read(r.exec.Scratch(step.Logits), 0, quant.Bytes(logits)))
	return logits
}

// The recorded steps choose what the sampler chooses from the logits of the same steps run one by one.
func TestStepper(t *testing.T) {
	lib := newLibrary(gputest.Open(t))
	for i, c := range []struct {
		layouts []quant.Layout
		neox    bool
		format  cache.Format
		prompt  int // tokens before the answer; with none, the first is pending
		dim     int
		p       sample.Params
	}{
		{[]quant.Layout{quant.Layout8}, false, cache.F16, 3, 32, sample.Params{}},
		{[]quant.Layout{quant.Layout4}, false, cache.F32, 3, 32, sample.Params{Repeat: 1.5}},
		{[]quant.Layout{quant.Layout8}, true, cache.F16, 3, 32, sample.Params{Temperature: 1, TopP: 1, Seed: 1}},
		{[]quant.Layout{quant.LayoutF16}, false, cache.F16, 3, 32, sample.Params{Temperature: 0.8, TopK: 7, Seed: 1 << 63}},
		{[]quant.Layout{quant.Layout8, quant.Layout4, quant.LayoutF32}, false, cache.F16, 3, 32, sample.Params{Temperature: 1.3, TopP: 0.6, Seed: 12345678901}},
		{[]quant.Layout{quant.Layout8}, false, cache.F16, 3, 32, sample.Params{Temperature: 1, MinP: 0.4, Seed: 3}},
		{[]quant.Layout{quant.LayoutF32}, false, cache.F32, 3, 32, sample.Params{Temperature: 0.7, TopK: 40, TopP: 0.9, MinP: 0.05, Repeat: 1.2, Seed: 7}},
		{[]quant.Layout{quant.LayoutF32}, false, cache.F32, 0, 6, sample.Params{}},
		{[]quant.Layout{quant.LayoutF32}, false, cache.F16, 0, 10, sample.Params{}},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			lib.Plain = i%2 == 0
			shape := small
			shape.Neox, shape.HeadDim, shape.RotDim = c.neox, c.dim, c.dim
			m := reftest.NewModel(rand.New(rand.NewPCG(2, 3)), shape, 8, c.layouts...)
			const answer = 24
			want := newRig(t, lib, m, c.prompt+answer, c.format)
			got := newRig(t, lib, m, c.prompt+answer, c.format)
			ids := []int32{5, 9, 77}[:max(1, c.prompt)]
			var logits []float32
			for _, id := range ids[:c.prompt] {
				got.decode(m, id)
				logits = want.decode(m, id)
			}
			sampler := sample.New(c.p)
			begin := step.Answer{
				Cache: got.cache, Arena: got.arena, Pos: got.pos, Pending: -1, Recent: ids,
				Sampling: step.Sampling{
					Temperature: c.p.Temperature, TopK: c.p.TopK, TopP: c.p.TopP, MinP: c.p.MinP, Repeat: c.p.Repeat, Random: c.p.Seed,
				},
			}
			if c.prompt == 0 {
				begin.Pending = ids[0]
				logits = want.decode(m, ids[0])
			}
			s := got.exec.(step.Stepper)
			got.must(s.Begin(&begin))
			submitted := 0
			forced := map[int]int32{2: 17, 9: 0}
			for n := range answer {
				for ; submitted < answer && submitted < n+step.InFlight; submitted++ {
					id, ok := forced[submitted]
					if !ok {
						id = -1
					}
					got.must(s.Submit(id))
				}
				choice, err := s.Next(context.Background())
				got.must(err)
				expect, err := sampler.Pick(logits, ids)
				got.must(err)
				if id, ok := forced[n]; ok {
					expect.Prob *= float32(math.Exp(float64(logits[id] - logits[expect.ID])))
					expect.ID = id
				}
				if choice.ID != expect.ID || choice.TopIDs != expect.TopIDs {
					t.Fatalf("step %d: %+v, want %+v", n, choice, expect)
				}
				tol := reftest.Tolerance{Abs: 1e-7, Rel: 1e-4}
				reftest.Compare(t, "probability", []float32{choice.Prob}, []float32{expect.Prob}, tol)
				reftest.Compare(t, "top five", choice.TopProbs[:], expect.TopProbs[:], tol)
				ids = append(ids, choice.ID)
				if n+1 < answer {
					logits = want.decode(m, choice.ID)
				}
			}
			s.End()
			a, b := make([]byte, got.cache.Cap()), make([]byte, got.cache.Cap())
			got.must(got.b.Read(got.arena, 0, a))
			want.must(want.b.Read(want.arena, 0, b))
			if !c.neox && c.format == cache.F32 {
				reftest.Compare(t, "arena", quant.Float32s(a), quant.Float32s(b), reftest.Tolerance{Abs: 1e-5, Rel: 1e-5})
			}
		})
	}
}

// Attention logits of some hundreds, positive and negative, neither overflow nor vanish: not even where one token is all
// there is.
func TestLargeLogits(t *testing.T) {
	lib := newLibrary(gputest.Open(t))
	m := reftest.NewModel(rand.New(rand.NewPCG(2, 3)), small, 8, quant.LayoutF32)
	for _, op := range m.Program.Ops {
		if o, ok := op.(step.QKV); ok {
			rows := (small.Heads + small.KVHeads) * small.HeadDim // queries and keys
			for i, w := range quant.Float32s(m.Data[o.W[0].Off:][:rows*small.Hidden*4]) {
				quant.Float32s(m.Data[o.W[0].Off:][:rows*small.Hidden*4])[i] = 10 * w
			}
		}
	}
	for _, plain := range []bool{true, false} {
		lib.Plain = plain
		led := new(cache.Ledger)
		got := newRig(t, lib, m, 12, cache.F32)
		want := newRigOn(t, ref.NewF64(led), led, m, 12, cache.F32)
		for i := range 12 {
			id := int32(i * 17)
			// A logit of 100 is off by some 1e-5, and with it the weights.
			reftest.Compare(t, fmt.Sprintf("plain %v, token %d", plain, i), got.decode(m, id), want.decode(m, id), reftest.Tolerance{Abs: 2e-3, Rel: 1e-3})
		}
	}
}

// After a stop id nothing is written, and the cap ends an answer before anything is queued.
func TestStepperEnds(t *testing.T) {
	lib := newLibrary(gputest.Open(t))
	m := reftest.NewModel(rand.New(rand.NewPCG(2, 3)), small, 8, quant.Layout8)
	r := newRig(t, lib, m, 8, cache.F16)
	s := r.exec.(step.Stepper)
	begin := step.Answer{Cache: r.cache, Arena: r.arena, Pending: 5, Stop: []int32{44}}
	r.must(s.Begin(&begin))
	for i := range step.InFlight {
		r.must(s.Submit([]int32{-1, 44, -1, -1}[i]))
	}
	if err := s.Submit(-1); err == nil {
		t.Error("a fifth step in flight: no error")
	}
	var got []int32
	for range step.InFlight {
		c, err := s.Next(context.Background())
		r.must(err)
		got = append(got, c.ID)
	}
	if got[0] < 0 || !slices.Equal(got[1:], []int32{44, -1, -1}) {
		t.Errorf("choices %v, want one, 44 and none", got)
	}
	s.End()
	arena := make([]byte, r.cache.Cap())
	r.must(r.b.Read(r.arena, 0, arena))
	for slot, want := range []uint32{0, 1, 0, 0} { // untouched positions are 0
		for h := range small.KVHeads {
			l := r.cache.List(1, h)
			if got := quant.Uint32s(arena[int(l.Positions[0])*4+slot*4:][:4])[0]; got != want {
				t.Errorf("slot %d has position %d, want %d", slot, got, want)
			}
			at := int(l.Keys[slot/2])*4 + slot%2*small.HeadDim*2
			if empty := slices.Max(arena[at:][:small.HeadDim*2]) == 0; empty != (slot > 1) {
				t.Errorf("slot %d of head %d is empty: %v", slot, h, empty)
			}
		}
	}

	begin.Pos, begin.Stop = 4, nil
	r.must(s.Begin(&begin))
	var full *cache.FullError
	for i := range 5 {
		err := s.Submit(-1)
		if i == 4 && !errors.As(err, &full) || i < 4 && err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if i == 3 {
			for range 4 {
				_, err := s.Next(context.Background())
				r.must(err)
			}
		}
	}
	if _, err := s.Next(context.Background()); err == nil {
		t.Error("Next with nothing in flight: no error")
	}

	begin.Pending = -1
	r.must(s.Begin(&begin))
	bad := make([]float32, small.Vocab)
	bad[3] = float32(math.Inf(1))
	for _, logits := range [][]float32{make([]float32, small.Vocab), bad} {
		r.must(s.Begin(&begin))
		r.must(r.b.Upload(r.exec.Scratch(step.Logits), 0, quant.Bytes(logits)))
		r.must(s.Submit(-1))
		if _, err := s.Next(context.Background()); !errors.Is(err, step.ErrLogits) {
			t.Errorf("logits of no use: %v", err)
		}
	}
}

package kernel

import (
	"context"
	"fmt"
	"math"
	"strings"

	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// SelfTestError says which kernel of this device does not compute what the reference computes.
type SelfTestError struct {
	Kernel    string // variants that were run, the last of them wrote the number
	Index     int
	Got, Want float32
}

func (e *SelfTestError) Error() string {
	return fmt.Sprintf("webgpu: self-test: %s: number %d is %v, want %v", e.Kernel, e.Index, e.Got, e.Want)
}

// The self-test's model: small, with more than one head to a KV head, more rows than a tile and more than one page.
var selfShape = step.Shape{
	Layers: 1, Hidden: 64, Heads: 4, KVHeads: 2, HeadDim: 32, FFN: 96, Vocab: 130, RotDim: 32, Eps: 1e-5,
}

const (
	selfRows      = tile + 3
	selfPositions = selfRows + 2
	selfTolerance = 1e-4
	// Rounding to 8 bits shows: a miscompiled kernel is off by far more than this still.
	integerTolerance = 5e-2
)

// SelfTest runs every kernel on a small model of each layout, as prefill and as one recorded step, and compares what it
// wrote with an oracle, which is a backend of its own. Drivers miscompile shaders, so a device is used only after this.
// If it fails with products that need a feature, which drivers have had less time to learn, it is done again without
// them, and Refused says why. Errors are *SelfTestError or what the device says. The kernels stay compiled.
func (l *Library) SelfTest(ctx context.Context, oracle step.Backend, layouts ...quant.Layout) error {
	err := l.selfTests(ctx, oracle, layouts)
	if err == nil || ctx.Err() != nil || !l.Integer && (l.Plain || !l.Subgroups) {
		return err
	}
	l.Subgroups, l.Integer, l.Refused = false, false, err
	return l.selfTests(ctx, oracle, layouts)
}

func (l *Library) selfTests(ctx context.Context, oracle step.Backend, layouts []quant.Layout) error {
	for i, layout := range layouts {
		if err := l.selfTest(ctx, oracle, newSelfModel(layout, false), selfTest); err != nil {
			return err
		}
		if i > 0 {
			continue // what works on the members of a stack, or under a plan, does not know the layout
		}
		if err := l.selfTest(ctx, oracle, newSelfModel(layout, true), selfTest); err != nil {
			return err
		}
		if err := l.selfTest(ctx, oracle, newSelfModel(layout, false), selfPlan); err != nil {
			return err
		}
	}
	return nil
}

// selfTesting is one of the self-tests.
type selfTesting func(ctx context.Context, b *Backend, oracle step.Backend, m *selfModel) error

func (l *Library) selfTest(ctx context.Context, oracle step.Backend, m *selfModel, test selfTesting) error {
	b := l.Backend(new(cache.Ledger))
	err := test(ctx, b, oracle, m)
	if closed := b.Close(); err == nil {
		err = closed
	}
	return err
}

// side is the model on one backend.
type side struct {
	b     step.Backend
	bufs  []step.Buffer
	exec  step.Exec
	cache *cache.Cache
	arena step.Buffer
	sums  bool // pages have accumulated attention
}

func (s *side) close() {
	if s.exec != nil {
		s.exec.Close()
	}
	if s.cache != nil {
		s.cache.Close()
	}
	for _, buf := range s.bufs {
		s.b.Free(buf)
	}
}

func (s *side) alloc(kind cache.Kind, name string, data []byte) (step.Buffer, error) {
	buf, err := s.b.Alloc(kind, name, int64(len(data)))
	if err != nil {
		return 0, err
	}
	s.bufs = append(s.bufs, buf)
	return buf, s.b.Upload(buf, 0, data)
}

func (s *side) open(m *selfModel) error {
	weights, err := s.alloc(cache.Weights, "self-test", m.data)
	if err != nil {
		return err
	}
	rope, err := s.alloc(cache.Aux, "self-test", quant.Bytes(m.rope))
	if err != nil {
		return err
	}
	if s.exec, err = s.b.Compile(&step.Program{Shape: selfShape, Chunk: selfRows, Rope: rope, Ops: m.ops(weights)}); err != nil {
		return err
	}
	if err := s.exec.Grow(selfRows, selfRows); err != nil {
		return err
	}
	geo := cache.Geometry{
		Layers: 1, KVHeads: selfShape.KVHeads, HeadDim: selfShape.HeadDim, Key: cache.F16, Value: cache.F16, PageK: 2, PageV: 8,
		Scores: s.sums,
	}
	size := geo.FullBytes(selfPositions)
	if s.arena, err = s.alloc(cache.Free, "self-test", make([]byte, size)); err != nil {
		return err
	}
	s.cache, err = cache.New(geo, size, new(cache.Ledger))
	return err
}

// selfSteps are the operations in the order of a prefill, each with what it writes and in how many columns.
var selfSteps = []struct {
	op      int
	writes  []step.Name
	columns int
}{
	{0, []step.Name{step.X}, selfShape.Hidden},
	{1, []step.Name{step.Q}, selfShape.Heads * selfShape.HeadDim},
	{1, []step.Name{step.K, step.V}, selfShape.KVHeads * selfShape.HeadDim},
	{2, []step.Name{step.A}, selfShape.Heads * selfShape.HeadDim},
	{3, nil, 0},
	{4, []step.Name{step.X}, selfShape.Hidden},
	{5, []step.Name{step.F}, selfShape.FFN},
	{6, []step.Name{step.X}, selfShape.Hidden},
	{7, []step.Name{step.N}, selfShape.Hidden},
	{8, []step.Name{step.Logits}, selfShape.Vocab},
}

func selfTest(ctx context.Context, b *Backend, oracle step.Backend, m *selfModel) error {
	got, want := &side{b: b}, &side{b: oracle}
	sides := []*side{got, want}
	defer want.close() // the other ends with its backend
	for _, s := range sides {
		if err := s.open(m); err != nil {
			return fmt.Errorf("webgpu: self-test: %w", err)
		}
	}
	ids := make([]int32, selfRows)
	for i := range ids {
		ids[i] = int32(i * 11)
	}
	e := got.exec.(*exec)
	a := step.Args{IDs: ids, To: selfRows, Logits: step.AllRows}
	run := func(op int) error {
		for _, s := range sides {
			a.Cache, a.Arena = s.cache, s.arena
			if err := s.exec.Run(ctx, &a, op, op+1); err != nil {
				return fmt.Errorf("webgpu: self-test: %w", err)
			}
		}
		return nil
	}
	take := func(n int, sides ...*side) error {
		for _, s := range sides {
			if err := s.cache.Reserve(n); err != nil {
				return err
			}
			a.Slots = nil
			for h := range selfShape.KVHeads {
				slots, err := s.cache.Take(0, h, n)
				if err != nil {
					return err
				}
				a.Slots = append(a.Slots, slots)
			}
		}
		return nil
	}
	last := -1
	for _, c := range selfSteps {
		if c.op == 3 {
			if err := take(selfRows, sides...); err != nil {
				return err
			}
		}
		if c.op != last {
			if err := run(c.op); err != nil {
				return err
			}
			last = c.op
		}
		for _, name := range c.writes {
			if err := b.lib.compare(e.ops[c.op].nodes, got, want, name, selfRows*c.columns); err != nil {
				return err
			}
		}
	}
	a.From, a.Stored = selfRows-1, true
	if err := run(2); err != nil {
		return err
	}
	if err := b.lib.compare(e.ops[2].stored, got, want, step.A, selfShape.Heads*selfShape.HeadDim); err != nil {
		return err
	}
	// One step of the oracle, the same recorded on the device.
	next := step.Args{Cache: want.cache, Arena: want.arena, IDs: []int32{7}, Pos: selfRows, To: 1, Stored: true}
	if err := take(1, want); err != nil {
		return err
	}
	next.Slots = a.Slots
	for _, op := range []int{0, 1, 3, 2, 4, 5, 6, 7, 8} {
		if err := want.exec.Run(ctx, &next, op, op+1); err != nil {
			return fmt.Errorf("webgpu: self-test: %w", err)
		}
	}
	return compareStep(ctx, e, got, want, nil)
}

// compareStep runs one recorded step after token 7 and compares its logits and what it chose.
func compareStep(ctx context.Context, e *exec, got, want *side, rules []step.Rule) error {
	a := step.Answer{Cache: got.cache, Arena: got.arena, Pos: selfRows, Pending: 7, Rules: rules}
	if err := e.Begin(&a); err != nil {
		return err
	}
	if err := e.Submit(-1); err != nil {
		return err
	}
	c, err := e.Next(ctx)
	if err != nil {
		return err
	}
	nodes := append(e.replayed(e.answer.session.keeper), e.sample[1])
	e.End()
	if err := e.b.lib.compare(nodes[:len(nodes)-1], got, want, step.Logits, selfShape.Vocab); err != nil {
		return err
	}
	logits := make([]float32, selfShape.Vocab)
	if err := want.b.Read(want.exec.Scratch(step.Logits), 0, quant.Bytes(logits)); err != nil {
		return err
	}
	best, sum := 0, 0.0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
		sum += math.Exp(float64(v))
	}
	share := math.Exp(float64(logits[best])) / sum
	tolerance := e.b.lib.tolerance()
	if c.ID < 0 || int(c.ID) >= len(logits) || float64(logits[best]-logits[c.ID]) > tolerance {
		return &SelfTestError{names(nodes), 0, float32(c.ID), float32(best)}
	}
	if math.Abs(float64(c.Prob)-share) > tolerance {
		return &SelfTestError{names(nodes), 1, c.Prob, float32(share)}
	}
	return nil
}

// tolerance is how far a number may be off, and as a share of it.
func (l *Library) tolerance() float64 {
	if l.Integer {
		return integerTolerance
	}
	return selfTolerance
}

// compare compares the first n numbers of a scratch buffer, which nodes wrote.
func (l *Library) compare(nodes []*node, got, want *side, name step.Name, n int) error {
	x, y := make([]float32, n), make([]float32, n)
	if err := got.b.Read(got.exec.Scratch(name), 0, quant.Bytes(x)); err != nil {
		return err
	}
	if err := want.b.Read(want.exec.Scratch(name), 0, quant.Bytes(y)); err != nil {
		return err
	}
	tolerance := l.tolerance()
	for i, w := range y {
		// Written so that a NaN is off.
		if !(math.Abs(float64(x[i])-float64(w)) <= tolerance+tolerance*math.Abs(float64(w))) {
			return &SelfTestError{names(nodes), i, x[i], w}
		}
	}
	return nil
}

func names(nodes []*node) string {
	var labels []string
	for _, n := range nodes {
		labels = append(labels, n.variant.Label())
	}
	return strings.Join(labels, ", ")
}

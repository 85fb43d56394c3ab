package reftest

import (
	"context"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// Open makes the backend under test.
type Open func(led *cache.Ledger) (step.Backend, error)

// engine is a model on a backend.
type engine struct {
	t     testing.TB
	led   *cache.Ledger
	b     step.Backend
	exec  step.Exec
	model *Model
}

func newEngine(t testing.TB, open Open, m *Model) *engine {
	t.Helper()
	e := &engine{t: t, led: new(cache.Ledger), model: m}
	var err error
	if e.b, err = open(e.led); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.b.Close() })
	e.exec = Load(t, e.b, m)
	return e
}

// Load uploads a model and compiles its program.
func Load(t testing.TB, b step.Backend, m *Model) step.Exec {
	t.Helper()
	upload := func(k cache.Kind, name string, data []byte) step.Buffer {
		buf, err := b.Alloc(k, name, int64(len(data)))
		if err == nil {
			err = b.Upload(buf, 0, data)
		}
		if err != nil {
			t.Fatal(err)
		}
		return buf
	}
	weights := upload(cache.Weights, "weights", m.Data)
	p := Located(m, weights)
	p.Rope = upload(cache.Aux, "RoPE", quant.Bytes(m.Rope))
	exec, err := b.Compile(&p)
	if err != nil {
		t.Fatal(err)
	}
	return exec
}

// Located is the model's program with its weights in buf.
func Located(m *Model, buf step.Buffer) step.Program {
	p := m.Program
	p.Ops = nil
	for _, op := range m.Program.Ops {
		p.Ops = append(p.Ops, located(op, buf))
	}
	return p
}

// located is an operation whose weights are in buf.
func located(op step.Op, buf step.Buffer) step.Op {
	at := func(t step.Tensor) step.Tensor { t.Buf = buf; return t }
	all := func(s step.Stack) (out step.Stack) {
		for _, t := range s {
			out = append(out, at(t))
		}
		return out
	}
	switch o := op.(type) {
	case step.Embed:
		return step.Embed{Table: at(o.Table)}
	case step.QKV:
		return step.QKV{Layer: o.Layer, Norm: at(o.Norm), W: all(o.W)}
	case step.Project:
		return step.Project{Layer: o.Layer, In: o.In, W: at(o.W)}
	case step.GateUp:
		return step.GateUp{Layer: o.Layer, Norm: at(o.Norm), W: all(o.W)}
	case step.Norm:
		return step.Norm{W: at(o.W)}
	case step.Head:
		return step.Head{W: at(o.W)}
	}
	return op
}

func (e *engine) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// read reads the first n floats of a scratch buffer.
func (e *engine) read(name step.Name, n int) []float32 {
	e.t.Helper()
	out := make([]float32, n)
	e.must(e.b.Read(e.exec.Scratch(name), 0, quant.Bytes(out)))
	return out
}

// width is the number of floats in a row of a scratch buffer.
func (e *engine) width(name step.Name) int {
	s := &e.model.Shape
	switch name {
	case step.K, step.V:
		return s.KVHeads * s.HeadDim
	case step.Q, step.A:
		return s.Heads * s.HeadDim
	case step.F:
		return s.FFN
	case step.Logits:
		return s.Vocab
	}
	return s.Hidden
}

func (e *engine) run(a *step.Args, from, to int) {
	e.t.Helper()
	e.must(e.exec.Run(context.Background(), a, from, to))
}

// session is a cache on an engine.
type session struct {
	*engine
	cache *cache.Cache
	arena step.Buffer
	pos   int // of the next token
	turn  int // tokens of the last prefill or decode
}

// pages is what a session's geometry adds to the shape.
type pages struct {
	key, value   cache.Format
	pageK, pageV int
}

func (e *engine) session(p pages, tokens int) *session {
	e.t.Helper()
	s := &e.model.Shape
	geo := cache.Geometry{
		Layers: s.Layers, KVHeads: s.KVHeads, HeadDim: s.HeadDim,
		Key: p.key, Value: p.value, PageK: p.pageK, PageV: p.pageV,
	}
	return e.sessionOf(geo, geo.FullBytes(tokens))
}

// sessionOf is a session whose cache is of any kind.
func (e *engine) sessionOf(geo cache.Geometry, size int64) *session {
	e.t.Helper()
	arena, err := e.b.Alloc(cache.Free, "arena", size)
	e.must(err)
	c, err := cache.New(geo, size, e.led)
	e.must(err)
	return &session{engine: e, cache: c, arena: arena}
}

func (s *session) close() {
	s.cache.Close()
	s.b.Free(s.arena)
}

// prefill runs a prompt layer by layer, chunk rows at a time, and returns all rows of logits.
func (s *session) prefill(ids []int32, chunk int) []float32 {
	s.t.Helper()
	shape := &s.model.Shape
	s.must(s.exec.Grow(len(ids), chunk))
	s.must(s.cache.Reserve(len(ids)))
	a := step.Args{Cache: s.cache, Arena: s.arena, IDs: ids, Pos: s.pos, Logits: step.AllRows}
	chunks := func(f func()) {
		for a.From = 0; a.From < len(ids); a.From += chunk {
			a.To = min(a.From+chunk, len(ids))
			f()
		}
	}
	chunks(func() { s.run(&a, 0, 1) })
	for l := range shape.Layers {
		op := 1 + l*opsPerLayer
		chunks(func() {
			s.run(&a, op, op+2)
			s.run(&a, op+3, op+opsPerLayer)
		})
		a.Slots = s.take(l, len(ids))
		chunks(func() { s.run(&a, op+2, op+3) })
	}
	var logits []float32
	last := 1 + shape.Layers*opsPerLayer
	chunks(func() {
		s.run(&a, last, last+2)
		logits = append(logits, s.read(step.Logits, (a.To-a.From)*shape.Vocab)...)
	})
	s.pos += len(ids)
	s.turn = len(ids)
	return logits
}

// decode runs one token and returns its logits.
func (s *session) decode(id int32) []float32 {
	s.t.Helper()
	s.must(s.exec.Grow(1, 1))
	s.must(s.cache.Reserve(1))
	a := step.Args{Cache: s.cache, Arena: s.arena, IDs: []int32{id}, Pos: s.pos, To: 1, Stored: true}
	s.run(&a, 0, 1)
	for l := range s.model.Shape.Layers {
		op := 1 + l*opsPerLayer
		s.run(&a, op, op+1)
		a.Slots = s.take(l, 1)
		s.run(&a, op+2, op+3)
		s.run(&a, op+1, op+2)
		s.run(&a, op+3, op+opsPerLayer)
	}
	last := 1 + s.model.Shape.Layers*opsPerLayer
	s.run(&a, last, last+2)
	s.pos++
	s.turn = 1
	return s.read(step.Logits, s.model.Shape.Vocab)
}

func (s *session) take(layer, n int) [][]uint32 {
	s.t.Helper()
	slots := make([][]uint32, s.model.Shape.KVHeads)
	for h := range slots {
		var err error
		slots[h], err = s.cache.Take(layer, h, n)
		s.must(err)
	}
	return slots
}

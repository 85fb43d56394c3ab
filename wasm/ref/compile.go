package ref

import (
	"fmt"

	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// maxSize bounds every size of a shape, so that sizes in bytes are far from overflowing.
const maxSize = 1 << 24

// operation is one of the program with its weights found and checked.
type operation func(r *run) error

// Compile checks a program and allocates its scratch.
func (b *Backend) Compile(p *step.Program) (step.Exec, error) {
	fail := func(what string, err error) (step.Exec, error) {
		return nil, fmt.Errorf("%s: compile: %s: %w", b.info.Name, what, err)
	}
	if err := checkShape(&p.Shape, p.Chunk); err != nil {
		return fail("shape", err)
	}
	e := &exec{b: b, shape: p.Shape, chunk: p.Chunk, outputs: make([]*quant.Matrix, p.Shape.Layers)}
	if err := e.findRope(p.Rope); err != nil {
		return fail("RoPE table", err)
	}
	for i, op := range p.Ops {
		s, err := e.stage(op)
		if err != nil {
			return fail(fmt.Sprintf("op %d, %T", i, op), err)
		}
		e.stages = append(e.stages, s)
	}
	if err := e.allocChunk(); err != nil {
		e.Close()
		return fail("scratch", err)
	}
	return e, nil
}

func checkShape(s *step.Shape, chunk int) error {
	for name, n := range map[string]int{
		"layers": s.Layers, "hidden": s.Hidden, "heads": s.Heads, "KV heads": s.KVHeads, "head dimension": s.HeadDim,
		"FFN": s.FFN, "vocabulary": s.Vocab, "chunk": chunk,
		"query width": s.Heads * s.HeadDim, "key width": s.KVHeads * s.HeadDim,
	} {
		if n < 1 || n > maxSize {
			return fmt.Errorf("%s is %d: want 1…%d", name, n, maxSize)
		}
	}
	if s.Heads%s.KVHeads != 0 {
		return fmt.Errorf("%d heads do not share %d KV heads evenly", s.Heads, s.KVHeads)
	}
	if s.RotDim < 0 || s.RotDim > s.HeadDim || s.RotDim%2 != 0 {
		return fmt.Errorf("%d rotated channels of %d", s.RotDim, s.HeadDim)
	}
	return nil
}

// findRope finds the table of cos and sin; it says how many positions there are.
func (e *exec) findRope(buf step.Buffer) error {
	if e.shape.RotDim == 0 {
		e.positions = cache.DeadPosition
		return nil
	}
	m, ok := e.b.mem[buf]
	if !ok {
		return fmt.Errorf("buffer %d is not allocated", buf)
	}
	e.positions = len(m.bytes) / (e.shape.RotDim * 4)
	e.rope = quant.Float32s(m.bytes[:e.positions*e.shape.RotDim*4])
	return nil
}

func (e *exec) stage(op step.Op) (operation, error) {
	s := &e.shape
	query, key := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	switch o := op.(type) {
	case step.Embed:
		w, err := e.b.matrix(o.Table, s.Vocab, s.Hidden)
		return func(r *run) error { return r.embed(w) }, err

	case step.QKV:
		norm, err := e.b.vector(o.Norm, s.Hidden)
		if err != nil {
			return nil, fmt.Errorf("norm %w", err)
		}
		w, err := e.stack(o.W, query+2*key, s.Hidden)
		return func(r *run) error { r.qkv(norm, w); return nil }, err

	case step.Attend:
		return func(r *run) error { return r.attend(o.Layer) }, e.checkLayer(o.Layer)

	case step.Store:
		return func(r *run) error { return r.store(o.Layer) }, e.checkLayer(o.Layer)

	case step.Project:
		in := map[step.Name]int{step.A: query, step.F: s.FFN}[o.In]
		if in == 0 {
			return nil, fmt.Errorf("input %d is neither A nor F", o.In)
		}
		w, err := e.b.matrix(o.W, s.Hidden, in)
		if o.In == step.A && o.Layer >= 0 && o.Layer < s.Layers {
			e.outputs[o.Layer] = w
		}
		return func(r *run) error { r.project(o.In, w); return nil }, err

	case step.GateUp:
		norm, err := e.b.vector(o.Norm, s.Hidden)
		if err != nil {
			return nil, fmt.Errorf("norm %w", err)
		}
		w, err := e.stack(o.W, 2*s.FFN, s.Hidden)
		return func(r *run) error { r.gateUp(norm, w); return nil }, err

	case step.Norm:
		w, err := e.b.vector(o.W, s.Hidden)
		return func(r *run) error { r.finalNorm(w); return nil }, err

	case step.Head:
		w, err := e.b.matrix(o.W, s.Vocab, s.Hidden)
		return func(r *run) error { return r.head(w) }, err
	}
	return nil, fmt.Errorf("is no operation of this backend")
}

func (e *exec) checkLayer(layer int) error {
	if layer < 0 || layer >= e.shape.Layers {
		return fmt.Errorf("layer %d of %d", layer, e.shape.Layers)
	}
	return nil
}

// stack finds matrices that lie one over the other.
func (e *exec) stack(w step.Stack, rows, cols int) ([]*quant.Matrix, error) {
	var out []*quant.Matrix
	for i, t := range w {
		m, err := e.b.matrix(t, t.Rows, cols)
		if err == nil && (t.Rows < 1 || t.Rows > rows) {
			err = fmt.Errorf("has %d rows, %d are left", t.Rows, rows)
		}
		if err != nil {
			return nil, fmt.Errorf("member %d %w", i, err)
		}
		rows -= t.Rows
		out = append(out, m)
	}
	if rows != 0 {
		return nil, fmt.Errorf("%d rows are missing", rows)
	}
	return out, nil
}

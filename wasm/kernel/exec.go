package kernel

import (
	"fmt"
	"slices"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/shaders"
	"kvlens/wasm/gpu"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// paramAlign is the distance of the parameters of two nodes: what every device accepts as an offset of a binding.
const paramAlign = 256

// Scratch beside that which the step program names: raw is that of stacks of mixed layouts, [chunk rows][stack rows], and
// lses the logarithms of the sums of attention's rows, [heads][chunk rows].
const (
	raw = step.Names + iota
	lses
	scratches
)

// exec is a compiled program with its scratch.
type exec struct {
	b         *Backend
	shape     step.Shape
	chunk     int
	ops       []*operation
	nodes     []*node
	sample    [2]*node // from logits that are there, and after a step
	positions int
	ropeAt    gpu.Binding

	paramBytes int64
	params     *memory
	rawWidth   int

	// Device buffers by name; K and V are parts of one, which is at K.
	held            [scratches]*memory
	named           [step.Names]step.Buffer
	rows, logitRows int // what X, K, V and Logits have room for

	sessions map[step.Buffer]*session // by arena; 0 is of runs without a cache
	outputs  []step.Tensor            // the attention's projections, by layer

	plan       *policy.Plan // nil is Full
	headTables *policy.Tables
	weighed    *keeper // that scored last
	answer     *answer
	views      map[gpu.Buffer]*look // by what they write
}

func newExec(b *Backend, p *step.Program) *exec {
	return &exec{b: b, shape: p.Shape, chunk: p.Chunk, sessions: map[step.Buffer]*session{}, views: map[gpu.Buffer]*look{}}
}

// variants lists what the program will want: one row and tiles of rows, half and float pages.
func (e *exec) variants() []shaders.Variant {
	var out []shaders.Variant
	pages := &session{geo: cache.Geometry{Key: cache.F16, Value: cache.F16}}
	for _, n := range e.nodes {
		out = append(out, n.choose(pages, 1))
		if n.tiled && e.chunk > 1 {
			out = append(out, n.choose(pages, tile))
		}
	}
	return out
}

// allocate makes the buffers whose size follows from the program, and fills in the parameters.
func (e *exec) allocate() error {
	s := &e.shape
	query := s.Heads * s.HeadDim
	for _, c := range []struct {
		name  step.Name
		label string
		width int
	}{{step.Q, "Q", query}, {step.A, "A", query}, {step.F, "F", s.FFN}, {step.N, "N", s.Hidden}, {raw, "raw", e.rawWidth}, {lses, "row sums", s.Heads}} {
		if c.width == 0 {
			continue
		}
		if err := e.replace(c.name, c.label, e.chunk*c.width); err != nil {
			return err
		}
	}
	if e.paramBytes == 0 {
		return nil
	}
	words := make([]uint32, e.paramBytes/4)
	for _, n := range e.nodes {
		copy(words[n.at/4:], n.params)
	}
	var err error
	if e.params, err = e.b.alloc(cache.Aux, "parameters", e.paramBytes); err != nil {
		return err
	}
	return e.b.dev.Write(e.params.buf, 0, quant.Bytes(words))
}

// replace makes a scratch buffer of n floats in place of the one there was, which goes first.
func (e *exec) replace(name step.Name, label string, n int) error {
	e.drop(name)
	m, err := e.b.alloc(cache.Scratch, label, int64(n)*4)
	if err != nil {
		return err
	}
	e.held[name] = m
	if name < step.Names {
		e.named[name] = e.b.part(m, 0, m.size)
	}
	return nil
}

func (e *exec) drop(name step.Name) {
	e.b.release(e.held[name])
	e.held[name] = nil
	if name < step.Names {
		delete(e.b.mem, e.named[name])
		e.named[name] = 0
	}
}

// Grow makes room for prompts of rows tokens and for logitRows rows of logits. It never shrinks, and what the buffers
// held is lost.
func (e *exec) Grow(rows, logitRows int) error {
	if rows < 0 || rows > maxSize || logitRows < 0 || logitRows > maxSize {
		return fmt.Errorf("webgpu: grow: %d rows, %d rows of logits: want 0…%d", rows, logitRows, maxSize)
	}
	key := e.shape.KVHeads * e.shape.HeadDim
	if rows > e.rows {
		e.rows = 0
		e.drop(step.V)
		if err := e.replace(step.X, "X", rows*e.shape.Hidden); err != nil {
			return err
		}
		if err := e.replace(step.K, "K, V", 2*rows*key); err != nil {
			return err
		}
		kv, half := e.held[step.K], int64(rows*key)*4
		e.b.mem[e.named[step.K]].size = half
		e.named[step.V] = e.b.part(kv, half, half)
		e.rows = rows
	}
	if logitRows > e.logitRows {
		e.logitRows = 0
		if err := e.replace(step.Logits, "logits", logitRows*e.shape.Vocab); err != nil {
			return err
		}
		e.logitRows = logitRows
	}
	return nil
}

// Scratch gives the buffer behind a name, 0 before Grow made it.
func (e *exec) Scratch(n step.Name) step.Buffer {
	if n >= step.Names {
		return 0
	}
	return e.named[n]
}

// Close frees the scratch.
func (e *exec) Close() {
	if !e.b.execs[e] {
		return
	}
	e.End()
	for arena := range e.sessions {
		e.leave(arena)
	}
	for name := range scratches {
		e.drop(name)
	}
	for dst, l := range e.views {
		delete(e.views, dst)
		e.b.release(l.params)
	}
	e.b.release(e.params)
	delete(e.b.execs, e)
}

// leave forgets the session of an arena.
func (e *exec) leave(arena step.Buffer) {
	s := e.sessions[arena]
	if s == nil {
		return
	}
	e.endOn(s)
	e.unrecord(s)
	s.keeper.close()
	delete(e.sessions, arena)
	for _, m := range []*memory{s.mem, s.scores, s.parts} {
		e.b.release(m)
	}
}

// forget drops the groups and recordings that bind a buffer which is about to go.
func (e *exec) forget(buf gpu.Buffer) {
	for _, n := range e.nodes {
		for key, g := range n.groups {
			if slices.Contains(g.buffers, buf) {
				e.endOn(key.session)
				e.unrecord(key.session)
				delete(n.groups, key)
			}
		}
	}
	for _, s := range e.sessions {
		s.keeper.forget(buf)
	}
	e.forgetViews(buf)
}

// binding finds the buffer behind a shader's variable.
func (e *exec) binding(name string, n *node, s *session) (gpu.Binding, error) {
	at := func(m *memory) (gpu.Binding, error) {
		if m == nil {
			return gpu.Binding{}, fmt.Errorf("webgpu: run: %s: there is no %s yet", n.variant.Kernel, name)
		}
		return gpu.Binding{Buf: m.buf}, nil
	}
	if n.from.k != nil {
		if b, ok := n.from.binding(name, n); ok {
			return b, nil
		}
	}
	switch name {
	case "p":
		return gpu.Binding{Buf: e.params.buf, Off: n.at, Size: paramAlign}, nil
	case "codes":
		return n.codes, nil
	case "scales":
		return n.scales, nil
	case "norm", "weights":
		return n.norm, nil
	case "rope":
		if e.shape.RotDim == 0 {
			return at(s.mem) // never read
		}
		return e.ropeAt, nil
	case "session":
		return at(s.mem)
	case "arena":
		return gpu.Binding{Buf: s.arena}, nil
	case "scores":
		return at(s.scores)
	case "parts":
		return at(s.parts)
	case "x":
		return at(e.held[n.x])
	case "y":
		return at(e.held[n.y])
	}
	return at(e.held[map[string]step.Name{
		"q": step.Q, "kv": step.K, "a": step.A, "f": step.F, "n": step.N, "raw": raw, "lse": lses, "logits": step.Logits,
	}[name]])
}

// boundGroup is a bind group and what it binds.
type boundGroup struct {
	id      gpu.Group
	buffers []gpu.Buffer
}

// dispatch completes a node for a session and a number of rows.
func (e *exec) dispatch(n *node, s *session, rows int) (gpu.Dispatch, error) {
	p, err := e.b.lib.get(n.choose(s, rows))
	if err != nil {
		return gpu.Dispatch{}, err
	}
	key := groupKey{s, p.id}
	g, ok := n.groups[key]
	if !ok {
		bindings := make([]gpu.Binding, len(p.bindings))
		for i, b := range p.bindings {
			if bindings[i], err = e.binding(b.Name, n, s); err != nil {
				return gpu.Dispatch{}, err
			}
			g.buffers = append(g.buffers, bindings[i].Buf)
		}
		if g.id, err = e.b.dev.Bind(p.id, bindings); err != nil {
			return gpu.Dispatch{}, fmt.Errorf("webgpu: run: %s: %w", n.variant.Label(), err)
		}
		n.groups[key] = g
	}
	x, y, z := n.size(e.b.lib, rows)
	return gpu.Dispatch{Pipeline: p.id, Group: g.id, X: x, Y: y, Z: z}, nil
}

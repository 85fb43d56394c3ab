package kernel

import (
	"fmt"
	"strconv"

	"kvlens/cache"
	"kvlens/shaders"
	"kvlens/wasm/gpu"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// maxSize bounds every size of a shape: element numbers of any matrix or scratch buffer then fit 32 bits in practice,
// and sizes in bytes are far from overflowing. The sampling kernel sorts by 24 bits of the id.
const maxSize = 1 << 24

// operation is a compiled step.Op.
type operation struct {
	nodes  []*node
	stored []*node // instead of nodes for one row that is stored already
	replay []*node // instead of nodes in the recorded step
	kind   kind
	layer  int
}

type kind uint8

const (
	other kind = iota
	embedding
	attending
	storing
	heading
	mixing     // queries, keys and values
	projecting // the attention's output
)

// Compile checks a program, compiles its kernels and allocates its scratch.
func (b *Backend) Compile(p *step.Program) (step.Exec, error) {
	fail := func(what string, err error) (step.Exec, error) {
		return nil, fmt.Errorf("webgpu: compile: %s: %w", what, err)
	}
	if err := checkShape(&p.Shape, p.Chunk); err != nil {
		return fail("shape", err)
	}
	e := newExec(b, p)
	if err := e.findRope(p.Rope); err != nil {
		return fail("RoPE table", err)
	}
	for i, op := range p.Ops {
		o, err := e.operation(op)
		if err != nil {
			return fail(fmt.Sprintf("op %d, %T", i, op), err)
		}
		e.ops = append(e.ops, o)
	}
	for i, advance := range []uint32{0, 1} {
		var list []*node
		e.sample[i] = e.add(&list, node{
			variant: shaders.Variant{Kernel: "sample"}, grid: func() (x, y int) { return 1, 1 },
		}, uint32(p.Shape.Vocab), advance)
	}
	if err := b.lib.compile(e.variants()...); err != nil {
		return fail("kernels", err)
	}
	b.execs[e] = true
	if err := e.allocate(); err != nil {
		e.Close()
		return fail("scratch", err)
	}
	return e, nil
}

func checkShape(s *step.Shape, chunk int) error {
	for _, c := range []struct {
		name string
		n    int
	}{
		{"layers", s.Layers},
		{"hidden", s.Hidden},
		{"heads", s.Heads},
		{"KV heads", s.KVHeads},
		{"head dimension", s.HeadDim},
		{"FFN", s.FFN},
		{"vocabulary", s.Vocab},
		{"chunk", chunk},
		{"query width", s.Heads * s.HeadDim},
		{"key width", s.KVHeads * s.HeadDim},
	} {
		if c.n < 1 || c.n > maxSize {
			return fmt.Errorf("%s is %d: want 1…%d", c.name, c.n, maxSize)
		}
	}
	switch {
	case s.Heads%s.KVHeads != 0:
		return fmt.Errorf("%d heads do not share %d KV heads evenly", s.Heads, s.KVHeads)
	case s.RotDim < 0 || s.RotDim > s.HeadDim || s.RotDim%2 != 0:
		return fmt.Errorf("%d rotated channels of %d", s.RotDim, s.HeadDim)
	case s.HeadDim%2 != 0 || s.HeadDim > 512:
		return fmt.Errorf("head dimension is %d: want an even number up to 512", s.HeadDim)
	}
	return nil
}

// findRope finds the table of cos and sin; it says how many positions there are.
func (e *exec) findRope(buf step.Buffer) error {
	if e.shape.RotDim == 0 {
		e.positions = cache.DeadPosition - 1
		e.ropeAt = gpu.Binding{}
		return nil
	}
	m, err := e.b.find(buf, 0, 0)
	if err != nil {
		return err
	}
	e.positions = int(m.size) / (e.shape.RotDim * 4)
	e.ropeAt = gpu.Binding{Buf: m.buf}
	return nil
}

// add appends a node to a list, with its place in the buffer of parameters.
func (e *exec) add(to *[]*node, n node, params ...uint32) *node {
	n.params, n.at = params, e.paramBytes
	n.groups = map[groupKey]boundGroup{}
	e.paramBytes += paramAlign
	e.nodes = append(e.nodes, &n)
	*to = append(*to, &n)
	return &n
}

func (e *exec) operation(op step.Op) (*operation, error) {
	s := &e.shape
	switch o := op.(type) {
	case step.Embed:
		return e.embed(o)
	case step.QKV:
		return e.qkv(o)
	case step.Attend:
		return e.attend(o.Layer), e.checkLayer(o.Layer)
	case step.Store:
		out := &operation{kind: storing, layer: o.Layer}
		e.store(&out.nodes, o.Layer, false)
		e.store(&out.replay, o.Layer, true)
		return out, e.checkLayer(o.Layer)
	case step.Project:
		in := map[step.Name]int{step.A: s.Heads * s.HeadDim, step.F: s.FFN}[o.In]
		if in == 0 {
			return nil, fmt.Errorf("input %d is neither A nor F", o.In)
		}
		out := &operation{}
		err := e.matmul(&out.nodes, o.W, s.Hidden, in, product{
			x: o.In, y: step.X, add: true, count: wordRows, from: wordZero, to: wordFrom, stride: s.Hidden,
		})
		if err == nil && o.In == step.A {
			out.kind = projecting
			e.outputs = append(e.outputs, o.W)
			err = e.output(&out.replay, o.W)
		}
		return out, err
	case step.GateUp:
		return e.gateUp(o)
	case step.Norm:
		w, err := e.b.vector(o.W, s.Hidden)
		out := &operation{kind: heading}
		e.add(&out.nodes, node{
			variant: shaders.Variant{Kernel: "norm"}, norm: w, x: step.X,
			threads: func(rows int) int { return rows * s.Hidden },
		}, uint32(s.Hidden), float(s.Eps))
		return out, err
	case step.Head:
		out := &operation{kind: heading}
		return out, e.matmul(&out.nodes, o.W, s.Vocab, s.Hidden, product{
			x: step.N, y: step.Logits, count: wordLogitRows, from: wordZero, to: wordZero, stride: s.Vocab,
		})
	}
	return nil, fmt.Errorf("is no operation of this backend")
}

func (e *exec) checkLayer(layer int) error {
	if layer < 0 || layer >= e.shape.Layers {
		return fmt.Errorf("layer %d of %d", layer, e.shape.Layers)
	}
	return nil
}

func (e *exec) embed(o step.Embed) (*operation, error) {
	s := &e.shape
	parts, err := e.b.weights(o.Table, s.Vocab, s.Hidden)
	out := &operation{kind: embedding}
	for _, p := range parts {
		e.add(&out.nodes, node{
			variant: shaders.Variant{Kernel: "embed", Includes: map[string]string{"layout": layoutNames[o.Table.Layout]}},
			codes:   p.codes, scales: p.scales, x: step.X,
			threads: func(rows int) int { return rows * ((s.Hidden + 3) / 4) },
		}, uint32(p.rows), uint32(s.Hidden), p.codesAt, p.scalesAt, uint32(p.first))
	}
	return out, err
}

// product says what a matmul works on: where rows are counted and found is named by words of the session buffer.
type product struct {
	x, y            step.Name
	norm            *step.Tensor // of the input, or nil
	add             bool
	count, from, to uint32
	first, stride   int // column of y, and its width
}

func (e *exec) matmul(to *[]*node, t step.Tensor, rows, cols int, p product) error {
	parts, err := e.b.weights(t, rows, cols)
	if err != nil {
		return err
	}
	file, lanes := e.b.lib.product(t.Layout)
	includes := map[string]string{"layout": layoutNames[t.Layout], "input": "plain", "product": file}
	var norm gpu.Binding
	if p.norm != nil {
		includes["input"] = "normed"
		if norm, err = e.b.vector(*p.norm, cols); err != nil {
			return fmt.Errorf("norm %w", err)
		}
	}
	for _, w := range parts {
		e.add(to, node{
			variant: shaders.Variant{Kernel: "matmul", Includes: includes, Consts: map[string]string{"ADD": strconv.FormatBool(p.add)}},
			tiled:   true, codes: w.codes, scales: w.scales, norm: norm, x: p.x, y: p.y,
			threads: func(int) int { return w.rows * lanes }, work: w.rows * cols,
		}, uint32(w.rows), uint32(cols), w.codesAt, w.scalesAt, uint32(p.first+w.first), uint32(p.stride),
			p.count, p.from, p.to, float(e.shape.Eps))
	}
	return nil
}

// stack multiplies matrices that lie one over the other into the raw buffer, one by one.
func (e *exec) stack(to *[]*node, w step.Stack, norm step.Tensor, rows int) error {
	first := 0
	for i, t := range w {
		if t.Rows < 1 || t.Rows > rows-first {
			return fmt.Errorf("member %d has %d rows, %d are left", i, t.Rows, rows-first)
		}
		err := e.matmul(to, t, t.Rows, e.shape.Hidden, product{
			x: step.X, y: raw, norm: &norm, count: wordRows, from: wordFrom, to: wordZero, first: first, stride: rows,
		})
		if err != nil {
			return fmt.Errorf("member %d %w", i, err)
		}
		first += t.Rows
	}
	if first != rows {
		return fmt.Errorf("%d rows are missing", rows-first)
	}
	e.rawWidth = max(e.rawWidth, rows)
	return nil
}

// whole is the single part of a stack that one kernel can take.
func (e *exec) whole(w step.Stack, rows int) (weightPart, quant.Layout, bool) {
	if len(w) != 1 || w[0].Rows != rows {
		return weightPart{}, 0, false
	}
	parts, err := e.b.weights(w[0], rows, e.shape.Hidden)
	if err != nil || len(parts) != 1 {
		return weightPart{}, 0, false // the general way words the error
	}
	return parts[0], w[0].Layout, true
}

func (e *exec) qkv(o step.QKV) (*operation, error) {
	if err := e.checkLayer(o.Layer); err != nil {
		return nil, err
	}
	s := &e.shape
	rows := (s.Heads + 2*s.KVHeads) * s.HeadDim
	out := &operation{kind: mixing, layer: o.Layer}
	w, layout, ok := e.whole(o.W, rows)
	if !ok {
		if err := e.stack(&out.nodes, o.W, o.Norm, rows); err != nil {
			return nil, err
		}
		e.add(&out.nodes, node{
			variant: shaders.Variant{Kernel: "rope"},
			threads: func(n int) int { return n * rows / 2 },
		}, uint32(s.Heads), uint32(s.KVHeads), uint32(s.HeadDim), uint32(s.RotDim), flag(s.Neox))
		return out, nil
	}
	norm, err := e.b.vector(o.Norm, s.Hidden)
	if err != nil {
		return nil, fmt.Errorf("norm %w", err)
	}
	file, lanes := e.b.lib.product(layout)
	fused := func(to *[]*node, sink string, tiled, pages bool) {
		e.add(to, node{
			variant: shaders.Variant{Kernel: "qkv", Includes: map[string]string{"layout": layoutNames[layout], "product": file, "sink": sink}},
			tiled:   tiled, pages: pages, codes: w.codes, scales: w.scales, norm: norm, x: step.X,
			threads: func(int) int { return rows / 2 * lanes }, work: rows * s.Hidden,
		}, uint32(s.Hidden), w.codesAt, w.scalesAt, float(s.Eps), uint32(o.Layer),
			uint32(s.Heads), uint32(s.KVHeads), uint32(s.HeadDim), uint32(s.RotDim), flag(s.Neox))
	}
	fused(&out.nodes, "rows", true, false)
	if !s.Neox {
		fused(&out.replay, "slots", false, true)
	}
	return out, nil
}

func (e *exec) gateUp(o step.GateUp) (*operation, error) {
	s := &e.shape
	out := &operation{}
	w, layout, ok := e.whole(o.W, 2*s.FFN)
	if !ok {
		if err := e.stack(&out.nodes, o.W, o.Norm, 2*s.FFN); err != nil {
			return nil, err
		}
		e.add(&out.nodes, node{
			variant: shaders.Variant{Kernel: "silu"},
			threads: func(n int) int { return n * s.FFN },
		}, uint32(s.FFN))
		return out, nil
	}
	norm, err := e.b.vector(o.Norm, s.Hidden)
	if err != nil {
		return nil, fmt.Errorf("norm %w", err)
	}
	file, lanes := e.b.lib.product(layout)
	e.add(&out.nodes, node{
		variant: shaders.Variant{Kernel: "gateup", Includes: map[string]string{"layout": layoutNames[layout], "product": file}},
		tiled:   true, codes: w.codes, scales: w.scales, norm: norm, x: step.X,
		threads: func(int) int { return s.FFN * lanes }, work: 2 * s.FFN * s.Hidden,
	}, uint32(s.FFN), uint32(s.Hidden), w.codesAt, w.scalesAt, float(s.Eps))
	return out, nil
}

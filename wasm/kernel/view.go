package kernel

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"kvlens/cache"
	"kvlens/shaders"
	"kvlens/wasm/gpu"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// look is what views of one destination need.
type look struct {
	params *memory
	key    groupKey
	group  boundGroup
}

// Look runs the kernel of views.
func (e *exec) Look(a *step.Args, v *step.View) error {
	s, groups, err := e.viewed(a, v)
	if err != nil {
		return err
	}
	width, rows := int64(0), int64(0)
	group := e.shape.Heads / e.shape.KVHeads
	for h := v.Head; h < v.Head+v.Heads; h++ {
		width = max(width, int64(up(a.Cache.List(v.Layer, h/group).Slots, v.Pool)))
	}
	width = max(width, int64(up(a.Pos+a.From+v.Row+v.Rows, v.Pool)))
	ahead := a.From + v.Row - v.Base
	rows = int64(ahead/v.Pool + groups)
	if width > v.Stride || rows > math.MaxInt32/v.Stride {
		return failed("view: %d rows of %d cells, %d bytes apart", rows, width, v.Stride)
	}
	dst, err := e.b.find(v.Dst, v.Off, v.Stride*(rows-1)+(width+3)&^3)
	if err == nil && v.Sums >= 0 {
		dst, err = e.b.find(v.Dst, v.Sums, 16*int64(v.Heads))
	}
	if err != nil {
		return err
	}
	l, err := e.lookAt(dst)
	if err != nil {
		return err
	}
	sums := uint32(none)
	if v.Sums >= 0 {
		sums = uint32((dst.base + v.Sums) / 4)
	}
	shape := &e.shape
	err = e.b.dev.Write(l.params.buf, 0, quant.Bytes([]uint32{
		uint32(v.Layer), uint32(shape.Heads), uint32(shape.KVHeads), uint32(shape.HeadDim),
		float(float32(1 / math.Sqrt(float64(shape.HeadDim)))), uint32(v.Head), flag(v.Heads > 1), uint32(v.Row), uint32(v.Rows),
		uint32(a.Pos + a.From + v.Row), uint32(ahead), uint32(v.Pool),
		uint32((dst.base + v.Off) / 4), uint32(v.Stride / 4), sums, 0,
	}))
	if err != nil {
		return fmt.Errorf("webgpu: view: %w", err)
	}
	ready := a.Stored && e.plan != nil
	if p := e.plan; p != nil && !ready && v.Rows == 1 && (p.Store.Rank || p.Store.Virtual) {
		if _, err := e.row(a, v.Layer, v.Row); err != nil {
			return err
		}
		ready = true
	}
	d, err := e.viewDispatch(l, s, dst, ready)
	if err != nil {
		return err
	}
	d.X, d.Y, d.Z = uint32(groups), 1, 1
	if err := e.b.dev.Run([]gpu.Dispatch{d}); err != nil {
		return fmt.Errorf("webgpu: view: %w", err)
	}
	e.b.queue.add(2 * float64(v.Heads*v.Rows*shape.HeadDim) * float64(width) * float64(v.Pool))
	return e.b.drain()
}

// viewed checks a view, tells the kernels of its cache, and counts its rows of cells.
func (e *exec) viewed(a *step.Args, v *step.View) (s *session, groups int, err error) {
	shape := &e.shape
	if err := e.checkLayer(v.Layer); err != nil {
		return nil, 0, failed("view: %v", err)
	}
	switch {
	case a.Cache == nil || a.Arena == 0:
		return nil, 0, failed("view: no cache")
	case v.Head < 0 || v.Heads < 1 || v.Heads > shape.Heads || v.Head > shape.Heads-v.Heads,
		v.Row < 0 || v.Rows < 1 || v.Rows > e.chunk || v.Row > e.chunk-v.Rows:
		return nil, 0, failed("view: heads %d+%d of %d, rows %d+%d of %d", v.Head, v.Heads, shape.Heads, v.Row, v.Rows, e.chunk)
	case v.Pool < 1 || v.Pool > maxSize || a.From < 0 || a.Pos < 0 || v.Base < 0 || v.Base > a.From+v.Row,
		v.Heads > 1 && v.Rows > 1, v.Off < 0 || v.Off%4 != 0 || v.Stride < 4 || v.Stride%4 != 0,
		v.Sums%4 != 0 && v.Sums != -1 || v.Sums >= 0 && v.Rows != 1:
		return nil, 0, failed("view: %+v", *v)
	}
	groups = v.Heads
	if v.Heads == 1 {
		ahead := a.From + v.Row - v.Base
		groups = (ahead+v.Rows-1)/v.Pool - ahead/v.Pool + 1
	}
	if s, err = e.session(a); err != nil {
		return nil, 0, err
	}
	e.endOn(s)
	err = e.header(s, func(h []uint32) { h[wordStep] = 0 })
	if err == nil {
		err = e.lengths(s, a.Cache, v.Layer)
	}
	if err == nil {
		err = e.tables(s, a.Cache, extent{})
	}
	return s, groups, err
}

// lookAt finds or makes what views of a destination need.
func (e *exec) lookAt(dst *memory) (*look, error) {
	if l := e.views[dst.buf]; l != nil {
		return l, nil
	}
	params, err := e.b.alloc(cache.Views, "view parameters", paramAlign)
	if err != nil {
		return nil, err
	}
	l := &look{params: params}
	e.views[dst.buf] = l
	return l, nil
}

// viewDispatch is the kernel of views: of stored keys, or of the logits that a plan has made of a decoded row.
func (e *exec) viewDispatch(l *look, s *session, dst *memory, decoded bool) (gpu.Dispatch, error) {
	n := node{variant: shaders.Variant{Kernel: "view", Includes: map[string]string{"from": "keys"}}, pages: true}
	if decoded {
		n.variant.Includes["from"] = "row"
		n.variant.Consts = map[string]string{"SPLITS": strconv.Itoa(e.splits()) + "u"}
	}
	p, err := e.b.lib.get(n.choose(s, 1))
	if err != nil {
		return gpu.Dispatch{}, err
	}
	if key := (groupKey{s, p.id}); l.group.id == 0 || l.key != key {
		g := boundGroup{}
		bindings := make([]gpu.Binding, len(p.bindings))
		for i, b := range p.bindings {
			switch b.Name {
			case "p":
				bindings[i] = gpu.Binding{Buf: l.params.buf}
			case "cells":
				bindings[i] = gpu.Binding{Buf: dst.buf}
			default:
				if bindings[i], err = e.binding(b.Name, &n, s); err != nil {
					return gpu.Dispatch{}, err
				}
			}
			g.buffers = append(g.buffers, bindings[i].Buf)
		}
		if g.id, err = e.b.dev.Bind(p.id, bindings); err != nil {
			return gpu.Dispatch{}, fmt.Errorf("webgpu: view: %w", err)
		}
		l.key, l.group = key, g
	}
	return gpu.Dispatch{Pipeline: p.id, Group: l.group.id}, nil
}

// forgetViews drops what binds a buffer that is about to go, and all that served a destination which goes.
func (e *exec) forgetViews(buf gpu.Buffer) {
	for dst, l := range e.views {
		if slices.Contains(l.group.buffers, buf) {
			l.group = boundGroup{}
		}
		if dst == buf {
			delete(e.views, dst)
			e.b.release(l.params)
		}
	}
}

var _ step.Viewer = (*exec)(nil)

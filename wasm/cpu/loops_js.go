package cpu

import (
	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref"
	"kvlens/wasm/simd"
	"kvlens/wasm/step"
)

func newBackend(led *cache.Ledger, o Options) step.Backend {
	if !simd.Available() {
		return withoutSIMD(led, "no SIMD")
	}
	detail := "SIMD, 16-bit activations"
	if o.Float {
		detail = "SIMD, float activations"
	}
	l := &loops{Loops: ref.Float32Loops(), float: o.Float, led: led}
	return &backend{ref.NewWith(led, l, step.Info{Name: "cpu", Detail: detail}), l}
}

// backend gives the loops their scratch while it has programs.
type backend struct {
	*ref.Backend
	loops *loops
}

// Compile makes the scratch of the products beside the program's own.
func (b *backend) Compile(p *step.Program) (step.Exec, error) {
	e, err := b.Backend.Compile(p)
	if err != nil {
		return nil, err
	}
	s := &p.Shape
	b.loops.open(p.Chunk, max(s.Hidden, s.Heads*s.HeadDim, s.FFN))
	// Ref's programs show views, follow plans and give what leaves.
	return &exec{e, e.(step.Viewer), e.(step.Scorer), e.(step.Packer), b.loops, false}, nil
}

type exec struct {
	step.Exec
	step.Viewer
	step.Scorer
	step.Packer
	loops  *loops
	closed bool
}

func (e *exec) Close() {
	if !e.closed {
		e.closed = true
		e.loops.close()
	}
	e.Exec.Close()
}

// loops are ref's loops with the costly ones replaced. They are used from one goroutine: Go has one thread here.
type loops struct {
	ref.Loops
	float bool
	led   *cache.Ledger

	acts     *simd.Activations
	scratch  []float32 // of a product
	programs int       // that are compiled
	counted  int64     // bytes of acts and scratch that are in the ledger
}

// open makes scratch for products of rows vectors of up to cols elements. It never shrinks before the last program
// is closed.
func (l *loops) open(rows, cols int) {
	l.programs++
	if n := max(simd.ScratchFor(cols), unpacked, minRows*cols); len(l.scratch) < n {
		l.scratch = make([]float32, n)
	}
	if !l.float {
		l.acts = l.acts.Grow(rows, cols)
	}
	l.count()
}

func (l *loops) close() {
	if l.programs--; l.programs == 0 {
		l.acts, l.scratch = nil, nil
		l.count()
	}
}

// count enters in the ledger what the scratch has changed by.
func (l *loops) count() {
	if now := l.acts.Bytes() + int64(4*len(l.scratch)); now != l.counted {
		l.led.Add(cache.Scratch, now-l.counted, now-l.counted)
		l.counted = now
	}
}

func (l *loops) RMSNorm(dst, x, w []float32, eps float32) { simd.RMSNorm(dst, x, w, eps) }

func (l *loops) SiLUMul(gate, up []float32) { simd.SiLUMul(gate, up) }

// MatMul multiplies in integers where weights and activations are, else in float32 on unpacked weights.
func (l *loops) MatMul(dst []float32, stride int, w *quant.Matrix, from, to int, x []float32, n int, add bool) {
	if n == 0 || from == to {
		return
	}
	if l.float || w.Layout < quant.Layout4 {
		l.matMulFloat(dst, stride, w, from, to, x, n, add)
		return
	}
	l.acts.Quantize(x, n, w.Cols)
	codes, scales := planes(w, from, to)
	if w.Layout == quant.Layout4 {
		simd.MatMul4(dst, stride, codes, quant.Uint32s(scales), l.acts, add, l.scratch)
	} else {
		simd.MatMul8(dst, stride, codes, quant.Uint16s(scales), l.acts, add, l.scratch)
	}
}

// Rows of weights are unpacked minRows or more at a time, up to unpacked floats, which stay in the nearest cache.
const (
	unpacked = 8192
	minRows  = 4
)

func (l *loops) matMulFloat(dst []float32, stride int, w *quant.Matrix, from, to int, x []float32, n int, add bool) {
	rows := to - from
	if w.Layout != quant.LayoutF32 {
		rows = min(rows, max(minRows, unpacked/w.Cols))
	}
	for r := from; r < to; r += rows {
		z := min(r+rows, to)
		simd.MatMul(dst[r-from:], stride, l.unpack(w, r, z), z-r, w.Cols, x, n, add)
	}
}

// unpack gives rows [from, to) as floats; l.scratch has room for them.
func (l *loops) unpack(w *quant.Matrix, from, to int) []float32 {
	codes, scales := planes(w, from, to)
	switch w.Layout {
	case quant.LayoutF32:
		return quant.Float32s(codes)
	case quant.LayoutF16:
		simd.Halves(l.scratch, quant.Uint16s(codes))
	case quant.Layout4:
		simd.Weights4(l.scratch, codes, quant.Uint32s(scales))
	default:
		simd.Weights8(l.scratch, codes, quant.Uint16s(scales))
	}
	return l.scratch
}

// planes are the codes and scales of rows [from, to).
func planes(w *quant.Matrix, from, to int) (codes, scales []byte) {
	code, scale := w.Layout.CodeBytes(w.Cols), w.Layout.ScaleBytes(w.Cols)
	off, _ := w.Layout.Planes(w.Rows, w.Cols)
	return w.Data[from*code : to*code], w.Data[int(off)+from*scale : int(off)+to*scale]
}

// Attend is in the module but for head sizes that do not fill its vectors.
func (l *loops) Attend(a *ref.Attention) {
	if a.Dim%8 != 0 {
		l.Loops.Attend(a)
		return
	}
	q := simd.Queries{
		Q: a.Q, Out: a.Out, Rows: a.Rows, Heads: a.Heads, Stride: a.Stride, Dim: a.Dim, Scale: a.Scale, Work: a.Work,
	}
	p := simd.Pages{
		Arena: a.Arena, Keys: a.List.Keys, Values: a.List.Values, Positions: a.List.Positions,
		KeyLanes: a.Geo.PageK, ValueLanes: a.Geo.PageV,
		KeyHalf: a.Geo.Key == cache.F16, ValueHalf: a.Geo.Value == cache.F16, Slots: a.List.Slots,
	}
	simd.Attend(&q, &p, &simd.Rows{K: a.NewK, V: a.NewV, Stride: a.NewStride, First: a.First})
}

// Dots are the logits of scoring.
func (l *loops) Dots(out, q, k []float32, scale float32) {
	if len(q)%4 != 0 {
		l.Loops.Dots(out, q, k, scale)
		return
	}
	simd.Logits(out, q, k, scale)
}

// Softmax works in the scratch of products, where the row fits.
func (l *loops) Softmax(row []float32) {
	if len(row)+3 > len(l.scratch) {
		l.Loops.Softmax(row)
		return
	}
	simd.Softmax(row, l.scratch)
}

// Gather unpacks lanes in the module, where they fill its vectors.
func (l *loops) Gather(dst []float32, p *ref.Lanes, slots []uint32) {
	if p.Dim%8 != 0 {
		l.Loops.Gather(dst, p, slots)
		return
	}
	simd.Gather(dst, p.Arena, p.Table, p.Lanes, p.Format == cache.F16, slots, p.Dim)
}

// Columns are sums of attention.
func (l *loops) Columns(c *ref.Columns) {
	if c.Dim%4 != 0 {
		l.Loops.Columns(c)
		return
	}
	simd.Columns(c.Out, c.Q, c.Rows, c.Stride, c.K, c.Dim, c.First, c.Scale, c.Work)
}

// Mass is in the module for every size.
func (l *loops) Mass(out, x []float32, cols int, by float32) { simd.Mass(out, x, cols, by) }

// Work is the scratch of either attention.
func (l *loops) Work(s *step.Shape) int {
	return max(l.Loops.Work(s), simd.WorkFor(ref.AttendRows, s.Heads/s.KVHeads, s.HeadDim))
}

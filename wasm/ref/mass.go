package ref

import (
	"kvlens/cache/policy"
	"kvlens/wasm/quant"
)

// massRows is how many values are multiplied at a time.
const massRows = 32

// weighValues sets OutL1: how much a token's value adds to the layer's output, over the query heads that read it.
func (e *exec) weighValues(layer int, heads []policy.Candidates) error {
	f, s, d := &e.follow, &e.shape, e.shape.HeadDim
	w := e.outputs[layer]
	if w == nil {
		return e.failed("layer %d has no output projection", layer)
	}
	room, tile := f.tokens.room, min(massRows, e.chunk)
	if err := e.atLeast(&f.mass, "mass of values", len(heads)*room); err != nil {
		return err
	}
	if err := e.atLeast(&f.output, "output of values", s.Hidden*(d+e.b.workers*tile)); err != nil {
		return err
	}
	clear(f.mass.data)
	part, products := f.output.data[:s.Hidden*d], f.output.data[s.Hidden*d:]
	group := s.Heads / s.KVHeads
	for h := range s.Heads {
		m := columns(w, h*d, d, part)
		c := &heads[h/group]
		c.OutL1 = f.mass.data[h/group*room:][:len(c.Pos)]
		e.b.parallel(len(c.Pos), tile, func(worker, from, to int) {
			out := products[worker*tile*s.Hidden:]
			for ; from < to; from += tile {
				n := min(tile, to-from)
				e.b.loops.MatMul(out, s.Hidden, m, 0, s.Hidden, c.V[from*d:][:n*d], n, false)
				e.b.loops.Mass(c.OutL1[from:][:n], out, s.Hidden, 1/float32(group))
			}
		})
	}
	return nil
}

// columns is a matrix of some columns of another. Where they are whole groups of weights it is packed alike, so that
// products with it are those of the matrix itself; data has room for it as floats.
func columns(w *quant.Matrix, from, n int, data []float32) *quant.Matrix {
	m := &quant.Matrix{Layout: w.Layout, Rows: w.Rows, Cols: n}
	if w.Layout >= quant.Layout4 && (from%group != 0 || n%group != 0) {
		m.Layout = quant.LayoutF32
	}
	m.Data = quant.Bytes(data)[:m.Layout.Size(m.Rows, n)]
	row := make([]float32, w.Cols)
	for r := range w.Rows {
		if m.Layout != w.Layout {
			quant.DequantizeRow(row, *w, r)
			copy(quant.Float32s(m.Codes(r)), row[from:])
			continue
		}
		copy(m.Codes(r), w.Codes(r)[w.Layout.CodeBytes(from):])
		copy(m.Scales(r), w.Scales(r)[w.Layout.ScaleBytes(from):])
	}
	return m
}

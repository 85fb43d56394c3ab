package ref

import (
	"encoding/binary"
	"math"

	"kvlens/wasm/step"
)

// Look computes attention rows in float64 and writes their codes.
func (e *exec) Look(a *step.Args, v *step.View) error {
	if err := e.checkView(a, v); err != nil {
		return err
	}
	pages, err := e.pages(a, v.Layer)
	if err != nil {
		return err
	}
	group := e.shape.Heads / e.shape.KVHeads
	for h := v.Head; h < v.Head+v.Heads; h++ {
		p := &pages[h/group]
		for row := v.Row; row < v.Row+v.Rows; row++ {
			x := e.see(a, p, v.Layer, h, row).softmax()
			cells := (int64(len(x)) + int64(v.Pool) - 1) / int64(v.Pool)
			if cells > v.Stride {
				return e.failed("view: %d cells in rows of %d", cells, v.Stride)
			}
			at := v.Off + v.Stride*int64(h-v.Head+(a.From+row-v.Base)/v.Pool)
			dst, err := e.b.bytes(v.Dst, at, cells)
			if err != nil {
				return e.failed("view: %v", err)
			}
			for i, prob := range x {
				dst[i/v.Pool] = max(dst[i/v.Pool], step.Code(float64(prob)))
			}
			if v.Sums < 0 {
				continue
			}
			if dst, err = e.b.bytes(v.Dst, v.Sums+16*int64(h-v.Head), 16); err != nil {
				return e.failed("view: %v", err)
			}
			sum := summary(x, a.Pos+a.From+row)
			for i, f := range [4]float32{sum.Sink, sum.Local, sum.Entropy, sum.Top1} {
				binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(f))
			}
		}
	}
	return nil
}

func (e *exec) checkView(a *step.Args, v *step.View) error {
	s := &e.shape
	if err := e.checkLayer(v.Layer); err != nil {
		return e.failed("view: %v", err)
	}
	switch {
	case v.Head < 0 || v.Heads < 1 || v.Heads > s.Heads || v.Head > s.Heads-v.Heads,
		v.Row < 0 || v.Rows < 1 || v.Rows > e.chunk || v.Row > e.chunk-v.Rows:
		return e.failed("view: heads %d+%d of %d, rows %d+%d of %d", v.Head, v.Heads, s.Heads, v.Row, v.Rows, e.chunk)
	case v.Pool < 1 || a.From < 0 || a.Pos < 0 || v.Base < 0 || v.Base > a.From+v.Row,
		v.Heads > 1 && v.Rows > 1, v.Off < 0 || v.Off%4 != 0 || v.Stride < 4 || v.Stride%4 != 0 || v.Sums%4 != 0 && v.Sums != -1 || v.Sums >= 0 && v.Rows != 1:
		return e.failed("view: %+v", *v)
	}
	return nil
}

// Scores writes the logits of one head for one chunk row.
func (e *exec) Scores(a *step.Args, layer, head, row int, out []float32) error {
	if err := e.checkView(a, &step.View{Layer: layer, Head: head, Heads: 1, Row: row, Rows: 1, Pool: 1, Stride: 4, Sums: -1}); err != nil {
		return err
	}
	pages, err := e.pages(a, layer)
	if err != nil {
		return err
	}
	x := e.see(a, &pages[head/(e.shape.Heads/e.shape.KVHeads)], layer, head, row).logits
	if len(out) < len(x) {
		return e.failed("scores: %d numbers for %d positions", len(out), len(x))
	}
	for i := copy(out, x); i < len(out); i++ {
		out[i] = float32(math.Inf(-1))
	}
	return nil
}

// summary describes a softmax row, by position, of the query at position at.
func summary(row []float32, at int) (s step.Sum) {
	var sink, local, entropy float64
	for pos, v := range row {
		prob := float64(v)
		s.Top1 = max(s.Top1, v)
		if prob > 0 {
			entropy -= prob * math.Log(prob)
		}
		switch {
		case pos < step.SinkTokens:
			sink += prob
		case pos > at-step.LocalTokens:
			local += prob
		}
	}
	s.Sink, s.Local, s.Entropy = float32(sink), float32(local), float32(entropy)
	return s
}

var _ step.Viewer = (*exec)(nil)

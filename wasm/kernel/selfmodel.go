package kernel

import (
	"math"

	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// selfModel is a model of arbitrary weights, all in one layout, for the self-test.
type selfModel struct {
	data   []byte
	rope   []float32
	random uint32
	ops    func(step.Buffer) []step.Op
}

// newSelfModel makes a model whose stacks are single matrices or, split, one for each member, as in files that mix types.
func newSelfModel(layout quant.Layout, split bool) *selfModel {
	m := &selfModel{random: 1}
	for pos := range selfPositions {
		for i := range selfShape.RotDim / 2 {
			sin, cos := math.Sincos(float64(pos) * math.Pow(1000, -2*float64(i)/float64(selfShape.RotDim)))
			m.rope = append(m.rope, float32(cos), float32(sin))
		}
	}
	s := &selfShape
	query, key := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	table := m.matrix(layout, s.Vocab, s.Hidden)
	stack := func(rows ...int) (out step.Stack) {
		if !split {
			sum := 0
			for _, n := range rows {
				sum += n
			}
			rows = []int{sum}
		}
		for _, n := range rows {
			out = append(out, m.matrix(layout, n, s.Hidden))
		}
		return out
	}
	qkv := stack(query, key, key)
	out := m.matrix(layout, s.Hidden, query)
	gateUp := stack(s.FFN, s.FFN)
	down := m.matrix(layout, s.Hidden, s.FFN)
	norm := m.matrix(quant.LayoutF32, 1, s.Hidden)
	m.ops = func(buf step.Buffer) []step.Op {
		at := func(t step.Tensor) step.Tensor { t.Buf = buf; return t }
		all := func(stack step.Stack) (out step.Stack) {
			for _, t := range stack {
				out = append(out, at(t))
			}
			return out
		}
		return []step.Op{
			step.Embed{Table: at(table)},
			step.QKV{Norm: at(norm), W: all(qkv)},
			step.Attend{},
			step.Store{},
			step.Project{In: step.A, W: at(out)},
			step.GateUp{Norm: at(norm), W: all(gateUp)},
			step.Project{In: step.F, W: at(down)},
			step.Norm{W: at(norm)},
			step.Head{W: at(table)},
		}
	}
	return m
}

// next is a number in [−1, 1) (Numerical Recipes' linear congruential generator, its upper bits).
func (m *selfModel) next() float32 {
	m.random = m.random*1664525 + 1013904223
	return float32(int32(m.random)>>8) / (1 << 23)
}

// matrix appends a matrix with weights around 1/8.
func (m *selfModel) matrix(l quant.Layout, rows, cols int) step.Tensor {
	off := (len(m.data) + paramAlign - 1) / paramAlign * paramAlign
	data := make([]byte, l.Size(rows, cols))
	m.data = append(append(m.data, make([]byte, off-len(m.data))...), data...)
	w := quant.Matrix{Layout: l, Rows: rows, Cols: cols, Data: m.data[off:]}
	for r := range rows {
		codes := w.Codes(r)
		switch l {
		case quant.LayoutF32:
			for i := range quant.Float32s(codes) {
				quant.Float32s(codes)[i] = m.next() / 4
			}
		case quant.LayoutF16:
			for i := range quant.Uint16s(codes) {
				quant.Uint16s(codes)[i] = quant.ToHalf(m.next() / 4)
			}
		default:
			for i := range codes {
				codes[i] = byte(int32(128 * m.next()))
			}
		}
		switch l {
		case quant.Layout4:
			for i := range quant.Uint32s(w.Scales(r)) {
				scale := 0.02 + 0.01*m.next()
				quant.Uint32s(w.Scales(r))[i] = uint32(quant.ToHalf(scale)) | uint32(quant.ToHalf(-8*scale))<<16
			}
		case quant.Layout8:
			for i := range quant.Uint16s(w.Scales(r)) {
				quant.Uint16s(w.Scales(r))[i] = quant.ToHalf(0.002 + 0.001*m.next())
			}
		}
	}
	return step.Tensor{Off: int64(off), Layout: l, Rows: rows, Cols: cols}
}

package reftest

import (
	"math"
	"math/rand/v2"

	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// Model is a random model: packed matrices with where they go in one buffer, and the program's shape.
type Model struct {
	Shape   step.Shape
	Data    []byte    // all matrices, each at a multiple of 256
	Rope    []float32 // [Positions][RotDim/2][2]
	Program step.Program
}

// Positions is how many positions a random model's RoPE table has.
const Positions = 256

// opsPerLayer is the length of one layer's part of the program: QKV, Attend, Store, Project, GateUp, Project.
const opsPerLayer = 6

// NewModel makes a model whose matrices have the given layouts in turn, so that more than one makes mixed stacks.
func NewModel(r *rand.Rand, s step.Shape, chunk int, layouts ...quant.Layout) *Model {
	m := &Model{Shape: s, Rope: make([]float32, Positions*s.RotDim)}
	for i := range m.Rope[:len(m.Rope)/2] {
		pos, pair := i/max(1, s.RotDim/2), i%max(1, s.RotDim/2)
		sin, cos := math.Sincos(float64(pos) * math.Pow(100, -2*float64(pair)/float64(s.RotDim)))
		m.Rope[2*i], m.Rope[2*i+1] = float32(cos), float32(sin)
	}
	next := 0
	matrix := func(rows, cols int) step.Tensor {
		l := layouts[next%len(layouts)]
		next++
		return m.add(l, rows, cols, Pack(r, l, rows, cols))
	}
	norm := func() step.Tensor {
		w := make([]float32, s.Hidden)
		for i := range w {
			w[i] = 1 + 0.2*float32(r.NormFloat64())
		}
		return m.add(quant.LayoutF32, 1, s.Hidden, quant.Bytes(w))
	}
	query, key := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	table := matrix(s.Vocab, s.Hidden)
	ops := []step.Op{step.Embed{Table: table}}
	for l := range s.Layers {
		qkv := step.Stack{matrix(query+2*key, s.Hidden)}
		gateUp := step.Stack{matrix(2*s.FFN, s.Hidden)}
		if len(layouts) > 1 {
			qkv = step.Stack{matrix(query, s.Hidden), matrix(key, s.Hidden), matrix(key, s.Hidden)}
			gateUp = step.Stack{matrix(s.FFN-1, s.Hidden), matrix(s.FFN+1, s.Hidden)}
		}
		ops = append(ops,
			step.QKV{Layer: l, Norm: norm(), W: qkv},
			step.Attend{Layer: l},
			step.Store{Layer: l},
			step.Project{Layer: l, In: step.A, W: matrix(s.Hidden, query)},
			step.GateUp{Layer: l, Norm: norm(), W: gateUp},
			step.Project{Layer: l, In: step.F, W: matrix(s.Hidden, s.FFN)})
	}
	ops = append(ops, step.Norm{W: norm()}, step.Head{W: table})
	m.Program = step.Program{Shape: s, Chunk: chunk, Ops: ops}
	return m
}

// add appends a packed matrix. Its Buf is set when the model is loaded.
func (m *Model) add(l quant.Layout, rows, cols int, packed []byte) step.Tensor {
	off := (len(m.Data) + 255) &^ 255
	m.Data = append(append(m.Data, make([]byte, off-len(m.Data))...), packed...)
	return step.Tensor{Off: int64(off), Layout: l, Rows: rows, Cols: cols}
}

// Pack makes a random matrix in a packed layout, with weights around 1/√cols.
func Pack(r *rand.Rand, l quant.Layout, rows, cols int) []byte {
	data := make([]byte, l.Size(rows, cols))
	m := quant.Matrix{Layout: l, Rows: rows, Cols: cols, Data: data}
	size := 1 / math.Sqrt(float64(cols))
	half := func(x float64) uint16 { return quant.ToHalf(float32(x)) }
	for row := range rows {
		codes := m.Codes(row)
		switch l {
		case quant.LayoutF32:
			for i := range quant.Float32s(codes) {
				quant.Float32s(codes)[i] = float32(size * r.NormFloat64())
			}
		case quant.LayoutF16:
			for i := range quant.Uint16s(codes) {
				quant.Uint16s(codes)[i] = half(size * r.NormFloat64())
			}
		case quant.Layout4:
			fill(r, codes)
			for i := range quant.Uint32s(m.Scales(row)) {
				scale := size / 4 * (0.5 + r.Float64())
				quant.Uint32s(m.Scales(row))[i] = uint32(half(scale)) | uint32(half(-scale*(6+3*r.Float64())))<<16
			}
		case quant.Layout8:
			fill(r, codes)
			for i := range quant.Uint16s(m.Scales(row)) {
				quant.Uint16s(m.Scales(row))[i] = half(size / 64 * (0.5 + r.Float64()))
			}
		}
	}
	return data
}

func fill(r *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

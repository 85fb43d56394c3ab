package reftest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// naive computes a model by its definition, in float64, token after token, without a cache, without chunks and without
// anything that backends share. It returns the logits of every token, and its attention row of each layer and head:
// [token][layer][head][token].
func naive(m *Model, ids []int32) (logits []float32, attention [][][][]float32) {
	s := &m.Shape
	n := naiveModel{
		m: m, unpacked: map[int64][][]float64{},
		keys: make([][][]float64, s.Layers), values: make([][][]float64, s.Layers),
	}
	for pos, id := range ids {
		out, rows := n.token(pos, int(id))
		attention = append(attention, rows)
		for _, v := range out {
			logits = append(logits, float32(v))
		}
	}
	return logits, attention
}

type naiveModel struct {
	m            *Model
	unpacked     map[int64][][]float64 // matrices by offset
	keys, values [][][]float64         // [layer][position][n_kv_heads·D]
}

func (n *naiveModel) token(pos, id int) (out []float64, attention [][][]float32) {
	s := &n.m.Shape
	query, key := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	var x, normed, mixed, inner []float64
	for _, op := range n.m.Program.Ops {
		switch o := op.(type) {
		case step.Embed:
			x = slices.Clone(n.rows(step.Stack{o.Table})[id])
		case step.QKV:
			qkv := multiply(n.rows(o.W), n.norm(x, o.Norm))
			q, k, v := qkv[:query], qkv[query:][:key], qkv[query+key:]
			n.rotate(q, pos)
			n.rotate(k, pos)
			n.keys[o.Layer] = append(n.keys[o.Layer], k)
			n.values[o.Layer] = append(n.values[o.Layer], v)
			var rows [][]float32
			mixed, rows = n.attend(q, n.keys[o.Layer], n.values[o.Layer])
			attention = append(attention, rows)
		case step.Project:
			in := mixed
			if o.In == step.F {
				in = inner
			}
			for i, v := range multiply(n.rows(step.Stack{o.W}), in) {
				x[i] += v
			}
		case step.GateUp:
			both := multiply(n.rows(o.W), n.norm(x, o.Norm))
			inner = nil
			for i, gate := range both[:s.FFN] {
				inner = append(inner, gate/(1+math.Exp(-gate))*both[s.FFN+i])
			}
		case step.Norm:
			normed = n.norm(x, o.W)
		case step.Head:
			out = multiply(n.rows(step.Stack{o.W}), normed)
		}
	}
	return out, attention
}

// rows is the matrices of a stack as one.
func (n *naiveModel) rows(w step.Stack) (rows [][]float64) {
	for _, t := range w {
		if n.unpacked[t.Off] == nil {
			n.unpacked[t.Off] = n.unpack(t)
		}
		rows = append(rows, n.unpacked[t.Off]...)
	}
	return rows
}

func (n *naiveModel) unpack(t step.Tensor) (rows [][]float64) {
	m := quant.Matrix{Layout: t.Layout, Rows: t.Rows, Cols: t.Cols, Data: n.m.Data[t.Off:][:t.Layout.Size(t.Rows, t.Cols)]}
	row := make([]float32, t.Cols)
	for r := range t.Rows {
		quant.DequantizeRow(row, m, r)
		rows = append(rows, make([]float64, t.Cols))
		for i, v := range row {
			rows[r][i] = float64(v)
		}
	}
	return rows
}

func multiply(w [][]float64, x []float64) (out []float64) {
	for _, row := range w {
		sum := 0.0
		for i, v := range row {
			sum += v * x[i]
		}
		out = append(out, sum)
	}
	return out
}

func (n *naiveModel) norm(x []float64, w step.Tensor) (out []float64) {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	weights := n.rows(step.Stack{w})[0]
	for i, v := range x {
		out = append(out, v/math.Sqrt(sum/float64(len(x))+float64(n.m.Shape.Eps))*weights[i])
	}
	return out
}

func (n *naiveModel) rotate(x []float64, pos int) { n.turn(x, pos, 1) }

// turn rotates heads to a position, or with sign −1 back from it.
func (n *naiveModel) turn(x []float64, pos int, sign float64) {
	s := &n.m.Shape
	for head := 0; head < len(x); head += s.HeadDim {
		for i := range s.RotDim / 2 {
			a, b := head+2*i, head+2*i+1
			if s.Neox {
				a, b = head+i, head+i+s.RotDim/2
			}
			cs := n.m.Rope[pos*s.RotDim+2*i:]
			cos, sin := float64(cs[0]), sign*float64(cs[1])
			x[a], x[b] = x[a]*cos-x[b]*sin, x[a]*sin+x[b]*cos
		}
	}
}

func (n *naiveModel) attend(q []float64, keys, values [][]float64) (out []float64, rows [][]float32) {
	s := &n.m.Shape
	out = make([]float64, len(q))
	for h := range s.Heads {
		kv := h / (s.Heads / s.KVHeads) * s.HeadDim
		sum := 0.0
		var p []float64
		for _, k := range keys {
			dot := 0.0
			for c := range s.HeadDim {
				dot += q[h*s.HeadDim+c] * k[kv+c]
			}
			p = append(p, math.Exp(dot/math.Sqrt(float64(s.HeadDim))))
			sum += p[len(p)-1]
		}
		var row []float32
		for j, v := range values {
			row = append(row, float32(p[j]/sum))
			for c := range s.HeadDim {
				out[h*s.HeadDim+c] += p[j] / sum * v[kv+c]
			}
		}
		rows = append(rows, row)
	}
	return out, rows
}

// testDefinition holds whole models against the definition: prefill in one piece and in chunks, a second prefill,
// decode, and the attention rows.
func testDefinition(t *testing.T, open Open, tol Tolerance) {
	for _, layouts := range [][]quant.Layout{
		{quant.LayoutF32},
		{quant.LayoutF16},
		{quant.Layout4},
		{quant.Layout8},
		{quant.Layout8, quant.Layout4, quant.LayoutF32},
	} {
		for _, neox := range []bool{false, true} {
			t.Run(fmt.Sprint(layouts, neox), func(t *testing.T) {
				shape := tiny
				shape.Neox, shape.RotDim = neox, 20
				m, ids := tinyModel(shape, layouts...)
				want, attention := naive(m, ids)
				s := newEngine(t, open, m).session(exactPages, len(ids))
				logits := s.prefill(ids[:13], 5)
				s.compareAttention(attention, 5, tol)
				logits = append(logits, s.prefill(ids[13:25], 12)...)
				s.compareAttention(attention, 12, tol)
				for i := 25; i < len(ids); i++ {
					logits = append(logits, s.decode(ids[i])...)
					s.compareAttention(attention, 1, tol)
				}
				Compare(t, "logits", logits, want, tol)
			})
		}
	}
}

// compareAttention compares what AttentionRow says of the tokens of the last chunk, in the last layer: their queries are
// still there. The last turn ran in chunks of chunk rows. want is [token][layer][head][token].
func (s *session) compareAttention(want [][][][]float32, chunk int, tol Tolerance) {
	s.t.Helper()
	shape := &s.model.Shape
	layer := shape.Layers - 1
	a := step.Args{Cache: s.cache, Arena: s.arena, Pos: s.pos - s.turn, From: (s.turn - 1) / chunk * chunk, To: s.turn}
	for row := range a.To - a.From {
		got := make([][]float32, shape.Heads)
		for h := range got {
			got[h] = make([]float32, s.pos)
		}
		s.must(s.exec.AttentionRow(&a, layer, row, got))
		pos := a.Pos + a.From + row
		for h := range got {
			// Tokens that are stored but come after this one get no attention.
			row := append(slices.Clone(want[pos][layer][h]), make([]float32, s.pos-pos-1)...)
			Compare(s.t, fmt.Sprintf("attention of head %d at %d", h, pos), got[h], row, tol)
		}
	}
}

// testLastRow: LastRow gives the last row of AllRows.
func testLastRow(t *testing.T, open Open, tol Tolerance) {
	m, ids := tinyModel(tiny, quant.LayoutF32)
	s := newEngine(t, open, m).session(exactPages, len(ids))
	all := s.prefill(ids, 64)
	a := step.Args{Cache: s.cache, Arena: s.arena, IDs: ids, From: 7, To: 19, Logits: step.LastRow}
	last := 1 + tiny.Layers*opsPerLayer
	s.run(&a, last, last+2)
	Compare(t, "last row", s.read(step.Logits, tiny.Vocab), all[18*tiny.Vocab:][:tiny.Vocab], tol)
}

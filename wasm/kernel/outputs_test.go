package kernel_test

import (
	"fmt"
	"math"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/gpu/gputest"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref/reftest"
	"kvlens/wasm/step"
)

// What a candidate's value adds to the output is its length by the definition, the sum of absolute values of the product
// with its query heads' columns, on average over these: in every layout, over pages and new rows, with heads that begin in
// the middle of four weights, in parts where bindings are small, and with one set for a layer on average over its KV heads.
func TestScoringOutputs(t *testing.T) {
	dev := gputest.Open(t)
	for i, c := range []struct {
		layout quant.Layout
		dim    int
		alike  bool
		parts  int // of the projection
	}{
		{quant.LayoutF32, 6, false, 1},
		{quant.LayoutF16, 10, false, 1},
		{quant.Layout4, 16, false, 1},
		{quant.Layout8, 32, false, 1},
		{quant.Layout8, 16, true, 1},
		{quant.LayoutF32, 16, true, 4},
	} {
		narrow := &modest{Device: dev, limits: dev.Info().Limits}
		if c.parts > 1 {
			narrow.limits.MaxBinding = 9000
		}
		lib := newLibrary(narrow)
		for _, plain := range []bool{true, false} {
			t.Run(fmt.Sprint(c.layout, " ", plain), func(t *testing.T) {
				lib.Plain = plain
				defer func(was step.Shape) { scoreShape = was }(scoreShape)
				scoreShape.HeadDim, scoreShape.RotDim, scoreShape.Hidden = c.dim, min(c.dim, 12), 70
				r := newScoreRig(t, lib, narrow, []cache.Format{cache.F32, cache.F16}[i%2], c.alike, i == 2, false)
				r.outputs(c.layout, c.parts)
				r.close()
			})
		}
	}
}

// outputs compares the lengths of all candidates' outputs.
func (r *scoreRig) outputs(layout quant.Layout, parts int) {
	r.t.Helper()
	s, d := &r.shape, r.shape.HeadDim
	b := r.lib.Backend(new(cache.Ledger))
	defer func() { r.must(b.Close()) }()
	m := quant.Matrix{Layout: layout, Rows: s.Hidden, Cols: s.Heads * d}
	m.Data = reftest.Pack(r.rng, layout, m.Rows, m.Cols)
	buf, err := b.Alloc(cache.Weights, "W_o", int64(len(m.Data)))
	r.must(err)
	r.must(b.Upload(buf, 0, m.Data))
	p := &policy.Plan{Select: policy.Select{Kind: policy.SelectCritical}, Reduce: policy.Reduce{Kind: policy.ReduceLayer}}
	x := r.lib.Scoring(p, s, &r.geo, scoreLayer)
	stages, err := x.Outputs(b, step.Tensor{Buf: buf, Layout: layout, Rows: m.Rows, Cols: m.Cols})
	r.must(err)
	if len(stages) != parts {
		r.t.Errorf("%d stages, want %d", len(stages), parts)
	}
	r.run(x, stages)
	group, stride := s.Heads/s.KVHeads, r.c.Stride()
	lengths := make([][]float64, s.KVHeads)
	row := make([]float32, m.Cols)
	for g := range lengths {
		lengths[g] = make([]float64, len(r.heads[g].Pos))
		for n := range m.Rows {
			quant.DequantizeRow(row, m, n)
			for h := g * group; h < (g+1)*group; h++ {
				for j := range lengths[g] {
					sum := 0.0
					for c, v := range r.heads[g].V[j*d:][:d] {
						sum += float64(row[h*d+c]) * float64(v)
					}
					lengths[g][j] += math.Abs(sum) / float64(group)
				}
			}
		}
	}
	got := r.read("weights", s.KVHeads*stride)
	for g := range lengths {
		want := make([]float32, len(lengths[g]))
		for j, x := range lengths[g] {
			if r.c.Same {
				x = (lengths[0][j] + lengths[1][j]) / 2
			}
			want[j] = float32(x)
		}
		reftest.Compare(r.t, "lengths", got[g*stride:][:len(want)], want, reftest.Float32)
	}
}

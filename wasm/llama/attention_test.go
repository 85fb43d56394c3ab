package llama_test

import (
	"math"
	"testing"

	"kvlens/wasm/llama"
	"kvlens/wasm/step"
	"kvlens/web/lab/golden"
)

func TestGoldenAttention(t *testing.T) {
	tooSlowForSoftware(t)
	m := smolLM2(t)
	count := golden.Count(t)
	g := golden.SmolLM2Attention(t)
	last := len(g.IDs) - 1
	s := session(t, m, llama.SessionOptions{F32: true})
	layers := attentionRun(t, s, g.IDs)
	for layer, want := range g.Rows {
		for h := range want {
			golden.Close(t, "row", layers[layer].rows[h], want[h], 1e-5, rel)
			count.Case(1)
		}
	}
	for layer, want := range g.Vectors {
		got := layers[layer]
		vector := func(what string, got []float32, want []float64) {
			t.Helper()
			golden.Close(t, what, got, want, 1e-3, rel)
			count.Case(1)
		}
		dim := len(want.QPreRoPEHead0)
		head := func(x []float32, h int) []float32 { return x[h*dim : (h+1)*dim] }
		vector("q before RoPE", halves(rotate(head(got.q, 0), -last, m.Config().RopeBase)), want.QPreRoPEHead0)
		for h := range want.Q {
			vector("q", halves(head(got.q, h)), want.Q[h])
		}
		for h := range want.K {
			vector("k", halves(head(got.k, h)), want.K[h])
			vector("v", head(got.v, h), want.V[h])
		}
		vector("context", got.a[:16], want.Context16)
		vector("attention out", sub(got.afterAttn, got.before)[:16], want.AttnOut16)
		vector("mlp out", sub(got.afterMLP, got.afterAttn)[:16], want.MLPOut16)
	}
}

// layerRun is what one layer did at the last position.
type layerRun struct {
	rows                                    [][]float32
	q, k, v, a, before, afterAttn, afterMLP []float32
}

func attentionRun(t *testing.T, s *llama.Session, ids []int32) map[int]*layerRun {
	t.Helper()
	last := len(ids) - 1
	layers := map[int]*layerRun{}
	err := s.PrefillProbe(ctx, ids, func(at *llama.At) (err error) {
		if at.To <= last {
			return nil
		}
		row := func(n step.Name) (x []float32) {
			if err == nil {
				x, err = at.Row(n, last)
			}
			return x
		}
		l := layers[at.Layer]
		switch op := at.Op.(type) {
		case step.QKV:
			l = &layerRun{q: row(step.Q), k: row(step.K), v: row(step.V), before: row(step.X)}
			layers[at.Layer] = l
		case step.Attend:
			l.a = row(step.A)
		case step.Project:
			if op.In == step.A {
				l.afterAttn = row(step.X)
			} else {
				l.afterMLP = row(step.X)
			}
		case step.Store:
			if err == nil {
				l.rows, err = at.Attention(last)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return layers
}

// halves reorders a head from pairs (2c, 2c+1) to pairs (c, c+dim/2), as the reference writes queries and keys.
func halves(x []float32) []float32 {
	out := make([]float32, len(x))
	for c := range len(x) / 2 {
		out[c], out[c+len(x)/2] = x[2*c], x[2*c+1]
	}
	return out
}

// rotate is RoPE on pairs (2c, 2c+1).
func rotate(x []float32, pos int, base float64) []float32 {
	out := make([]float32, len(x))
	for c := range len(x) / 2 {
		sin, cos := math.Sincos(float64(pos) * math.Pow(base, -2*float64(c)/float64(len(x))))
		a, b := float64(x[2*c]), float64(x[2*c+1])
		out[2*c], out[2*c+1] = float32(a*cos-b*sin), float32(a*sin+b*cos)
	}
	return out
}

func sub(a, b []float32) []float32 {
	out := make([]float32, len(a))
	for i := range a {
		out[i] = a[i] - b[i]
	}
	return out
}

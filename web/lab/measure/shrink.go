package measure

import (
	"context"
	"math"
	"slices"

	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/step"
	"kvlens/web/lab/capture"
	"kvlens/web/lab/needle"
)

// ShrunkTokens is the cache at which CompressKV measures layers.
const ShrunkTokens = 32

// shrunk is its selection: the attention of the last 8 queries, in the 4 strongest semantic retrieval heads of each layer.
var shrunk = policy.Plan{
	Score:   policy.Score{Kind: policy.ScoreWindow, Window: 8, Heads: 4},
	Pool:    policy.Pool{Kind: policy.PoolAvg, Size: 5},
	Reduce:  policy.Reduce{Kind: policy.ReduceLayer},
	Protect: policy.Protect{Recent: 8},
}

// Of the prompt, these queries count for Sink and Local: every rowStep-th from firstRow on.
const (
	firstRow   = 64
	rowStep    = 8
	localLimit = 32
)

const epsilon = 1e-6

// Shrink adds what each layer's attention loses while a sample is answered, if the layer had kept only 32 tokens of the
// prompt: ‖W_o·(compressed − full)‖ ÷ ‖W_o·full‖ for each decoded token, with the full cache's query and all generated
// tokens. Attention over what stays is the full row's part on it, scaled to 1. It also adds sink and local mass.
func (m *Meter) Shrink(ctx context.Context, s *needle.Sample, semantic [][]float32, sums *Sums) error {
	c := &m.Config
	run, err := policy.NewRun(&shrunk, policy.Shape{Layers: c.Layers, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim},
		policy.Budget{Tokens: ShrunkTokens, Prompt: len(s.IDs)}, &policy.Tables{Semantic: semantic})
	if err != nil {
		return err
	}
	run.Prompt(len(s.IDs))
	x := shrinker{m: m, prompt: len(s.IDs), sums: sums, kept: make([][]int32, c.Layers), values: make([][][]float32, c.Layers)}
	m.Session.Reset()
	if err := capture.Prefill(ctx, m.Session, c, s.IDs, func(l *capture.Layer) error { return x.layer(l, run) }); err != nil {
		return err
	}
	text := m.Tok.NewDecoder()
	for out := ""; x.step < needle.MaxAnswer; x.step++ {
		id := best(m.Session.Logits())
		if m.Tok.EOG(id) {
			break
		}
		if out += text.Push(id); needle.Ended(out) {
			break
		}
		if err := m.Session.DecodeProbe(ctx, id, x.probe); err != nil {
			return err
		}
	}
	sums.Shrunk++
	return nil
}

// shrinker is one sample of Shrink.
type shrinker struct {
	m            *Meter
	prompt, step int
	kept         [][]int32     // [layers]: tokens of the prompt that stay, the same in all KV heads
	values       [][][]float32 // [layers][n_kv_heads]: V of all tokens
	sums         *Sums
}

func (x *shrinker) layer(l *capture.Layer, run *policy.Run) error {
	for _, v := range l.V {
		x.values[l.Index] = append(x.values[l.Index], slices.Clone(v))
	}
	keep, err := run.Layer(l.Index, l.Input(&shrunk, capture.Rope{}, nil), policy.GoLoops)
	if err != nil {
		return err
	}
	x.kept[l.Index] = slices.Clone(keep[0].Heads[0])

	row := make([]float32, l.Tokens)
	for t := firstRow; t < l.Tokens; t += rowStep {
		for h := range l.Heads {
			row := l.Attention(row, t, h)
			x.sums.Sink[l.Index*l.Heads+h] += float64(row[0])
			for _, a := range row[len(row)-localLimit:] {
				x.sums.Local[l.Index*l.Heads+h] += float64(a)
			}
		}
		if l.Index == 0 {
			x.sums.Rows++
		}
	}
	return nil
}

func (x *shrinker) probe(at *llama.At) error {
	if _, ok := at.Op.(step.Attend); !ok {
		return nil
	}
	c := &x.m.Config
	row, err := at.Row(step.V, 0)
	if err != nil {
		return err
	}
	values := x.values[at.Layer]
	for h := range values {
		values[h] = append(values[h], row[h*c.HeadDim:][:c.HeadDim]...)
	}
	rows, err := at.Attention(0)
	if err != nil {
		return err
	}
	full, lost := make([]float64, c.Heads*c.HeadDim), make([]float64, c.Heads*c.HeadDim)
	for h, row := range rows {
		v, to := values[h/(c.Heads/c.KVHeads)], h*c.HeadDim
		var mass float64 // on what stays
		part := make([]float64, c.HeadDim)
		stay := func(j int) {
			mass += float64(row[j])
			for d := range part {
				part[d] += float64(row[j]) * float64(v[j*c.HeadDim+d])
			}
		}
		for _, j := range x.kept[at.Layer] {
			stay(int(j))
		}
		for j := x.prompt; j < len(row); j++ {
			stay(j)
		}
		for j, a := range row {
			for d := range part {
				full[to+d] += float64(a) * float64(v[j*c.HeadDim+d])
			}
		}
		for d := range part {
			lost[to+d] = part[d]/mass - full[to+d]
		}
	}
	w, err := x.m.Output(at.Layer)
	if err != nil {
		return err
	}
	x.sums.Errors[at.Layer] += norm(w, lost) / (norm(w, full) + epsilon)
	return nil
}

// norm is ‖w·x‖₂.
func norm(w []float32, x []float64) float64 {
	var sum float64
	for ; len(w) > 0; w = w[len(x):] {
		var y float64
		for i, v := range x {
			y += float64(w[i]) * v
		}
		sum += y * y
	}
	return math.Sqrt(sum)
}

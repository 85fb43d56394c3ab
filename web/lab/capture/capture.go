// Package capture takes the queries, keys and values of a prompt out of a session, layer by layer.
package capture

import (
	"context"
	"math"

	"kvlens/cache/policy/stage"
	"kvlens/wasm/llama"
	"kvlens/wasm/step"
)

// Layer is one layer's part of a prompt of so many tokens, after RoPE.
type Layer struct {
	Index, Tokens           int
	Heads, KVHeads, HeadDim int
	Q                       []float32   // [tokens][n_heads][head_dim]
	K, V                    [][]float32 // [n_kv_heads], each [tokens][head_dim]
	OutL1                   [][]float32 // [n_kv_heads][tokens]: mean over the group of ‖W_o·v‖₁; nil where it is not known

	sums [][]float32 // what columns made
}

// Prefill runs a prompt through a session and shows each layer once all its rows are there. The memory of a layer is used
// again for the next one.
func Prefill(ctx context.Context, s *llama.Session, c *llama.Config, ids []int32, show func(*Layer) error) error {
	l := &Layer{Tokens: len(ids), Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim}
	l.Q = make([]float32, len(ids)*c.Heads*c.HeadDim)
	l.K, l.V = make([][]float32, c.KVHeads), make([][]float32, c.KVHeads)
	for h := range l.K {
		l.K[h], l.V[h] = make([]float32, len(ids)*c.HeadDim), make([]float32, len(ids)*c.HeadDim)
	}
	return s.PrefillProbe(ctx, ids, func(at *llama.At) error {
		if _, ok := at.Op.(step.QKV); !ok {
			return nil
		}
		l.Index, l.sums = at.Layer, nil
		for t := at.From; t < at.To; t++ {
			q, err := at.Row(step.Q, t)
			if err != nil {
				return err
			}
			copy(l.Q[t*len(q):], q)
			if err := l.heads(l.K, at, step.K, t); err != nil {
				return err
			}
			if err := l.heads(l.V, at, step.V, t); err != nil {
				return err
			}
		}
		if at.To < len(ids) {
			return nil
		}
		return show(l)
	})
}

func (l *Layer) heads(to [][]float32, at *llama.At, name step.Name, t int) error {
	row, err := at.Row(name, t)
	if err != nil {
		return err
	}
	for h := range to {
		copy(to[h][t*l.HeadDim:], row[h*l.HeadDim:][:l.HeadDim])
	}
	return nil
}

// Attention sets row to the softmax of a token's query of one head over the keys up to its own, and returns that part of
// it.
func (l *Layer) Attention(row []float32, token, head int) []float32 {
	row = row[:token+1]
	stage.Go{}.Dots(row, l.query(token, head), l.K[head/(l.Heads/l.KVHeads)], float32(1/math.Sqrt(float64(l.HeadDim))))
	stage.Go{}.Softmax(row)
	return row
}

func (l *Layer) query(token, head int) []float32 {
	return l.Q[(token*l.Heads+head)*l.HeadDim:][:l.HeadDim]
}

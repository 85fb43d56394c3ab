package llama

import (
	"context"
	"fmt"

	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// Probe looks at the scratch memory after an operation. An error ends the turn.
type Probe func(*At) error

// At is the place where a probe looks: after Op of Layer (−1 for Embed, the number of layers for Norm and Head), over
// rows [From, To) of the turn.
type At struct {
	Layer    int
	Op       step.Op
	From, To int
	chunk    int
	m        *Model
	args     *step.Args
}

// DecodeProbe is Decode with a look at every operation.
func (s *Session) DecodeProbe(ctx context.Context, id int32, p Probe) error {
	return s.decode(ctx, id, p)
}

// PrefillProbe is Prefill with a look at every operation.
func (s *Session) PrefillProbe(ctx context.Context, ids []int32, p Probe) error {
	return s.prefill(ctx, ids, pass{probe: p})
}

// Row reads row t of a scratch buffer: t counts from the turn's first row, also where the buffer holds a chunk only.
func (a *At) Row(n step.Name, t int) ([]float32, error) {
	c := &a.m.cfg
	var width int
	switch n {
	case step.X:
		width = c.Hidden
	case step.K, step.V:
		width = c.KVHeads * c.HeadDim
	case step.Q, step.A:
		width, t = c.Heads*c.HeadDim, t-a.chunk
	case step.F:
		width, t = c.FFN, t-a.chunk
	case step.N: // LastRow writes row 0
		width, t = c.Hidden, 0
	default:
		return nil, fmt.Errorf("llama: probe: buffer %d has no rows to read", n)
	}
	if t < 0 {
		return nil, fmt.Errorf("llama: probe: row is not in the chunk")
	}
	out := make([]float32, width)
	err := a.m.backend.Read(a.m.exec.Scratch(n), int64(t)*int64(width)*4, quant.Bytes(out))
	return out, err
}

// Attention computes the softmax rows [n_heads][positions] of the turn's row t over the stored tokens; positions that have
// none are 0. It is exact when t is the last stored token: for the last row, from the layer's Store on.
func (a *At) Attention(t int) ([][]float32, error) {
	c := &a.m.cfg
	args := *a.args
	args.Stored = true
	args.From = a.chunk
	out := make([][]float32, c.Heads)
	n := args.Pos + len(args.IDs)
	for h := range out {
		out[h] = make([]float32, n)
	}
	return out, a.m.exec.AttentionRow(&args, a.Layer, t-a.chunk, out)
}

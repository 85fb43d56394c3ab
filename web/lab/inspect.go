package main

import (
	"context"

	"kvlens/wasm/llama"
	"kvlens/wasm/weights"
)

type inspectInput struct {
	File string `json:"file"`
	All  bool   `json:"all" help:"whole arrays instead of their first eight elements"`
}

type inspectOutput struct {
	Version  uint32        `json:"version"`
	Bytes    int64         `json:"bytes"`
	Params   int64         `json:"params"`
	Metadata []metaOutput  `json:"metadata"`
	Tensors  []tensorEntry `json:"tensors"`
	// Model is what llama makes of it; Problem is why it cannot.
	Model    *modelOutput      `json:"model,omitempty"`
	Packed   int64             `json:"packed_bytes,omitempty"`
	Token    int64             `json:"kv_bytes_per_token,omitempty"` // with f16 pages
	Problem  string            `json:"problem,omitempty"`
	Manifest *weights.Manifest `json:"manifest,omitempty"`
}

type modelOutput struct {
	Layers    int     `json:"layers"`
	Hidden    int     `json:"hidden"`
	Heads     int     `json:"heads"`
	KVHeads   int     `json:"kv_heads"`
	HeadDim   int     `json:"head_dim"`
	FFN       int     `json:"ffn"`
	Vocab     int     `json:"vocab"`
	RotDim    int     `json:"rope_dim"`
	Context   int     `json:"context"`
	Eps       float32 `json:"rms_eps"`
	RopeBase  float64 `json:"rope_base"`
	RopeScale float64 `json:"rope_scale"`
}

type metaOutput struct {
	Key   string `json:"key"`
	Type  string `json:"type"`
	Len   *int   `json:"len,omitempty"` // of an array
	Value any    `json:"value"`
}

type tensorEntry struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Rows   int    `json:"rows"`
	Cols   int    `json:"cols"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
}

func inspect(_ context.Context, in *inspectInput) (any, error) {
	s, err := openSource(in.File)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	out := inspectOutput{Version: s.Version, Bytes: s.Size, Manifest: s.manifest}
	for _, p := range s.Meta.Pairs() {
		out.Metadata = append(out.Metadata, metaValue(s.Meta, p, in.All))
	}
	if err := s.Meta.Err(); err != nil {
		return nil, err
	}
	for _, t := range s.Tensors {
		out.Params += int64(t.Rows) * int64(t.Cols)
		out.Tensors = append(out.Tensors, tensorEntry{t.Name, t.Type.String(), t.Rows, t.Cols, t.Off, t.Size})
	}
	c, packed, err := llama.Check(s.File)
	if err != nil {
		out.Problem = err.Error()
		return out, nil
	}
	out.Model, out.Packed = &modelOutput{
		c.Layers, c.Hidden, c.Heads, c.KVHeads, c.HeadDim, c.FFN, c.Vocab, c.RotDim, c.Context, c.Eps, c.RopeBase, c.RopeScale,
	}, packed
	out.Token = int64(c.Layers) * int64(c.KVHeads) * int64(c.HeadDim) * 2 * 2
	return out, nil
}

// metaValue reads one value, of arrays the first elements or all.
func metaValue(m *weights.Meta, p weights.Pair, all bool) metaOutput {
	out := metaOutput{Key: p.Key, Type: p.Type.String()}
	if n, ok := m.Int(p.Key); ok {
		out.Value = n
	} else if n, ok := m.Uint(p.Key); ok {
		out.Value = n
	} else if x, ok := m.Float(p.Key); ok {
		out.Value = number(x)
	} else if b, ok := m.Bool(p.Key); ok {
		out.Value = b
	} else if s, ok := m.String(p.Key); ok {
		out.Value = s
	} else {
		out.Type, out.Len = p.Elem.String(), &p.Len
		out.Value = metaArray(m, p, all)
	}
	return out
}

func metaArray(m *weights.Meta, p weights.Pair, all bool) any {
	if list, ok := m.Strings(p.Key); ok {
		return first(list, all)
	}
	if list, ok := m.Ints(p.Key); ok {
		return first(list, all)
	}
	list, _ := m.Floats(p.Key)
	out := make([]any, len(list))
	for i, x := range list {
		out[i] = number(x)
	}
	return first(out, all)
}

func first[T any](list []T, all bool) []T {
	if all {
		return list
	}
	return list[:min(8, len(list))]
}

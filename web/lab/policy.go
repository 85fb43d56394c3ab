package main

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"slices"

	"kvlens/cache/policy"
	"kvlens/web/lab/capture"
)

type policyInput struct {
	File    string  `json:"file" optional:"with -schema or -table"`
	Recipe  string  `json:"recipe" help:"a method and wrappers with knobs: 'snapkv window=8 + adakv alpha=0.2', or JSON by -schema"`
	Budget  int     `json:"budget" help:"tokens a list, protected ones among them"`
	Keep    float32 `json:"keep" help:"the budget as a share of the tokens instead"`
	Reserve int     `json:"reserve" help:"slots a list beyond the budget"`
	Answer  int     `json:"answer" help:"tokens of an answer that retrieval heads get room for, where a recipe has such heads"`
	Parity  bool    `json:"parity" help:"published triggers instead of the cap"`
	Tables  string  `json:"tables" help:"a file of head tables, for recipes that need them"`
	Scores  bool    `json:"scores" help:"print scores too"`
	Rope    float32 `json:"rope" help:"base of the rotation, for methods that undo it; 0 is that of the file"`
	Pairs   bool    `json:"pairs" help:"neighbouring channels turn together, not those of both halves"`
	Schema  bool    `json:"schema" help:"print the schema of all recipes instead"`
	Table   bool    `json:"table" help:"print the README's table of policies instead, as a JSON string"`
}

// arrays is the file that policy reads: queries and keys after RoPE.
type arrays struct {
	Model struct {
		Rope float64 `json:"rope_theta"`
	} `json:"model"`
	Layers []struct {
		Q     [][][]float32 `json:"q"`       // [n_heads][tokens][head_dim]
		K     [][][]float32 `json:"k"`       // [n_kv_heads][tokens][head_dim]
		V     [][][]float32 `json:"v"`       // the same
		OutL1 [][]float32   `json:"wo_v_l1"` // [n_kv_heads][tokens], mean over the group of ‖W_o·v‖₁; may be missing
	} `json:"layers"`
}

type policyOutput struct {
	Recipe policy.Recipe `json:"recipe"`
	Tokens int           `json:"tokens"`
	Budget int           `json:"budget"`
	Layers []policyLayer `json:"layers"`
}

type policyLayer struct {
	Caps   []int       `json:"caps"`             // tokens that each KV head may hold
	Kept   [][]int32   `json:"kept"`             // positions
	Scores [][]float32 `json:"scores,omitempty"` // of every token
}

// runPolicy runs a recipe on arrays.
func runPolicy(_ context.Context, in *policyInput) (any, error) {
	if in.Schema {
		return schema(), nil
	}
	if in.Table {
		return readmeTable(), nil
	}
	r, err := parseRecipe(in.Recipe)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(in.File)
	if err != nil {
		return nil, err
	}
	var a arrays
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, err
	}
	layers, err := a.layers()
	if err != nil {
		return nil, err
	}
	var tables *policy.Tables
	if in.Tables != "" {
		if tables, err = readTables(in.Tables); err != nil {
			return nil, err
		}
	}
	first := layers[0]
	out := policyOutput{Recipe: r, Tokens: first.Tokens, Budget: in.Budget}
	if in.Keep > 0 {
		out.Budget = max(1, int(math.Round(float64(in.Keep)*float64(first.Tokens))))
	}
	c, err := newCompressor(r, shapeOf(first, len(layers)), tables, policy.Budget{
		Tokens: out.Budget, Reserve: in.Reserve, Prompt: first.Tokens + in.Answer, Parity: in.Parity,
	}, first.Tokens)
	if err != nil {
		return nil, err
	}
	base := float64(in.Rope)
	if base == 0 {
		base = a.Model.Rope
	}
	rope := capture.Rope{At: rotation(base, first.HeadDim), Neox: !in.Pairs}
	for _, l := range layers {
		if err := c.layer(l, rope, nil); err != nil {
			return nil, err
		}
	}
	for l, caps := range c.run.Caps() {
		line := policyLayer{Caps: caps, Kept: c.kept[l]}
		if in.Scores {
			line.Scores = c.run.Scores(l)
		}
		out.Layers = append(out.Layers, line)
	}
	return out, nil
}

// layers checks the arrays and puts them in order.
func (a *arrays) layers() ([]*capture.Layer, error) {
	if len(a.Layers) == 0 {
		return nil, usageError("the file has no layers")
	}
	var out []*capture.Layer
	for i, from := range a.Layers {
		l := &capture.Layer{Index: i, Heads: len(from.Q), KVHeads: len(from.K), OutL1: from.OutL1}
		if l.KVHeads == 0 || l.Heads == 0 || l.Heads%l.KVHeads != 0 || len(from.K[0]) == 0 || len(from.V) != l.KVHeads {
			return nil, usageError("layer %d: q, k and v of %d, %d and %d heads", i, len(from.Q), len(from.K), len(from.V))
		}
		l.Tokens, l.HeadDim = len(from.K[0]), len(from.K[0][0])
		if i > 0 && shapeOf(l, 0) != shapeOf(out[0], 0) || i > 0 && l.Tokens != out[0].Tokens {
			return nil, usageError("layer %d has another shape than layer 0", i)
		}
		for _, heads := range [][][][]float32{from.Q, from.K, from.V} {
			for h, rows := range heads {
				if len(rows) != l.Tokens || slices.ContainsFunc(rows, func(r []float32) bool { return len(r) != l.HeadDim }) {
					return nil, usageError("layer %d: head %d is not %d × %d", i, h, l.Tokens, l.HeadDim)
				}
			}
		}
		if l.OutL1 != nil && (len(l.OutL1) != l.KVHeads || slices.ContainsFunc(l.OutL1, func(r []float32) bool { return len(r) != l.Tokens })) {
			return nil, usageError("layer %d: wo_v_l1 is not %d × %d", i, l.KVHeads, l.Tokens)
		}
		for h := range from.K {
			l.K, l.V = append(l.K, slices.Concat(from.K[h]...)), append(l.V, slices.Concat(from.V[h]...))
		}
		for t := range l.Tokens {
			for h := range from.Q {
				l.Q = append(l.Q, from.Q[h][t]...)
			}
		}
		out = append(out, l)
	}
	return out, nil
}

func shapeOf(l *capture.Layer, layers int) policy.Shape {
	return policy.Shape{Layers: layers, Heads: l.Heads, KVHeads: l.KVHeads, HeadDim: l.HeadDim}
}

// rotation is RoPE of all channels of a head: cos and sin by position.
func rotation(base float64, headDim int) func(pos int) []float32 {
	return func(pos int) []float32 {
		row := make([]float32, headDim)
		for i := range headDim / 2 {
			sin, cos := math.Sincos(float64(pos) * math.Pow(base, -2*float64(i)/float64(headDim)))
			row[2*i], row[2*i+1] = float32(cos), float32(sin)
		}
		return row
	}
}

// compressor runs a recipe on one prompt, layer by layer, without a cache.
type compressor struct {
	plan *policy.Plan
	run  *policy.Run
	kept [][][]int32 // [layers][n_kv_heads]: positions that stay
}

func newCompressor(r policy.Recipe, s policy.Shape, t *policy.Tables, b policy.Budget, tokens int) (*compressor, error) {
	plan, err := r.Plan()
	if err != nil {
		return nil, err
	}
	run, err := policy.NewRun(plan, s, b, t)
	if err != nil {
		return nil, err
	}
	run.Prompt(tokens)
	return &compressor{plan, run, make([][][]int32, s.Layers)}, nil
}

// layer decides what stays of a layer; for its arguments see [capture.Layer.Input].
func (c *compressor) layer(l *capture.Layer, rope capture.Rope, output []float32) error {
	keeps, err := c.run.Layer(l.Index, l.Input(c.plan, rope, output), policy.GoLoops)
	if err != nil {
		return err
	}
	for _, keep := range keeps {
		if c.kept[keep.Layer] == nil {
			c.kept[keep.Layer] = make([][]int32, l.KVHeads)
		}
		for h, indices := range keep.Heads {
			before := c.kept[keep.Layer][h]
			now := slices.Clone(indices)
			for i := range now {
				if before != nil { // indices count what stayed so far
					now[i] = before[now[i]]
				}
			}
			c.kept[keep.Layer][h] = now
		}
	}
	return nil
}

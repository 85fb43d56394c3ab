package kernel

import (
	"fmt"
	"math"
	"slices"

	"kvlens/cache"
	"kvlens/wasm/gpu"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// sight is what the heads of one query row see of a layer's lists.
type sight struct {
	logits    [][]float32 // [n_heads][slots], lowest where a slot does not count
	weights   []float64   // [n_heads]: all of a row, relative to its largest logit; what stands for tokens that left among them
	positions [][]uint32  // [n_kv_heads][slots]; a token that is at work has none yet
	own       int         // position of the query
}

// AttentionRow writes the softmax row of one chunk row of Q over the layer's stored tokens: out is [n_heads][positions].
// Positions that have no token or come after the row's own get 0.
func (e *exec) AttentionRow(a *step.Args, layer, row int, out [][]float32) error {
	if len(out) != e.shape.Heads {
		return failed("attention row: for %d of %d heads", len(out), e.shape.Heads)
	}
	x, err := e.see(a, layer, row)
	if err != nil {
		return err
	}
	for h := range out {
		clear(out[h])
		top := x.top(h)
		err := x.each(h, e.shape.Heads/e.shape.KVHeads, len(out[h]), func(position int, logit float32) {
			out[h][position] = float32(math.Exp(float64(logit)-top) / x.weights[h])
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Scores reads the logits of one head for one chunk row.
func (e *exec) Scores(a *step.Args, layer, head, row int, out []float32) error {
	if head < 0 || head >= e.shape.Heads {
		return failed("scores: head %d of %d", head, e.shape.Heads)
	}
	x, err := e.see(a, layer, row)
	if err != nil {
		return err
	}
	for i := range out {
		out[i] = float32(math.Inf(-1))
	}
	return x.each(head, e.shape.Heads/e.shape.KVHeads, len(out), func(position int, logit float32) {
		out[position] = logit
	})
}

// top is the largest logit of a head.
func (x *sight) top(h int) float64 {
	top := math.Inf(-1)
	for _, v := range x.logits[h] {
		top = max(top, float64(v))
	}
	return top
}

// each calls f for the tokens that a head sees. There must be room for so many positions.
func (x *sight) each(h, group, room int, f func(position int, logit float32)) error {
	for slot, v := range x.logits[h] {
		position := x.positions[h/group][slot]
		if position == cache.DeadPosition && v > lowest {
			position = uint32(x.own)
		}
		switch {
		case position == cache.DeadPosition:
		case int64(position) >= int64(room):
			return failed("attention row: a token at %d, room for %d", position, room)
		case v > lowest:
			f(int(position), v)
		}
	}
	return nil
}

// row makes the logits and the parts of attention those of one chunk row in one layer.
func (e *exec) row(a *step.Args, layer, row int) (*session, error) {
	if a.Cache == nil || a.Arena == 0 {
		return nil, failed("attention row: no cache")
	}
	if row < 0 || row >= e.chunk || layer < 0 || layer >= e.shape.Layers {
		return nil, failed("attention row %d of %d in layer %d", row, e.chunk, layer)
	}
	s, err := e.session(a)
	if err != nil {
		return nil, err
	}
	e.endOn(s)
	at := slices.IndexFunc(e.ops, func(o *operation) bool { return o.kind == attending && o.layer == layer })
	if at < 0 {
		return nil, failed("attention row: the program has no attention in layer %d", layer)
	}
	nodes := e.ops[at].stored[:2]
	if e.plan != nil {
		k, err := e.keeper(s)
		if err != nil {
			return nil, err
		}
		if len(k.buffers) == 0 {
			if err := k.reserve(); err != nil {
				return nil, err
			}
		}
		nodes = k.sees(e.ops[at], a.Stored)
	}
	err = e.header(s, func(h []uint32) {
		h[wordPos], h[wordRows], h[wordQuery], h[wordStep] = uint32(a.Pos+a.From+row), 1, uint32(row), 0
		h[wordLast] = uint32(a.Pos + a.From + row)
	})
	if err == nil {
		err = e.lengths(s, a.Cache, layer)
	}
	if err == nil {
		err = e.tables(s, a.Cache, extent{})
	}
	if err != nil {
		return nil, err
	}
	var list []gpu.Dispatch
	for _, n := range nodes {
		d, err := e.dispatch(n, s, 1)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	if err := e.b.dev.Run(list); err != nil {
		return nil, fmt.Errorf("webgpu: attention row: %w", err)
	}
	return s, nil
}

// sees lists the nodes of a row's attention: rows of a prompt read all pages.
func (k *keeper) sees(o *operation, decoded bool) []*node {
	if decoded || k.plan.Store.Rank {
		parts, _ := k.attention(o)
		return parts
	}
	return slices.Concat(o.stored[:1], k.layers[o.layer].values)
}

// see computes and reads what one chunk row sees.
func (e *exec) see(a *step.Args, layer, row int) (*sight, error) {
	s, err := e.row(a, layer, row)
	if err != nil {
		return nil, err
	}
	heads, group, capacity := e.shape.Heads, e.shape.Heads/e.shape.KVHeads, s.capacity()
	logits, parts := make([]float32, heads*capacity), make([]float32, e.splits()*heads)
	if err = e.b.dev.Read(s.scores.buf, 0, quant.Bytes(logits)); err == nil {
		err = e.b.dev.Read(s.parts.buf, int64(len(parts)*e.shape.HeadDim)*4, quant.Bytes(parts))
	}
	if err != nil {
		return nil, fmt.Errorf("webgpu: attention row: %w", err)
	}
	x := &sight{logits: make([][]float32, heads), weights: make([]float64, heads), own: a.Pos + a.From + row}
	for i, w := range parts {
		x.weights[i%heads] += float64(w)
	}
	for h := range e.shape.KVHeads {
		x.positions = append(x.positions, a.Cache.List(layer, h).At)
	}
	if a.Cache.Lent() {
		at, err := s.keeper.positions(a)
		if err != nil {
			return nil, err
		}
		x.positions = at[layer*e.shape.KVHeads:][:e.shape.KVHeads]
	}
	for h := range x.logits {
		x.logits[h] = logits[h*capacity:][:len(x.positions[h/group])]
	}
	return x, nil
}

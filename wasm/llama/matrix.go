package llama

import (
	"context"
	"math"
	"slices"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// A matrix of a list that tokens have left is computed on the host, whatever the backend: its queries and keys come from
// the conversation once more, under the same recipe, so that they are those of the turns as they were.

// traces are one query head's queries and its KV head's keys, [tokens][head_dim], both rotated to their positions.
type traces struct {
	m        *Model
	from     *departures
	list     int
	q, k     []float32
	byRank   bool
	virtual  bool
	unturned []float32 // [tokens][head_dim] keys before RoPE, for positions by rank
	turns    []float32 // [tokens][RotDim/2][2]
}

// retrace computes a matrix of a list that tokens have left.
func (s *Session) retrace(ctx context.Context, layer, head int, out *Matrix) error {
	m, n, d := s.m, len(s.ids), s.geo.HeadDim
	kv := head / (m.cfg.Heads / m.cfg.KVHeads)
	t := &traces{
		m: m, from: &s.gone, list: layer*s.geo.KVHeads + kv,
		q: make([]float32, n*d), k: make([]float32, n*d),
		byRank: s.recipe.plan.Store.Rank, virtual: s.recipe.plan.Store.Virtual,
	}
	bytes := int64(4 * (len(t.q) + len(t.k)))
	m.led.Add(cache.Views, bytes, bytes)
	defer m.led.Add(cache.Views, -bytes, -bytes)
	err := s.relive(ctx, layer, func(a *At) error {
		if _, ok := a.Op.(step.QKV); !ok || a.Layer != layer {
			return nil
		}
		if err := t.read(t.q, step.Q, m.cfg.Heads, head, 0, a); err != nil {
			return err
		}
		return t.read(t.k, step.K, m.cfg.KVHeads, kv, a.From, a)
	})
	if err != nil {
		return err
	}
	out.Left = s.gone.left(t.list, n)
	out.Codes = make([]uint8, out.Cells*out.Cells)
	if s.shadow != nil {
		out.Would = make([]uint8, len(out.Codes))
	}
	if t.byRank {
		t.turns = ropeTable(&m.cfg, m.freqs, 0, n)
		t.unturned = slices.Clone(t.k)
		for i := range n {
			t.turn(t.unturned[i*d:][:d], i, -1)
		}
	}
	for i := range n {
		done := m.pace.start()
		t.row(i, out)
		if done() {
			m.giveWay()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// read takes one head's rows of what an operation has computed, which lie in a buffer from row first on.
func (t *traces) read(to []float32, name step.Name, heads, head, first int, a *At) error {
	d := t.m.cfg.HeadDim
	width := heads * d
	rows := make([]float32, (a.To-a.From)*width)
	if err := t.m.backend.Read(t.m.exec.Scratch(name), 4*int64(first*width), quant.Bytes(rows)); err != nil {
		return err
	}
	for i := range a.To - a.From {
		copy(to[(a.args.Pos+a.From+i)*d:][:d], rows[i*width+head*d:])
	}
	return nil
}

// row computes query i's row of codes.
func (t *traces) row(i int, out *Matrix) {
	d := t.m.cfg.HeadDim
	q, dim := t.q[i*d:][:d], math.Sqrt(float64(d))
	logit := func(q, k []float32) float64 {
		var sum float64
		for c, v := range q {
			sum += float64(v) * float64(k[c])
		}
		return sum / dim
	}
	all, seen := make([]float64, i+1), make([]float64, i+2) // the last is the compensation token's
	gone, mean := 0, make([]float64, d)
	var there []int
	for j := range all {
		all[j] = logit(q, t.k[j*d:][:d])
		seen[j] = math.Inf(-1)
		if t.from.sees(t.list, i, j) {
			seen[j] = all[j]
			there = append(there, j)
			continue
		}
		gone++
		for c, v := range t.k[j*d:][:d] {
			mean[c] += float64(v)
		}
	}
	if t.byRank && len(there) < len(all) {
		q, k := slices.Clone(q), make([]float32, d)
		t.turn(q, i, -1)
		t.turn(q, len(there)-1, 1)
		for rank, j := range there {
			copy(k, t.unturned[j*d:])
			t.turn(k, rank, 1)
			seen[j] = logit(q, k)
		}
	}
	seen[i+1] = math.Inf(-1)
	if t.virtual && gone > 0 {
		sum := 0.0
		for c, v := range mean {
			sum += float64(q[c]) * v
		}
		seen[i+1] = sum/float64(gone)/dim + math.Log(float64(gone))
	}
	softmax(seen)
	line := i / out.Pool * out.Cells
	for _, j := range there {
		cell := &out.Codes[line+j/out.Pool]
		*cell = max(*cell, step.Code(seen[j]))
	}
	if out.Would == nil || gone == 0 {
		return
	}
	softmax(all)
	for j, p := range all {
		if !t.from.sees(t.list, i, j) {
			cell := &out.Would[line+j/out.Pool]
			*cell = max(*cell, step.Code(p))
		}
	}
}

// turn rotates a vector by a position, forwards or backwards.
func (t *traces) turn(x []float32, pos int, sign float64) {
	half := t.m.cfg.RotDim / 2
	cs := t.turns[pos*2*half:]
	for i := range half {
		a, b := 2*i, 2*i+1
		if t.m.cfg.Neox {
			a, b = i, i+half
		}
		cos, sin := float64(cs[2*i]), sign*float64(cs[2*i+1])
		u, v := float64(x[a]), float64(x[b])
		x[a], x[b] = float32(u*cos-v*sin), float32(u*sin+v*cos)
	}
}

// softmax turns logits into probabilities, in place.
func softmax(x []float64) {
	top, sum := slices.Max(x), 0.0
	for i, v := range x {
		x[i] = math.Exp(v - top)
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}

// relive lets the conversation happen once more, in an arena of its own, and shows its operations to a probe: up to a
// layer, where later ones change nothing of it.
func (s *Session) relive(ctx context.Context, layer int, probe Probe) error {
	m := s.m
	again := &Session{
		m: m, opts: s.opts, geo: s.geo, recipe: s.recipe, shadowed: s.shadowed, peek: probe,
		logits: make([]float32, len(s.logits)), gone: departures{led: m.led, at: make([][]int32, len(s.gone.at))},
	}
	again.opts.Undo = false
	if p := s.recipe.plan; p.Layers.Kind != policy.LayersCake && !p.Ragged() {
		again.depth = layer + 1
	}
	spans := s.spans
	if len(s.gone.gaps) == 0 { // nothing was recalled: no need for copies
		again.shadowed = false
		spans = slices.DeleteFunc(slices.Clone(spans), func(sp span) bool { return sp.deed != nil && !sp.deed.lasts })
	}
	var err error
	if again.arena, err = m.backend.Alloc(cache.Free, "arena of a view", s.cache.Cap()); err != nil {
		return err
	}
	defer m.backend.Free(again.arena)
	if again.cache, err = cache.New(s.geo, s.cache.Cap(), m.led); err != nil {
		return err
	}
	defer func() {
		again.gone.clear()
		again.cast(false)
		again.cache.Close()
	}()
	if err = again.anew(); err == nil {
		err = again.again(ctx, s.ids, spans, nil)
	}
	return err
}

package kernel

import (
	"fmt"
	"slices"

	"kvlens/cache/policy"
	"kvlens/cache/policy/stage"
	"kvlens/shaders"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// candidates describes those of a layer to the kernels.
func (k *keeper) candidates(a *step.Args, layer int) {
	s := &k.e.shape
	k.c = Candidates{New: len(a.IDs), Around: 1, Same: true, Scored: make([]int, s.Heads)}
	for h := range k.c.Scored {
		k.c.Scored[h] = h
	}
	if n := k.plan.Score.Heads; n > 0 && n < s.Heads {
		k.c.Scored = k.tables.SemanticOrder(layer)[:n]
	}
	at := func(h, rank int) uint32 {
		l := a.Cache.List(layer, h)
		return l.At[l.Order()[rank]]
	}
	for h := range s.KVHeads {
		slots := slices.Clone(a.Cache.List(layer, h).Order())
		k.c.Stored = append(k.c.Stored, slots)
		k.c.Same = k.c.Same && len(slots) == len(k.c.Stored[0])
		for rank := 0; k.c.Same && rank < len(slots); rank++ {
			k.c.Same = at(h, rank) == at(0, rank)
		}
	}
}

// Observe gathers from the rows of a chunk.
func (e *exec) Observe(a *step.Args, layer int) error {
	k, err := e.lent(a)
	if err != nil {
		return err
	}
	n, s := a.To-a.From, &e.shape
	if err := e.checkLayer(layer); err != nil || n < 1 || n > e.chunk || a.To > len(a.IDs) {
		return failed("observe: rows [%d, %d) of %d in layer %d", a.From, a.To, len(a.IDs), layer)
	}
	if a.From == 0 {
		k.layer, k.seen, k.c.Seen = layer, 0, 0
		k.candidates(a, layer)
	}
	if layer != k.layer || a.From != k.seen {
		return failed("observe: rows from %d of layer %d, want %d of layer %d", a.From, layer, k.seen, k.layer)
	}
	k.seen = a.To
	if m := k.buffers["queries"]; m != nil {
		return k.keepQueries(a)
	}
	p := &k.layers[layer]
	if len(p.observe) == 0 {
		return nil
	}
	k.c.Queries, k.c.FirstRow, k.c.First, k.c.Around = n, a.From, 0, e.chunk
	if err := k.tell(a.From == 0); err != nil {
		return err
	}
	if err := k.run(p.observe); err != nil {
		return err
	}
	k.c.Seen += max(0, n-max(0, k.plan.Protect.Sinks-a.Pos-a.From))
	e.b.queue.add(float64(n) * float64(s.Heads*s.HeadDim) * float64(k.c.Stride()))
	return e.b.drain()
}

// keepQueries copies the chunk's queries that are in the window to a ring.
func (k *keeper) keepQueries(a *step.Args) error {
	s, window := &k.e.shape, min(k.plan.Score.Window, len(a.IDs))
	width := int64(s.Heads*s.HeadDim) * 4
	for row := max(a.From, len(a.IDs)-window); row < a.To; {
		at := row % window
		n := min(a.To-row, window-at)
		err := k.e.b.dev.Copy(k.buffers["queries"].buf, int64(at)*width, k.e.held[step.Q].buf, int64(row-a.From)*width, int64(n)*width)
		if err != nil {
			return fmt.Errorf("webgpu: last queries: %w", err)
		}
		row += n
	}
	return nil
}

// tell writes the candidates: all of them, or what changes from chunk to chunk.
func (k *keeper) tell(all bool) error {
	words := k.c.Words()
	if !all {
		words = words[:tokenStored]
	}
	return k.write("tokens", 0, words)
}

// Weigh scores a layer's candidates.
func (e *exec) Weigh(a *step.Args, layer int) error {
	k, err := e.lent(a)
	if err != nil {
		return err
	}
	n, p := len(a.IDs), &k.plan.Score
	if layer != k.layer || k.seen != n {
		return failed("weigh: layer %d with %d of %d rows observed", layer, k.seen, n)
	}
	e.weighed = k
	k.c.Queries, k.c.FirstRow, k.c.First, k.c.Around = 1, n-1, 0, 1
	switch p.Kind {
	case policy.ScoreWindow, policy.ScoreIndicator:
		w := min(p.Window, n)
		k.c.Queries, k.c.FirstRow, k.c.First, k.c.Around = w, n-w, (n-w)%w, w
	}
	if p.Kind == policy.ScoreNone || p.Kind == policy.ScoreRandom || layer < p.SkipLayers {
		if err := k.known(a, layer); err != nil {
			return err
		}
	}
	input := k.layers[layer].input
	if len(input) == 0 {
		return nil
	}
	if err := k.tell(true); err != nil {
		return err
	}
	if err := k.run(input); err != nil {
		return err
	}
	e.b.queue.add(float64(k.c.Queries*e.shape.Heads*e.shape.HeadDim) * 2 * float64(k.c.Stride()))
	return e.b.drain()
}

// known writes what tokens are worth where the host knows it: nothing, or by chance.
func (k *keeper) known(a *step.Args, layer int) error {
	p, stride := k.plan, k.c.Stride()
	chance := p.Score.Kind == policy.ScoreRandom && layer >= p.Score.SkipLayers
	if !chance && p.Score.Kind == policy.ScoreNone && layer > 0 {
		return nil // as the layer before left it
	}
	worth := slices.Repeat([]float32{Invalid}, k.e.shape.KVHeads*stride)
	for h, slots := range k.c.Stored {
		row := worth[h*stride:][:len(slots)+k.c.New]
		clear(row)
		if !chance {
			continue
		}
		pos := make([]int32, len(row))
		l := a.Cache.List(layer, h)
		for i := range pos {
			if pos[i] = int32(a.Pos + i - len(slots)); i < len(slots) {
				pos[i] = int32(l.At[slots[i]])
			}
		}
		stage.Random(row, pos, p.Score.Seed, layer, h)
	}
	if chance && p.Select.Kind == policy.SelectChunks && p.Heads.Kind == policy.HeadsUniform && k.c.Same {
		rows := slices.Collect(slices.Chunk(worth, stride))
		mean := make([]float32, stride)
		stage.Mean(mean, rows)
		for _, row := range rows {
			copy(row, mean)
		}
	}
	return k.write("worth", 0, quant.Uint32s(quant.Bytes(worth)))
}

// Unrest reads the parts in which the device has summed the layer's entropy and variance.
func (e *exec) Unrest(layer int) (entropy, variance float64, err error) {
	k := e.weighed
	if k == nil || k.layer != layer || k.plan.Score.Kind != policy.ScoreIndicator {
		return 0, 0, failed("entropy of layer %d: it was not weighed", layer)
	}
	var parts [2 * shaders.Group]float32
	at := int64(e.shape.KVHeads*k.c.Stride()) * 4
	if err := e.b.dev.Read(k.buffers["worth"].buf, at, quant.Bytes(parts[:])); err != nil {
		return 0, 0, fmt.Errorf("webgpu: entropy: %w", err)
	}
	e.b.queue.done()
	for i := 0; i < len(parts); i += 2 {
		entropy += float64(parts[i])
		variance += float64(parts[i+1])
	}
	return entropy, variance, nil
}

// Highest counts and reads how many of a layer's highest scores each KV head has.
func (e *exec) Highest(layer int, c *policy.Contest) ([]int, error) {
	k := e.weighed
	if k == nil || layer < 0 || layer >= len(k.layers) || len(c.Guards) != e.shape.KVHeads {
		return nil, failed("highest scores of layer %d: none was weighed", layer)
	}
	words, share := k.quotas(&policy.LayerQuotas{Layer: layer, Lists: c.Guards}), k.layers[layer].share
	words[listTotal], words[listEach], words[listSafe] = uint32(c.Total), uint32(c.Each), uint32(c.Safe)
	if k.kept[layer] {
		share = k.layers[layer].shareAgain
	}
	if len(share) == 0 {
		return nil, failed("highest scores of layer %d: the plan does not ask for them", layer)
	}
	if err := k.write("lists", layer*len(c.Guards)*ListWords, words); err != nil {
		return nil, err
	}
	if err := k.run(share); err != nil {
		return nil, err
	}
	counts := make([]uint32, len(c.Guards))
	if err := e.b.dev.Read(k.buffers["counts"].buf, 0, quant.Bytes(counts)); err != nil {
		return nil, fmt.Errorf("webgpu: highest scores: %w", err)
	}
	e.b.queue.done()
	out := make([]int, len(counts))
	for h, n := range counts {
		out[h] = int(n)
	}
	return out, nil
}

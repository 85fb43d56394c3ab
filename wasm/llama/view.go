package llama

import (
	"context"
	"errors"
	"fmt"

	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// ErrNoViews says that a backend computes no views.
var ErrNoViews = errors.New("this backend computes no views")

// Rows is the attention of the last token in the cache, of all layers and query heads.
type Rows struct {
	Tokens int        // that the rows are over
	Codes  []uint8    // [layers][n_heads][cells], as step.Code writes them; cells hold Pool tokens each
	Sums   []step.Sum // [layers][n_heads]
}

// Matrix is the whole causal attention of one head: queries × keys.
type Matrix struct {
	Tokens, Pool, Cells int // Cells = ⌈Tokens/Pool⌉
	// Codes is [Cells][Cells], each the largest of Pool × Pool. Keys after their query are 0, and those that had left then.
	Codes []uint8
	// Left is how many tokens the conversation had when each of them left the head's list, −1 where it is there; nil where
	// none has left.
	Left []int32
	// Would is, with a shadow, what such queries would have given to the keys that had left, had all been there: in cells
	// like those of Codes, 0 where nothing had left. Otherwise it is nil.
	Would []uint8
}

// rowBytes bounds what is read of one token's rows; a Step has some more fields.
const rowBytes = 316 << 10

// sumBytes is the size of a step.Sum in a backend's memory.
const sumBytes = 16

// Watch says whether the passes from now on leave [Session.Rows]. A watched session decodes operation by operation, so
// that every layer's queries can be looked at; otherwise nothing changes, and nothing is computed or kept for views.
func (s *Session) Watch(on bool) error {
	if _, ok := s.m.exec.(step.Viewer); on && !ok {
		return fmt.Errorf("llama: watch: %w", ErrNoViews)
	}
	s.watched = on
	s.rows = nil
	return nil
}

// Rows is what the last pass of a watched session saw; nil if it was not watched. While Generate emits a token, these are
// the rows of the query that chose it, over all tokens before it.
func (s *Session) Rows() *Rows { return s.rows }

// watcher collects the rows of one pass.
type watcher struct {
	dst                 step.Buffer
	tokens, pool, cells int
	stride              int64
}

// watch begins to collect the rows of a pass over n tokens, if the session is watched.
func (r *runner) watch() error {
	s := r.s
	s.rows = nil
	if !s.watched {
		return nil
	}
	c := &s.m.cfg
	lines := c.Layers * c.Heads
	w := &watcher{tokens: r.args.Pos + len(r.args.IDs)}
	most := max(4, min(step.MaxCells, rowBytes/lines-sumBytes)&^3)
	w.pool, w.cells = step.Pool(w.tokens, most)
	w.stride = int64(w.cells+3) &^ 3
	var err error
	if w.dst, err = s.m.backend.Alloc(cache.Views, "attention rows", int64(lines)*(w.stride+sumBytes)); err == nil {
		r.watcher = w
	}
	return err
}

// unwatch frees what watch made.
func (r *runner) unwatch() {
	if r.watcher != nil {
		r.s.m.backend.Free(r.watcher.dst)
	}
}

// look writes the last token's rows of a layer, whose keys are stored and whose queries are still there.
func (r *runner) look(layer int) error {
	w := r.watcher
	if w == nil {
		return nil
	}
	c := &r.s.m.cfg
	last := len(r.args.IDs) - 1
	args := r.args
	args.From, args.To = r.chunk, last+1
	first := int64(layer * c.Heads)
	return r.s.m.exec.(step.Viewer).Look(&args, &step.View{
		Layer: layer, Heads: c.Heads, Row: last - r.chunk, Rows: 1, Base: last, Pool: w.pool,
		Dst: w.dst, Off: first * w.stride, Stride: w.stride,
		Sums: int64(c.Layers*c.Heads)*w.stride + first*sumBytes,
	})
}

// collect reads the rows of the pass.
func (r *runner) collect() error {
	w := r.watcher
	if w == nil {
		return nil
	}
	c := &r.s.m.cfg
	lines := c.Layers * c.Heads
	data := make([]byte, int64(lines)*(w.stride+sumBytes))
	if err := r.s.m.backend.Read(w.dst, 0, data); err != nil {
		return err
	}
	rows := &Rows{Tokens: w.tokens, Codes: trim(data, lines, w.cells, w.stride), Sums: make([]step.Sum, lines)}
	f := quant.Float32s(data[int64(lines)*w.stride:])
	for i := range rows.Sums {
		rows.Sums[i] = step.Sum{Sink: f[4*i], Local: f[4*i+1], Entropy: f[4*i+2], Top1: f[4*i+3]}
	}
	r.s.rows = rows
	return nil
}

// trim takes rows of cells out of lines that are stride bytes apart.
func trim(data []byte, lines, cells int, stride int64) []uint8 {
	out := make([]uint8, 0, lines*cells)
	for i := range lines {
		out = append(out, data[int64(i)*stride:][:cells]...)
	}
	return out
}

// View computes the attention matrix of one head over the tokens in the cache. Keys are those of the cache. Queries are
// not kept, so they are computed again: a pass over the conversation's tokens, layer by layer like a prefill, up to the
// queries of this layer. It takes its time, but no memory for every layer and token of a conversation that nobody looks
// at. As in a prefill, the pass attends to keys and values that no page has rounded, so queries of later turns differ
// from what they were by that rounding.
//
// Where tokens have left the head's list, queries are those of the turns as they were: the conversation happens once more,
// in an arena of its own, which takes about as long as it took. What SetCap did counts as if it had been so from the
// start.
//
// The session stays as it is, also if ctx is cancelled.
func (s *Session) View(ctx context.Context, layer, head int) (*Matrix, error) {
	m := s.m
	viewer, ok := m.exec.(step.Viewer)
	n := len(s.ids)
	switch {
	case !ok:
		return nil, fmt.Errorf("llama: view: %w", ErrNoViews)
	case layer < 0 || layer >= m.cfg.Layers || head < 0 || head >= m.cfg.Heads:
		return nil, fmt.Errorf("llama: view: layer %d of %d, head %d of %d", layer, m.cfg.Layers, head, m.cfg.Heads)
	case m.busy:
		return nil, fmt.Errorf("llama: view: %w", ErrBusy)
	case n == 0:
		return nil, fmt.Errorf("llama: view: %w", ErrEmpty)
	}
	m.busy = true
	defer func() { m.busy = false }()
	err := s.settled(ctx)
	if err == nil {
		err = s.ready(n)
	}
	if err != nil {
		return nil, fmt.Errorf("llama: view: %w", err)
	}
	out := &Matrix{Tokens: n}
	out.Pool, out.Cells = step.Pool(n, step.MaxCells)
	// A device that counts positions by rank has keys from before RoPE, which its kernel of matrices does not know.
	byRank := s.devices() != nil && s.recipe.plan.Store.Rank
	if byRank || s.gone.any(layer*m.cfg.KVHeads+head/(m.cfg.Heads/m.cfg.KVHeads)) {
		if err := s.retrace(ctx, layer, head, out); err != nil {
			return nil, fmt.Errorf("llama: view: %w", err)
		}
		return out, nil
	}
	stride := int64(out.Cells+3) &^ 3
	dst, err := m.backend.Alloc(cache.Views, "attention matrix", int64(out.Cells)*stride)
	if err != nil {
		return nil, fmt.Errorf("llama: view: %w", err)
	}
	defer m.backend.Free(dst)
	args := s.args(s.ids)
	args.Pos = 0
	err = s.replayTo(ctx, layer, func(from, to int) error {
		args.From, args.To = from, to
		return viewer.Look(&args, &step.View{
			Layer: layer, Head: head, Heads: 1, Rows: to - from, Pool: out.Pool, Dst: dst, Stride: stride, Sums: -1,
		})
	})
	data := make([]byte, int64(out.Cells)*stride)
	if err == nil {
		err = m.backend.Read(dst, 0, data)
	}
	if err != nil {
		return nil, fmt.Errorf("llama: view: %w", err)
	}
	out.Codes = trim(data, out.Cells, out.Cells, stride)
	return out, nil
}

// replayTo computes the conversation again, beside its cache, up to the queries of a layer, which are in Q when queries
// is called for rows [from, to).
func (s *Session) replayTo(ctx context.Context, layer int, queries func(from, to int) error) error {
	const nothing = 16 // bytes of an arena that stays empty
	m := s.m
	if err := m.exec.Grow(len(s.ids), 0); err != nil {
		return err
	}
	arena, err := m.backend.Alloc(cache.Free, "empty arena", nothing)
	if err != nil {
		return err
	}
	defer m.backend.Free(arena)
	c, err := cache.New(s.cache.Geometry(), nothing, m.led)
	if err != nil {
		return err
	}
	defer c.Close()
	r := runner{s: s, ctx: ctx, args: step.Args{Cache: c, Arena: arena, IDs: s.ids}}
	if err := r.embed(); err != nil {
		return err
	}
	for l := range layer {
		if err := r.compute(l, func(int) {}, nil); err != nil {
			return err
		}
	}
	return r.chunks(func() error {
		if err := r.run(layer, layerOp(layer)+opQKV); err != nil {
			return err
		}
		return queries(r.args.From, r.args.To)
	})
}

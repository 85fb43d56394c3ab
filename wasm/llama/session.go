package llama

import (
	"context"
	"errors"
	"fmt"

	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// SessionOptions say how much memory a session's cache has and how its pages look.
type SessionOptions struct {
	Cap    int64 // bytes of the arena; 0 is what Tokens need
	Tokens int   // tokens to make room for when Cap is 0; 0 is min(context_length, 2,048)
	F32    bool  // f32 pages instead of f16
	// PageK and PageV are the lanes of a page; 0 is 8, or 2 where the cap buys fewer than 64 slots a list.
	PageK, PageV int
}

// Session is one conversation: a cache and the position in it.
//
// The true position and the number of stored tokens are two numbers, neither derived from the other: eviction will part
// them.
type Session struct {
	m       *Model
	cache   *cache.Cache
	arena   step.Buffer
	pos     int       // position of the next token
	ids     []int32   // every token of the conversation up to pos
	pending []int32   // the last sampled token, while it is not in the cache
	logits  []float32 // after the token before pos
	watched bool      // passes leave rows
	rows    *Rows     // of the last pass, if it was watched
}

// Errors that callers tell apart. A full cache is a *cache.FullError.
var (
	ErrEmpty = errors.New("there is no prompt")
	ErrBusy  = errors.New("another call on this model is running")
	ErrToken = errors.New("a token id is outside the vocabulary")
)

// NewSession makes an empty session with an arena of its own.
func (m *Model) NewSession(o SessionOptions) (*Session, error) {
	geo := cache.Geometry{
		Layers: m.cfg.Layers, KVHeads: m.cfg.KVHeads, HeadDim: m.cfg.HeadDim,
		Key: cache.F16, Value: cache.F16, PageK: o.PageK, PageV: o.PageV,
	}
	if o.F32 {
		geo.Key, geo.Value = cache.F32, cache.F32
	}
	if o.Cap < 0 || o.Tokens < 0 || o.PageK < 0 || o.PageV < 0 {
		return nil, fmt.Errorf("llama: session: negative size")
	}
	size := o.Cap &^ 15
	if o.Cap == 0 {
		tokens := o.Tokens
		if tokens == 0 {
			tokens = min(m.cfg.Context, defaultTokens)
		}
		geo, size = sizeFor(geo, tokens)
	}
	limit := int64(cache.MaxCap)
	if n := m.backend.Info().MaxBuffer; n > 0 {
		limit = min(limit, n)
	}
	if size > limit { // before so much is asked for: running out of memory ends a Go program
		return nil, fmt.Errorf("llama: session: %w: a cap of %d bytes, at most %d are possible", step.ErrMemory, size, limit)
	}
	arena, err := m.backend.Alloc(cache.Free, "arena", size)
	if err != nil {
		return nil, fmt.Errorf("llama: session: %w", err)
	}
	c, err := cache.New(geo, size, m.led)
	if err != nil {
		m.backend.Free(arena)
		return nil, fmt.Errorf("llama: session: %w", err)
	}
	s := &Session{m: m, cache: c, arena: arena, logits: make([]float32, m.cfg.Vocab)}
	m.led.Add(cache.Staging, s.hostBytes(), s.hostBytes())
	return s, nil
}

// sizeFor chooses the pages of a cache for so many tokens, and its size in bytes: the size in narrow pages decides
// whether the cache is a small one.
func sizeFor(geo cache.Geometry, tokens int) (cache.Geometry, int64) {
	narrow := geo
	if narrow.PageK == 0 {
		narrow.PageK = 2
	}
	if narrow.PageV == 0 {
		narrow.PageV = 2
	}
	geo = geo.WithPages(narrow.FullBytes(tokens))
	return geo, geo.FullBytes(tokens)
}

func (s *Session) hostBytes() int64 { return 4 * int64(len(s.logits)) }

// Close frees the session's arena.
func (s *Session) Close() {
	if s.arena == 0 {
		return
	}
	s.cache.Close()
	s.m.backend.Free(s.arena)
	s.m.led.Add(cache.Staging, -s.hostBytes(), -s.hostBytes())
	s.arena = 0
}

// Reset empties the cache and starts again at position 0.
func (s *Session) Reset() {
	s.cache.Reset()
	s.pos, s.ids, s.pending, s.rows = 0, s.ids[:0], nil, nil
}

// Position is the position that the next token takes. It may pass the model's context_length.
func (s *Session) Position() int { return s.pos }

// Stored is how many tokens the fullest list holds.
func (s *Session) Stored() int { return s.cache.Tokens() }

// Room is how many more tokens fit.
func (s *Session) Room() int { return s.cache.Room() }

// Cap is the size of the arena in bytes.
func (s *Session) Cap() int64 { return s.cache.Cap() }

// Cache is the session's cache, for looking at.
func (s *Session) Cache() *cache.Cache { return s.cache }

// IDs are the tokens of the conversation, without the pending one.
func (s *Session) IDs() []int32 { return s.ids }

// Pending is the last generated token, if it is not in the cache yet: it is computed only when something follows it.
func (s *Session) Pending() (int32, bool) {
	if len(s.pending) == 0 {
		return 0, false
	}
	return s.pending[0], true
}

// Logits are the logits after the last token in the cache, or nil. The slice is reused.
func (s *Session) Logits() []float32 {
	if s.pos == 0 {
		return nil
	}
	return s.logits
}

// Decode adds one token (and the pending one before it) and computes the logits after it. If it fails, the session is
// as before.
func (s *Session) Decode(ctx context.Context, id int32) error {
	if len(s.pending) > 0 {
		return s.Prefill(ctx, []int32{id}, nil)
	}
	return s.decode(ctx, id, nil)
}

func (s *Session) decode(ctx context.Context, id int32, probe Probe) error {
	return s.turn("decode", []int32{id}, func() error {
		if err := s.m.exec.Grow(1, 1); err != nil {
			return err
		}
		args := s.args([]int32{id})
		args.Stored, args.To = true, 1
		r := runner{s: s, ctx: ctx, args: args, probe: probe}
		defer r.unwatch()
		if err := r.watch(); err != nil {
			return err
		}
		if err := r.run(-1, 0); err != nil {
			return err
		}
		for layer := range s.m.cfg.Layers {
			if err := r.take(layer, 1); err != nil {
				return err
			}
			for op := layerOp(layer); op < layerOp(layer+1); op++ {
				if err := r.run(layer, op); err != nil {
					return err
				}
			}
			if err := r.look(layer); err != nil {
				return err
			}
		}
		if err := r.logits(); err != nil {
			return err
		}
		return r.collect()
	})
}

// turn runs work, which adds ids to the cache, and undoes everything if it fails.
func (s *Session) turn(op string, ids []int32, work func() error) error {
	if s.m.busy {
		return fmt.Errorf("llama: %s: %w", op, ErrBusy)
	}
	s.m.busy = true
	defer func() { s.m.busy = false }()
	if len(ids) == 0 {
		return fmt.Errorf("llama: %s: %w", op, ErrEmpty)
	}
	for _, id := range ids {
		if id < 0 || int(id) >= s.m.cfg.Vocab {
			return fmt.Errorf("llama: %s: %w: %d", op, ErrToken, id)
		}
	}
	mark := s.cache.Mark()
	err := s.cache.Reserve(len(ids))
	if err == nil {
		if err = s.m.reach(s.pos + len(ids)); err == nil {
			err = work()
		}
	}
	if err != nil {
		s.cache.Restore(mark)
		return fmt.Errorf("llama: %s: %w", op, err)
	}
	s.pos += len(ids)
	s.ids = append(s.ids, ids...)
	return nil
}

func (s *Session) args(ids []int32) step.Args {
	return step.Args{Cache: s.cache, Arena: s.arena, IDs: ids, Pos: s.pos}
}

// runner runs operations of the model's program for one turn.
type runner struct {
	s       *Session
	ctx     context.Context
	args    step.Args
	probe   Probe
	chunk   int      // first row of what Q, A and F hold: the chunks of Store may be others
	watcher *watcher // nil unless the session is watched
}

// run runs one operation, shows it to the probe and gives way to others.
func (r *runner) run(layer, op int) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	m := r.s.m
	if _, ok := m.prog.Ops[op].(step.QKV); ok {
		r.chunk = r.args.From
	}
	done := m.pace.start()
	if err := m.exec.Run(r.ctx, &r.args, op, op+1); err != nil {
		return err
	}
	if done() {
		m.giveWay()
	}
	if r.probe == nil {
		return nil
	}
	return r.probe(&At{Layer: layer, Op: m.prog.Ops[op], From: r.args.From, To: r.args.To, chunk: r.chunk, m: m, args: &r.args})
}

// take hands out the slots of a layer for n rows.
func (r *runner) take(layer, n int) error {
	slots := make([][]uint32, r.s.m.cfg.KVHeads)
	for h := range slots {
		var err error
		if slots[h], err = r.s.cache.Take(layer, h, n); err != nil {
			return err
		}
	}
	r.args.Slots = slots
	return nil
}

// logits runs the final norm and the output matrix for the last row and reads the result.
func (r *runner) logits() error {
	m := r.s.m
	r.args.Logits = step.LastRow
	for op := layerOp(m.cfg.Layers); op < len(m.prog.Ops); op++ {
		if err := r.run(m.cfg.Layers, op); err != nil {
			return err
		}
	}
	// The run may have been cancelled while it gave way; a cancelled turn must not leave logits.
	if err := r.ctx.Err(); err != nil {
		return err
	}
	return m.backend.Read(m.exec.Scratch(step.Logits), 0, quant.Bytes(r.s.logits))
}

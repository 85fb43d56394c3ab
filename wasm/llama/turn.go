package llama

import (
	"context"
	"fmt"
	"slices"

	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// span is a run of tokens that came in together: a prompt, whose tokens were computed side by side, or tokens that
// were computed one by one. Where tokens leave the cache the difference matters, so that a replay keeps it. Or it is a
// deed: what was done to the cache between two tokens, which a replay does again.
type span struct {
	tokens int
	prompt bool
	led    int // first tokens of a prompt that were the answer's, pending before it
	deed   *deed
}

// deed is something that was done to a session between two tokens.
type deed struct {
	do func(context.Context, *Session) error
	// lasts says that the deed is done again under another recipe, too.
	lasts bool
	pins  []int32 // of Pin; nil is another deed
}

// did enters a deed after the tokens that are in the cache now.
func (s *Session) did(d deed) { s.spans = append(s.spans, span{deed: &d}) }

// turn runs work, which adds ids to the cache, and undoes everything if it fails. Where tokens have left the cache,
// undoing means to compute the conversation again: that waits until the session is asked for something.
func (s *Session) turn(ctx context.Context, op string, ids []int32, prompt bool, work func() error) error {
	if len(ids) == 0 {
		return fmt.Errorf("llama: %s: %w", op, ErrEmpty)
	}
	for _, id := range ids {
		if id < 0 || int(id) >= s.m.cfg.Vocab {
			return fmt.Errorf("llama: %s: %w: %d", op, ErrToken, id)
		}
	}
	return s.busy(op, func() error {
		if err := s.settled(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return s.attempt(ids, prompt, work)
	})
}

// busy runs f as the model's only call.
func (s *Session) busy(op string, f func() error) error {
	if s.m.busy {
		return fmt.Errorf("llama: %s: %w", op, ErrBusy)
	}
	s.m.busy = true
	defer func() { s.m.busy = false }()
	if err := f(); err != nil {
		return fmt.Errorf("llama: %s: %w", op, err)
	}
	return nil
}

// attempt runs work, which adds ids to the cache.
func (s *Session) attempt(ids []int32, prompt bool, work func() error) error {
	s.evicted, s.touched = s.evicted[:0], false
	defer s.account()
	if !prompt && s.grows() {
		if err := s.roomFor(len(ids)); err != nil {
			return err
		}
	}
	mark := s.cache.Mark()
	logits := s.logits
	if prompt { // these are read before it is certain that the turn succeeds
		logits = slices.Clone(s.logits)
	}
	var err error
	if s.run == nil {
		err = s.cache.Reserve(len(ids))
	}
	if err == nil {
		err = s.ready(s.pos + len(ids))
	}
	if err == nil {
		err = work()
	}
	if err != nil {
		s.rows = nil
	}
	switch {
	case err == nil:
		s.join(ids, prompt)
	case s.touched || s.cache.Stale(mark):
		s.cache.Reset()
		s.stale = true
	default:
		s.cache.Restore(mark)
		copy(s.logits, logits)
	}
	return err
}

// roomFor sees that n tokens fit before anything of a turn is there: to find that out half way would mean to compute the
// conversation again, only to say that the cap is reached.
func (s *Session) roomFor(n int) error {
	if s.cache.Room() >= n {
		return nil
	}
	if err := s.ready(s.pos); err != nil {
		return err
	}
	a := s.args(nil)
	if err := s.tidy(&a); err != nil {
		s.cache.Reset()
		s.stale = true
		return err
	}
	if room := s.cache.Room(); room < n {
		return &cache.FullError{Stored: s.cache.Tokens(), Asked: n, Room: room, Cap: s.cache.Cap()}
	}
	return nil
}

// ready prepares the model for runs of this session, up to a position.
func (s *Session) ready(end int) error {
	if err := s.m.reach(end); err != nil {
		return err
	}
	return s.m.follow(s.recipe.follows(), s.opts.Tables)
}

// join enters ids that are in the cache now.
func (s *Session) join(ids []int32, prompt bool) {
	s.pos += len(ids)
	s.ids = append(s.ids, ids...)
	if last := len(s.spans) - 1; !prompt && last >= 0 && s.spans[last].answer() {
		s.spans[last].tokens += len(ids)
		return
	}
	s.spans = append(s.spans, span{tokens: len(ids), prompt: prompt})
}

// answer says that the span's tokens were computed one by one.
func (sp span) answer() bool { return !sp.prompt && sp.deed == nil }

// Settle makes the cache that of the conversation again, if a turn that failed has left it otherwise. Whatever computes does
// so by itself; who only looks asks for it.
func (s *Session) Settle(ctx context.Context) error {
	return s.busy("settle", func() error { return s.settled(ctx) })
}

// settled makes the cache that of the conversation again, if a turn that failed has left it otherwise: from the last
// moment that is kept, or from the start, prompts as prompts, answers token by token, so that what comes next equals what
// would have come without that turn.
func (s *Session) settled(ctx context.Context) error {
	if !s.stale {
		return nil
	}
	was := *s
	s.logits, s.watched = make([]float32, len(was.logits)), false
	from := s.before(moment{ids: was.ids, spans: was.spans})
	err := s.start(from)
	if err == nil {
		err = s.again(ctx, was.ids[len(from.ids):], after(was.spans, from.spans), nil)
	}
	if err == nil {
		copy(was.logits, s.logits)
		s.stale = false
	} else {
		s.cache.Reset()
		s.ids, s.spans, s.pos, s.stale = was.ids, was.spans, was.pos, true
	}
	s.logits, s.watched, s.rows = was.logits, was.watched, was.rows
	return err
}

// anew begins a conversation with the settings of this one's beginning.
func (s *Session) anew() error {
	s.cache.Reset()
	s.ids, s.spans, s.pos, s.rows, s.evicted = nil, nil, 0, nil, nil
	s.gone.clear()
	s.cast(s.shadowed)
	return s.begin()
}

// again computes what came in these spans after what is in the cache. progress gets tokens × layers and may be nil.
func (s *Session) again(ctx context.Context, ids []int32, spans []span, progress func(done, total int)) error {
	layers := s.m.cfg.Layers
	done, total := 0, len(ids)*layers
	tell := func(done int) {
		if progress != nil {
			progress(done, total)
		}
	}
	for _, sp := range spans {
		part := ids[:sp.tokens]
		ids = ids[sp.tokens:]
		switch {
		case sp.deed != nil:
			if err := sp.deed.do(ctx, s); err != nil {
				return err
			}
			s.did(*sp.deed)
			continue
		case sp.prompt:
			p := pass{progress: func(now, _ int) { tell(done + now) }, probe: s.peek}
			if err := s.attempt(part, true, func() error { return s.prompt(ctx, part, p) }); err != nil {
				return err
			}
			s.spans[len(s.spans)-1].led = sp.led
			done += len(part) * layers
			continue
		}
		if s.ahead() {
			err := s.attempt(part, false, func() error {
				return s.forces(ctx, part, s.pos, func(n int, _ []step.Left) { tell(done + n*layers) })
			})
			if err != nil {
				return err
			}
			done += len(part) * layers
			continue
		}
		for i := range part {
			if err := s.attempt(part[i:i+1], false, func() error { return s.token(ctx, part[i], s.peek) }); err != nil {
				return err
			}
			done += layers
			tell(done)
		}
	}
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

// take hands out the slots of a layer for n rows under a recipe that drops nothing.
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

// layers is how many layers are computed.
func (s *Session) layers() int {
	if s.depth > 0 {
		return s.depth
	}
	return s.m.cfg.Layers
}

// logits runs the final norm and the output matrix for the last row and reads the result.
func (r *runner) logits() error {
	m := r.s.m
	if r.s.depth > 0 {
		return nil
	}
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
	err := m.backend.Read(m.exec.Scratch(step.Logits), 0, quant.Bytes(r.s.logits))
	if err != nil {
		r.s.touched = true // half of them may be others
	}
	return err
}

package llama

import (
	"context"
	"errors"
	"fmt"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// ErrNoShadow says that there is no copy of a token in any list that it left.
var ErrNoShadow = errors.New("there is no copy of the token")

// Recall brings a token back, by its position, into every list that it has left and that has a copy of it (see
// [Session.Shadow]); where a list is full, the token leaves first that the decode rule would let go next. The token's
// accumulated attention begins at 0, so that it may be the next to leave unless it is pinned. A compensation token gives
// back what it had of it, to the rounding of pages. The logits stay those of the last token: the next one sees the token.
//
// If it fails, the session answers as if it had never been called.
func (s *Session) Recall(ctx context.Context, position int) error {
	return s.busy("recall", func() error {
		if position < 0 || position >= s.pos {
			return fmt.Errorf("%w: position %d of %d", ErrNoShadow, position, s.pos)
		}
		if err := s.settled(ctx); err != nil {
			return err
		}
		if err := s.recall(ctx, int32(position)); err != nil {
			return err
		}
		s.did(deed{do: func(ctx context.Context, s *Session) error {
			if !s.copies() {
				return nil
			}
			err := s.recall(ctx, int32(position))
			if errors.Is(err, ErrNoShadow) { // under another cap or other pins it has not left
				return nil
			}
			return err
		}})
		return nil
	})
}

func (s *Session) recall(ctx context.Context, position int32) error {
	last := -1 // layer that has copies
	for i := range s.gone.at {
		if s.shadow != nil && s.shadow.has(i, position) {
			last = i / s.geo.KVHeads
		}
	}
	switch {
	case last >= 0:
	case s.depth > 0: // it had left layers that are not computed now
		return nil
	default:
		return fmt.Errorf("%w: position %d", ErrNoShadow, position)
	}
	if s.grows() {
		if err := s.roomFor(1); err != nil {
			return err
		}
	}
	if err := s.ready(s.pos); err != nil {
		return err
	}
	ids := s.ids[s.pos-1:]
	r := runner{s: s, ctx: ctx, args: step.Args{Cache: s.cache, Arena: s.arena, IDs: ids, Pos: s.pos - 1, To: 1, Stored: true}}
	s.touched = false
	err := r.eachLayer(last, func(layer int, in *policy.StepInput) error { return r.recall(layer, position, in) })
	s.evicted = s.evicted[:0]
	if err != nil && s.touched {
		s.cache.Reset()
		s.stale = true
	}
	return err
}

// recall brings a token back to the lists of a layer.
func (r *runner) recall(layer int, position int32, in *policy.StepInput) error {
	s := r.s
	comes, at := make([]bool, s.geo.KVHeads), make([][]uint32, s.geo.KVHeads)
	for h := range comes {
		if comes[h] = s.shadow.has(layer*s.geo.KVHeads+h, position); comes[h] {
			at[h] = []uint32{uint32(position)}
		}
	}
	if err := r.ctx.Err(); err != nil {
		return err
	}
	s.touched = true
	if err := r.out(layer, s.run.Recall(layer, in, comes)); err != nil {
		return err
	}
	slots, err := r.put(layer, at)
	if err != nil {
		return err
	}
	for h := range comes {
		if comes[h] {
			if err := r.comeBack(layer, h, slots[h][0], position); err != nil {
				return err
			}
			s.run.Recalled(layer, h, position)
		}
	}
	return nil
}

// comeBack writes the copy of a token to its slot.
func (r *runner) comeBack(layer, h int, slot uint32, position int32) error {
	s := r.s
	list, l := layer*s.geo.KVHeads+h, s.cache.List(layer, h)
	lane, size := s.shadow.take(list, position), s.geo.HeadDim*s.geo.Key.Bytes()
	s.gone.back(list, position, int32(s.pos))
	key, value := s.lanes(l, slot)
	word := func(table []uint32) int64 { return 4 * int64(table[slot/cache.PosLanes]+slot%cache.PosLanes) }
	err := s.m.backend.Upload(s.arena, key, lane[:size])
	if err == nil {
		err = s.m.backend.Upload(s.arena, value, lane[size:])
	}
	if err == nil {
		err = s.m.backend.Upload(s.arena, word(l.Positions), quant.Bytes([]uint32{uint32(position)}))
	}
	if err == nil && s.geo.Scores {
		err = s.m.backend.Upload(s.arena, word(l.Scores), make([]byte, 4))
	}
	if err == nil && s.recipe.plan.Store.Virtual && l.Absorbed > 0 {
		err = s.giveBack(layer, h, lane)
	}
	return err
}

// giveBack takes a token out of a list's compensation token.
func (s *Session) giveBack(layer, h int, lane []byte) error {
	l, d := s.cache.List(layer, h), s.geo.HeadDim
	sums := make([]float32, 2*d+1) // Σk, Σv and how many they are
	at := 4 * int64(l.Sums[0])
	if err := s.m.backend.Read(s.arena, at, quant.Bytes(sums)); err != nil {
		return err
	}
	if s.geo.Key == cache.F32 {
		for i, x := range quant.Float32s(lane) {
			sums[i] -= x
		}
	} else {
		for i, x := range quant.Uint16s(lane) {
			sums[i] -= quant.Half(x)
		}
	}
	s.cache.Absorb(layer, h, -1)
	sums[2*d] = float32(l.Absorbed)
	return s.m.backend.Upload(s.arena, at, quant.Bytes(sums))
}

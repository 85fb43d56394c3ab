package llama

import (
	"context"
	"errors"
	"slices"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// SetRecipe goes on under another recipe: the conversation is computed again, prompts as prompts and answers token by
// token, as if it had been so from the start. If that fails, or ctx is cancelled, the session keeps the recipe that it
// had. A conversation that the new recipe can't hold gives a *cache.FullError.
func (s *Session) SetRecipe(ctx context.Context, name policy.Recipe) error {
	return s.busy("recipe", func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		was := *s
		size := s.cache.Cap()
		s.opts.Recipe, s.opts.Plan = name, nil
		err := s.setRecipe(name, nil)
		if err == nil {
			s.geo, _ = s.geometry()
			s.geo.PageK, s.geo.PageV = was.geo.PageK, was.geo.PageV
			err = s.fit(size)
		}
		if err == nil {
			err = s.begin()
		}
		if err == nil {
			err = s.tooLong(size)
		}
		if err == nil && s.run != nil { // before anything is computed for a recipe that has no room for the pins
			if err = s.holdsPins(len(s.pinned())); err == nil {
				_, err = s.run.Pin(s.pinned())
			}
		}
		if err != nil {
			s.opts, s.recipe, s.geo, s.run = was.opts, was.recipe, was.geo, was.run
			return err
		}
		if err = s.renew(size); err == nil {
			s.shadowed, s.recorded = s.opts.Shadow, s.opts.Explain
			s.spans = slices.DeleteFunc(s.pinFirst(), func(sp span) bool { return sp.deed != nil && !sp.deed.lasts })
			s.moments = nil // they are of another recipe
			err = s.settled(ctx)
			s.moments = was.moments
		}
		if err == nil {
			s.epoch++
			s.forgetMoments()
			return nil
		}
		s.opts, s.recipe, s.geo, s.spans = was.opts, was.recipe, was.geo, was.spans
		s.shadowed, s.recorded = was.shadowed, was.recorded
		if e := s.begin(); e != nil {
			return e
		}
		if e := s.renew(size); e != nil {
			return e
		}
		return err
	})
}

// renew puts an empty cache over the arena, which is filled again when the session is asked for something.
func (s *Session) renew(size int64) error {
	c, err := cache.New(s.geo, size, s.m.led)
	if err != nil {
		return err
	}
	s.cache.Close()
	s.cache, s.stale = c, true
	return nil
}

// SetCap moves the session to an arena of another size; for a moment both are there. Under a lower cap tokens leave as
// the recipe lets them leave while decoding, now and not with the next token; recipes that drop nothing give a
// *cache.FullError if what they hold does not fit. Under a higher cap everything stays, and lists grow.
//
// If it fails, the session answers as if it had never been called. A session that has to be computed again later (see
// Prefill) is computed under the cap of that time, or from the checkpoint that KeepUndo has of this moment.
func (s *Session) SetCap(ctx context.Context, bytes int64) error {
	return s.busy("cap", func() error {
		size := bytes &^ 15
		if size < 0 {
			return errors.New("a cap below 0")
		}
		if err := s.m.fits(size); err != nil {
			return err
		}
		if err := s.settled(ctx); err != nil {
			return err
		}
		recipe, opts := s.recipe, s.opts
		s.opts.Budget, s.touched = 0, false
		err := s.fit(size)
		if err == nil {
			err = s.resize(ctx, size)
		}
		if err != nil {
			s.recipe, s.opts = recipe, opts
			if s.touched {
				s.cache.Reset()
				s.stale = true
			}
			return err
		}
		s.opts.Cap, s.spans = size, s.pinFirst()
		s.epoch++
		s.forgetMoments()
		s.remember()
		return nil
	})
}

// resize moves what the recipe keeps under its present budget to an arena of so many bytes.
func (s *Session) resize(ctx context.Context, size int64) error {
	if full := s.tooLong(size); full != nil {
		return full
	}
	arena, err := s.m.backend.Alloc(cache.Free, "arena", size)
	if err != nil {
		return err
	}
	if s.run != nil {
		err = s.run.Resize(s.recipe.plan, s.recipe.budget)
		s.touched = err == nil
	}
	if err == nil && size < s.cache.Cap() {
		err = s.shrink(ctx)
		if room := s.geo.FullTokens(size); err == nil && s.cache.Used() > size { // answers that grow let nothing go
			err = &cache.FullError{Stored: room, Asked: max(1, s.Stored()-room), Cap: size}
		}
	}
	if err == nil {
		err = s.copyArena(s.arena, arena)
	}
	if err == nil {
		err = s.cache.Resize(size)
	}
	if err != nil {
		s.m.backend.Free(arena)
		return err
	}
	s.m.backend.Free(s.arena)
	s.arena = arena
	return nil
}

// tooLong says that a recipe which drops nothing can't hold the conversation in an arena of so many bytes.
func (s *Session) tooLong(size int64) error {
	if room := s.geo.FullTokens(size); s.recipe.stops && room < s.pos {
		return &cache.FullError{Stored: room, Asked: s.pos - room, Cap: size}
	}
	return nil
}

// shrink lets go what a lower budget has no room for, and moves what stays together.
func (s *Session) shrink(ctx context.Context) error {
	if s.run == nil || s.pos == 0 {
		return nil
	}
	if err := s.ready(s.pos); err != nil {
		return err
	}
	last := s.ids[s.pos-1:]
	r := runner{s: s, ctx: ctx, args: step.Args{Cache: s.cache, Arena: s.arena, IDs: last, Pos: s.pos - 1, To: 1, Stored: true}}
	if err := r.shrink(); err != nil {
		return err
	}
	s.evicted = s.evicted[:0]
	return s.tidy(&r.args)
}

// shrink applies the decode rule to all layers.
func (r *runner) shrink() error {
	if k := r.s.devices(); k != nil {
		return r.shrinks(k)
	}
	return r.eachLayer(r.s.m.cfg.Layers-1, r.leave)
}

// eachLayer calls f for the layers up to the last one that is wanted, with what the decode rule looks at. Where that is
// the attention of a query, it is the last token's, computed once more.
func (r *runner) eachLayer(last int, f func(layer int, in *policy.StepInput) error) error {
	s := r.s
	looks := s.recipe.plan.Decode.Kind == policy.DecodeRow
	if looks {
		if err := s.m.exec.Grow(1, 1); err != nil {
			return err
		}
		if err := r.run(-1, 0); err != nil {
			return err
		}
	}
	for layer := range last + 1 {
		if !looks {
			in, err := r.sums(layer)
			if err == nil {
				err = f(layer, in)
			}
			if err != nil {
				return err
			}
			continue
		}
		for op := range opsPerLayer {
			if op == opStore {
				continue
			}
			if err := r.run(layer, layerOp(layer)+op); err != nil {
				return err
			}
			if op != opAttend {
				continue
			}
			in, err := s.m.scorer().Rows(&r.args, layer)
			if err == nil {
				err = f(layer, in)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// sums is what a layer's tokens have been worth so far.
func (r *runner) sums(layer int) (*policy.StepInput, error) {
	s := r.s
	in := r.positions(layer)
	if !s.geo.Scores {
		return in, nil
	}
	in.Sums = make([][]float32, len(in.Pos))
	for h := range in.Sums {
		l := s.cache.List(layer, h)
		order := l.Order()
		in.Sums[h] = make([]float32, len(order))
		for i, slot := range order {
			word := l.Scores[slot/cache.PosLanes] + slot%cache.PosLanes
			if err := s.m.backend.Read(s.arena, 4*int64(word), quant.Bytes(in.Sums[h][i:i+1])); err != nil {
				return nil, err
			}
		}
	}
	return in, nil
}

// copyBytes is how much passes through the host at a time.
const copyBytes = 1 << 20

// copyArena copies what the cache's pages hold.
func (s *Session) copyArena(from, to step.Buffer) error {
	used := s.cache.Used()
	buf := make([]byte, min(used, copyBytes))
	s.m.led.Add(cache.Staging, int64(len(buf)), int64(len(buf)))
	defer s.m.led.Add(cache.Staging, -int64(len(buf)), -int64(len(buf)))
	for off := int64(0); off < used; off += int64(len(buf)) {
		part := buf[:min(int64(len(buf)), used-off)]
		if err := s.m.backend.Read(from, off, part); err != nil {
			return err
		}
		if err := s.m.backend.Upload(to, off, part); err != nil {
			return err
		}
	}
	return nil
}

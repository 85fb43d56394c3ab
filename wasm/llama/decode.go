package llama

import (
	"context"

	"kvlens/cache/policy"
	"kvlens/wasm/step"
)

// Decode adds one token (and the pending one before it) and computes the logits after it. If it fails, the session
// answers as if it had never been called.
func (s *Session) Decode(ctx context.Context, id int32) error {
	if len(s.pending) > 0 {
		return s.Prefill(ctx, []int32{id}, nil)
	}
	return s.decode(ctx, id, nil)
}

func (s *Session) decode(ctx context.Context, id int32, probe Probe) error {
	return s.turn(ctx, "decode", []int32{id}, false, func() error { return s.token(ctx, id, probe) })
}

// token computes one token after those in the cache, and the logits after it.
func (s *Session) token(ctx context.Context, id int32, probe Probe) error {
	if s.run != nil { // short, and to take it back would mean to compute the whole conversation again
		ctx = context.WithoutCancel(ctx)
	}
	if probe == nil && !s.watched && s.ahead() {
		return s.forces(ctx, []int32{id}, s.pos, func(_ int, left []step.Left) { s.evicted = s.evictions(left) })
	}
	if err := s.m.exec.Grow(1, 1); err != nil {
		return err
	}
	r := runner{s: s, ctx: ctx, args: s.args([]int32{id}), probe: probe}
	defer r.unwatch()
	if err := r.watch(); err != nil {
		return err
	}
	if err := r.token(); err != nil {
		return err
	}
	if err := r.collect(); err != nil {
		return err
	}
	return r.logits()
}

// token runs all layers for the one row of the turn.
func (r *runner) token() error {
	r.args.Stored, r.args.From, r.args.To = true, 0, 1
	k := r.s.devices()
	if k != nil {
		if err := r.joins(k); err != nil {
			return err
		}
		r.s.touched = true
	}
	if err := r.run(-1, 0); err != nil {
		return err
	}
	for layer := range r.s.layers() {
		if err := r.slot(layer); err != nil {
			return err
		}
		first := layerOp(layer)
		for op := range opsPerLayer {
			if err := r.run(layer, first+op); err != nil {
				return err
			}
			if op != opAttend {
				continue
			}
			if err := r.look(layer); err != nil {
				return err
			}
			if err := r.drop(layer); err != nil {
				return err
			}
		}
	}
	if k != nil {
		return r.joined(k)
	}
	return nil
}

// slot gives the row a slot in every list of a layer.
func (r *runner) slot(layer int) (err error) {
	switch {
	case r.s.run == nil:
		return r.take(layer, 1)
	case r.s.devices() != nil:
		return nil // it chooses them
	}
	at := make([][]uint32, r.s.m.cfg.KVHeads)
	for h := range at {
		at[h] = []uint32{uint32(r.args.Pos)}
	}
	r.args.Slots, err = r.put(layer, at)
	return err
}

// drop lets the recipe decide which tokens of a layer leave, now that the row has attended to all of them: by the row's
// attention where it needs that, by positions alone otherwise.
func (r *runner) drop(layer int) error {
	s := r.s
	if s.run == nil {
		return nil
	}
	if k := s.devices(); k != nil {
		return k.Drop(&r.args, layer)
	}
	s.touched = true
	if s.recipe.plan.Decode.Kind == policy.DecodeOldest {
		return r.leave(layer, r.positions(layer))
	}
	in, err := s.m.scorer().Rows(&r.args, layer)
	if err != nil {
		return err
	}
	return r.leave(layer, in)
}

// positions are those of a layer's tokens.
func (r *runner) positions(layer int) *policy.StepInput {
	in := &policy.StepInput{Pos: make([][]int32, r.s.m.cfg.KVHeads)}
	for h := range in.Pos {
		in.Pos[h] = positions(r.s.cache.List(layer, h))
	}
	return in
}

// leave evicts what the decode rule says.
func (r *runner) leave(layer int, in *policy.StepInput) error {
	return r.out(layer, r.s.run.Step(layer, in))
}

// out evicts tokens of a layer, by their rank in each list.
func (r *runner) out(layer int, leaving [][]int32) error {
	for h, leave := range leaving {
		order := r.s.cache.List(layer, h).Order()
		slots := make([]uint32, len(leave))
		for i, at := range leave {
			slots[i] = order[at]
		}
		if err := r.evict(layer, h, slots); err != nil {
			return err
		}
	}
	return nil
}

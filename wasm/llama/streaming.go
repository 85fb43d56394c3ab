package llama

import (
	"context"

	"kvlens/wasm/step"
)

// stream computes a prompt under a recipe whose positions are ranks in the cache: every token that leaves changes the
// positions of all after it. So only what fits before anything leaves is computed side by side; the rest, and every
// prompt after the first, goes token by token, each of which sees the cache as it would while decoding. In parity mode a
// first prompt is computed side by side whatever its length, as ports of the method do.
func (s *Session) stream(ctx context.Context, ids []int32, p pass) error {
	layers := s.m.cfg.Layers
	total := len(ids) * layers
	first := 0
	if s.pos == 0 {
		if first = len(ids); !s.opts.Parity {
			first = min(first, s.recipe.budget.Tokens)
		}
		r := &runner{s: s, ctx: ctx, args: s.args(ids[:first]), probe: p.probe}
		if err := r.prompt(p, total); err != nil {
			return err
		}
	}
	if s.ahead() && p.row == nil && p.probe == nil && first < len(ids)-1 {
		n := len(ids)
		if s.watched {
			n-- // the last one's rows are wanted
		}
		err := s.forces(ctx, ids[first:n], s.pos+first, func(done int, _ []step.Left) { p.progress((first+done)*layers, total) })
		if err != nil {
			return err
		}
		first = n
	}
	for i := first; i < len(ids); i++ {
		r := &runner{s: s, ctx: ctx, args: s.args(ids[i : i+1]), probe: p.probe}
		r.args.Pos += i
		if err := s.m.exec.Grow(1, 1); err != nil {
			return err
		}
		if err := r.forced(i, len(ids), p); err != nil {
			return err
		}
		s.evicted = s.evicted[:0]
		p.progress((i+1)*layers, total)
	}
	return nil
}

// forced is one token of a stream, the i-th of n. Logits come after the last, or after all if they are wanted.
func (r *runner) forced(i, n int, p pass) error {
	last := i == n-1
	if last {
		defer r.unwatch()
		if err := r.watch(); err != nil {
			return err
		}
	}
	if err := r.token(); err != nil {
		return err
	}
	wanted := p.row != nil && i >= p.skip
	if !last && !wanted {
		return nil
	}
	if err := r.logits(); err != nil {
		return err
	}
	if wanted {
		if err := p.row(i-p.skip, r.s.logits); err != nil {
			return err
		}
	}
	return r.collect()
}

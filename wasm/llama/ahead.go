package llama

import (
	"context"
	"errors"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// Answers whose tokens the device lets go: the session says what the decode rule comes to in each list, and learns at the
// end which tokens are there.

// devices is the exec that chooses what leaves the session's lists; nil where the host does, or nothing ever leaves.
func (s *Session) devices() step.Keeper {
	if s.run == nil {
		return nil
	}
	return s.m.keeper()
}

// ahead says that the backend decodes forced tokens by itself, and chooses what leaves.
func (s *Session) ahead() bool {
	_, ok := s.m.exec.(step.Stepper)
	return ok && s.devices() != nil && s.peek == nil && s.depth == 0
}

// rules are what the decode rule does to each list while tokens from a position on are decoded.
func (s *Session) rules(pos int) []step.Rule {
	c, sinks := &s.m.cfg, s.run.Sinks()
	rules := make([]step.Rule, 0, c.Layers*c.KVHeads)
	for layer := range c.Layers {
		for h := range c.KVHeads {
			l, n := s.cache.List(layer, h), max(0, sinks-pos) // sinks that are still to come
			for _, slot := range l.Order() {
				if int(l.At[slot]) >= sinks {
					break
				}
				n++
			}
			q, full := s.run.Rule(layer, h, n)
			rules = append(rules, step.Rule{Limit: q.Limit, Full: full, Oldest: q.Oldest, Newest: q.Newest, Pins: s.pinsIn(l, sinks, pos-q.Newest)})
		}
	}
	return rules
}

// lendFor lends the lists for so many tokens that are decoded from a position on.
func (s *Session) lendFor(k step.Keeper, a *step.Args, tokens int) ([]step.Rule, error) {
	rules, most := s.rules(a.Pos), 0
	for i, r := range rules {
		held := s.cache.List(i/s.m.cfg.KVHeads, i%s.m.cfg.KVHeads).Live
		most = max(most, min(r.Full, held+tokens))
	}
	return rules, k.Lend(a, &step.Loan{Most: most, Pins: s.run.Pins()})
}

// regain learns what the device has let stay of the lists that were lent.
func (s *Session) regain(k step.Keeper, a *step.Args) error {
	if !s.cache.Lent() {
		return nil
	}
	tokens := make([]int, s.m.cfg.KVHeads)
	for layer := range s.m.cfg.Layers {
		for h := range tokens {
			tokens[h] = s.cache.List(layer, h).Live
		}
		s.run.Hold(layer, tokens)
	}
	return k.Return(a)
}

// crowded says that a token has no pages, which may only lie scattered.
func crowded(err error) bool {
	var full *cache.FullError
	return errors.As(err, &full) || errors.Is(err, cache.ErrScattered)
}

// closeUp moves tokens and pages together while the lists are the device's, and takes them back.
func (s *Session) closeUp(k step.Keeper, a *step.Args) error {
	for layer := range s.m.cfg.Layers {
		for h := range s.m.cfg.KVHeads {
			if err := s.cache.Hold(layer, h, s.cache.List(layer, h).Live); err != nil {
				return err
			}
		}
	}
	if err := (&runner{s: s, args: *a}).pack(k, -1, nil); err != nil {
		return err
	}
	return s.regain(k, a)
}

// joins gives the row of a token a place in every list of the device's, moving pages together if need be.
func (r *runner) joins(k step.Keeper) error {
	err := r.join(k)
	if !crowded(err) {
		return err
	}
	if err := r.s.closeUp(k, &r.args); err != nil {
		return err
	}
	return r.join(k)
}

func (r *runner) join(k step.Keeper) error {
	rules, err := r.s.lendFor(k, &r.args, 1)
	if err != nil {
		return err
	}
	return k.Join(&r.args, rules[:r.s.layers()*r.s.m.cfg.KVHeads])
}

// shrinks lets the device apply the decode rule to all layers, as if the last token had just come. Where it decides by
// the attention of a query, that is the last token's, computed once more.
func (r *runner) shrinks(k step.Keeper) error {
	if err := r.s.m.exec.Grow(1, 1); err != nil {
		return err
	}
	rules, err := r.s.lendFor(k, &r.args, 0)
	if err == nil {
		err = k.Rejoin(&r.args, rules)
	}
	if err != nil {
		return err
	}
	looks := r.s.recipe.plan.Decode.Kind == policy.DecodeRow
	if looks {
		if err := r.run(-1, 0); err != nil {
			return err
		}
	}
	for layer := range r.s.m.cfg.Layers {
		for op := 0; looks && op <= opAttend; op++ {
			if op == opStore {
				continue
			}
			if err := r.run(layer, layerOp(layer)+op); err != nil {
				return err
			}
		}
		if err := k.Drop(&r.args, layer); err != nil {
			return err
		}
		for op := opAttend + 1; looks && op < opsPerLayer; op++ {
			if err := r.run(layer, layerOp(layer)+op); err != nil {
				return err
			}
		}
	}
	return r.joined(k)
}

// joined takes the lists back after a token, and learns what left.
func (r *runner) joined(k step.Keeper) error {
	left, err := k.Left(&r.args)
	if err == nil {
		r.s.evicted = append(r.s.evicted, r.s.evictions(left)...)
		err = r.s.regain(k, &r.args)
	}
	if err == nil {
		r.s.sweep(r.args.Pos + 1)
	}
	return err
}

// evictions are what left, as sessions tell it.
func (s *Session) evictions(left []step.Left) []Eviction {
	out := make([]Eviction, len(left))
	for i, x := range left {
		layer, h := x.List/s.m.cfg.KVHeads, x.List%s.m.cfg.KVHeads
		out[i] = Eviction{layer, h, int(x.Position), s.run.Rules(layer, h), x.Worth, x.Threshold, x.Rank}
	}
	return out
}

// forces adds tokens from a position on, one after the other, each of which sees the cache as it would while decoding, on a
// device that works ahead. The logits are those after the last. progress gets how many are done, and what left for the last
// of them. What was done when it fails stays done.
func (s *Session) forces(ctx context.Context, ids []int32, pos int, progress func(done int, left []step.Left)) (err error) {
	r := replayer{
		s: s, o: GenerateOptions{Max: len(ids), Forced: ids[1:], Evictions: len(ids) == 1}, pending: ids[0], at: pos,
	}
	if err := r.begin(); err != nil {
		return err
	}
	defer func() {
		if e := r.close(); err == nil {
			err = e
		}
		if err == nil {
			err = s.m.backend.Read(s.m.exec.Scratch(step.Logits), 0, quant.Bytes(s.logits))
		}
	}()
	for r.tokens < len(ids) {
		if err := r.fill(ctx); err != nil {
			return err
		}
		if len(r.flight) == 0 {
			return errors.Join(r.full, ctx.Err())
		}
		c, err := r.take(ctx)
		if err != nil {
			return err
		}
		s.touched = true
		progress(r.tokens, c.Left)
		s.m.giveWay()
	}
	return nil
}

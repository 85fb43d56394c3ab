package llama

import (
	"errors"
	"slices"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/cache/policy/stage"
	"kvlens/wasm/step"
)

// Prompts whose tokens the device chooses: the session says how many stay of each list, and learns which at the end.

// keeper is the exec of the model as one whose device chooses tokens itself, nil where the host does.
func (m *Model) keeper() step.Keeper {
	k, _ := m.exec.(step.Keeper)
	return k
}

// lend begins a prompt whose tokens the device chooses.
func (r *runner) lend() error {
	s, k, n := r.s, r.s.m.keeper(), len(r.args.IDs)
	if k == nil || s.run == nil {
		return nil
	}
	ahead := s.run.Clone() // until a layer is done, nothing has changed
	ahead.Prompt(n)
	l := step.Loan{Rows: n, Most: min(ahead.Most(), s.cache.Tokens()+n), Pins: s.run.Pins()}
	if sc := &s.recipe.plan.Score; sc.Kind == policy.ScoreExpected {
		l.Turn = s.m.meanRotation(r.args.Pos+n, sc.Future)
	}
	return k.Lend(&r.args, &l)
}

// meanRotation is that of n positions from first on.
func (m *Model) meanRotation(first, n int) []float32 {
	rot := m.cfg.RotDim
	if rot == 0 {
		return nil
	}
	table := ropeTable(&m.cfg, m.freqs, first, n)
	return stage.MeanRotation(func(pos int) []float32 { return table[(pos-first)*rot:][:rot] }, m.cfg.Neox, first, n).CosSin
}

// keepers is layer where the device chooses.
func (r *runner) keepers(layer int, progress func(rows int), k step.Keeper) error {
	if err := r.compute(layer, progress, func() error { return k.Observe(&r.args, layer) }); err != nil {
		return err
	}
	r.args.From, r.args.To = 0, len(r.args.IDs)
	if err := k.Weigh(&r.args, layer); err != nil {
		return err
	}
	r.s.touched = true
	if layer == 0 {
		r.s.run.Prompt(len(r.args.IDs))
	}
	sz := r.sizes(layer)
	quotas, err := r.s.run.Quotas(layer, sz, k)
	if err != nil {
		return err
	}
	for _, q := range quotas {
		if err := r.hold(&q, k); err != nil {
			return err
		}
	}
	if !r.s.recipe.plan.Store.Virtual {
		return r.look(layer)
	}
	for h, q := range quotas[len(quotas)-1].Lists {
		if lost := sz.Candidates[h] - q.Limit; lost > 0 {
			r.s.cache.Absorb(layer, h, lost)
		}
	}
	return nil
}

// sizes counts a layer's candidates: what it has stored, and the prompt's rows.
func (r *runner) sizes(layer int) *policy.Sizes {
	c, sinks := &r.s.m.cfg, r.s.run.Sinks()
	sz := &policy.Sizes{Candidates: make([]int, c.KVHeads), Sinks: make([]int, c.KVHeads)}
	for h := range c.KVHeads {
		l := r.s.cache.List(layer, h)
		sz.Candidates[h] = l.Live + len(r.args.IDs)
		for _, slot := range l.Order() {
			if int(l.At[slot]) >= sinks {
				break
			}
			sz.Sinks[h]++
		}
		sz.Sinks[h] += max(0, min(sinks-r.args.Pos, len(r.args.IDs)))
	}
	return sz
}

// hold lets as many tokens of a layer stay as quotas say.
func (r *runner) hold(q *policy.LayerQuotas, k step.Keeper) error {
	if err := k.Select(&r.args, q); err != nil {
		return err
	}
	var later []int // lists for which there were no pages
	for h, quota := range q.Lists {
		err := r.s.cache.Hold(q.Layer, h, quota.Limit)
		var full *cache.FullError
		switch {
		case errors.As(err, &full), errors.Is(err, cache.ErrScattered):
			later = append(later, h)
		case err != nil:
			return err
		}
	}
	if len(later) > 0 {
		if err := r.pack(k, q.Layer, later); err != nil {
			return err
		}
	}
	for _, h := range later {
		if err := r.s.cache.Hold(q.Layer, h, q.Lists[h].Limit); err != nil {
			return err
		}
	}
	return k.Keep(&r.args, q.Layer)
}

// pack is tidy while lists are lent. The KV heads of a layer that wait for pages have no dead slot any more, which only the
// device knows as yet.
func (r *runner) pack(k step.Keeper, at int, waiting []int) error {
	s := r.s
	for layer := range s.m.cfg.Layers {
		loose := false
		for h := range s.m.cfg.KVHeads {
			l := s.cache.List(layer, h)
			loose = loose || l.Live < l.Slots
		}
		if !loose {
			continue
		}
		if err := k.Pack(&r.args, layer); err != nil {
			return err
		}
		for h := range s.m.cfg.KVHeads {
			if layer != at || !slices.Contains(waiting, h) {
				s.cache.Pack(layer, h)
				s.cache.Trim(layer, h)
			}
		}
	}
	if pages := s.cache.Gather(); len(pages) > 0 {
		return k.Relocate(&r.args, pages)
	}
	return nil
}

// reclaim learns what the device has kept.
func (r *runner) reclaim() error {
	k := r.s.devices()
	if k == nil {
		return nil
	}
	err := k.Return(&r.args)
	if err == nil {
		r.s.sweep(r.args.Pos + len(r.args.IDs))
	}
	return err
}

package llama

import (
	"errors"
	"fmt"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/step"
)

// Eviction is a token that left a list while a token was decoded, and why ([policy.Verdict]).
type Eviction struct {
	Layer, KVHead, Position int
	Rule                    policy.Decision
	Score, Threshold        float32 // NaN where there is none
	Rank                    int     // 0 where there is none
}

// scorer is the exec of the model as one that runs recipes.
func (m *Model) scorer() step.Scorer { return m.exec.(step.Scorer) }

// choose lets the recipe decide what of a layer stays, among what is stored and the rows that were just computed, and
// hands out slots to those rows that do.
func (r *runner) choose(layer int) error {
	s, sc := r.s, r.s.m.scorer()
	r.args.From, r.args.To = 0, len(r.args.IDs)
	in, err := sc.Input(&r.args, layer)
	if err != nil {
		return err
	}
	s.touched = true
	if layer == 0 {
		s.run.Prompt(len(r.args.IDs))
	}
	keeps, err := s.run.Layer(layer, in, s.m.loops())
	if err != nil {
		return err
	}
	for _, k := range keeps {
		if k.Layer == layer {
			continue
		}
		for h, keep := range k.Heads { // a layer that was stored before shrinks
			if _, _, err := r.keep(k.Layer, h, keep, 0); err != nil {
				return err
			}
		}
		if err := r.putSums(k); err != nil {
			return err
		}
	}
	for _, k := range keeps {
		if k.Layer == layer {
			return r.admit(k)
		}
	}
	return fmt.Errorf("the recipe says nothing of layer %d", layer)
}

// admit evicts what does not stay of a layer, gives slots to the rows that do, and stores them.
func (r *runner) admit(k policy.Keep) error {
	c := &r.s.m.cfg
	n := len(r.args.IDs)
	rows, lost := make([][]int32, c.KVHeads), make([][]int32, c.KVHeads)
	at := make([][]uint32, c.KVHeads)
	for h, keep := range k.Heads {
		var err error
		if rows[h], lost[h], err = r.keep(k.Layer, h, keep, n); err != nil {
			return err
		}
		for _, row := range rows[h] {
			at[h] = append(at[h], uint32(r.args.Pos)+uint32(row))
		}
	}
	given, err := r.put(k.Layer, at)
	if err != nil {
		return err
	}
	slots := make([][]uint32, c.KVHeads)
	for h := range slots {
		if err := r.absorb(k.Layer, h, nil, lost[h]); err != nil {
			return err
		}
		if err := r.depart(k.Layer, h, nil, lost[h]); err != nil {
			return err
		}
		slots[h] = make([]uint32, n)
		for i := range slots[h] {
			slots[h][i] = cache.NoSlot
		}
		for i, row := range rows[h] {
			slots[h][row] = given[h][i]
		}
	}
	r.args.Slots = slots
	err = r.chunks(func() error { return r.run(k.Layer, layerOp(k.Layer)+opStore) })
	r.args.Slots = nil
	if err != nil {
		return err
	}
	return r.putSums(k)
}

// keep evicts the tokens of a list that do not stay, and gives the rows among n new ones that do, and those that do not.
// Indices of keep count the list's tokens in the order of their positions, and then the rows.
func (r *runner) keep(layer, h int, keep []int32, n int) (rows, lost []int32, err error) {
	order := r.s.cache.List(layer, h).Order()
	var leave []uint32
	next := 0
	for i := range len(order) + n {
		stays := next < len(keep) && int(keep[next]) == i
		if stays {
			next++
		}
		switch {
		case i < len(order) && !stays:
			leave = append(leave, order[i])
		case i >= len(order) && stays:
			rows = append(rows, int32(i-len(order)))
		case i >= len(order):
			lost = append(lost, int32(i-len(order)))
		}
	}
	if next != len(keep) {
		return nil, nil, fmt.Errorf("layer %d, KV head %d: the recipe keeps what is not there", layer, h)
	}
	return rows, lost, r.evict(layer, h, leave)
}

// absorb adds what leaves a list, or does not get there, to the list's compensation token, if the recipe has one.
func (r *runner) absorb(layer, h int, slots []uint32, rows []int32) error {
	if !r.s.recipe.plan.Store.Virtual || len(slots)+len(rows) == 0 {
		return nil
	}
	return r.s.m.scorer().Absorb(&r.args, layer, h, slots, rows)
}

// evict lets tokens of a list go.
func (r *runner) evict(layer, h int, slots []uint32) error {
	s := r.s
	if err := r.absorb(layer, h, slots, nil); err != nil {
		return err
	}
	if err := r.depart(layer, h, slots, nil); err != nil {
		return err
	}
	l := s.cache.List(layer, h)
	if r.args.Stored {
		for i, slot := range slots {
			s.evicted = append(s.evicted, s.eviction(layer, h, int(l.At[slot]), i, len(slots)))
		}
	}
	s.cache.Evict(layer, h, slots)
	return nil
}

// putSums writes the accumulated attention of what stayed.
func (r *runner) putSums(k policy.Keep) error {
	for h, sums := range k.Sums {
		order := r.s.cache.List(k.Layer, h).Order()
		if err := r.s.m.scorer().PutSums(&r.args, k.Layer, h, order, sums); err != nil {
			return err
		}
	}
	return nil
}

// put takes slots for tokens of a layer, positions by KV head. Where dead slots lie scattered over pages that another
// list could use, or free bytes over the arena, tokens and pages move together first.
func (r *runner) put(layer int, at [][]uint32) ([][]uint32, error) {
	s := r.s
	slots, err := s.take(layer, at)
	var full *cache.FullError
	if !errors.As(err, &full) && !errors.Is(err, cache.ErrScattered) {
		return slots, err
	}
	if err := s.tidy(&r.args); err != nil {
		return nil, err
	}
	return s.take(layer, at)
}

// take takes slots for tokens of a layer, or none.
func (s *Session) take(layer int, at [][]uint32) ([][]uint32, error) {
	slots := make([][]uint32, len(at))
	for h := range at {
		var err error
		if slots[h], err = s.cache.Put(layer, h, at[h]); err != nil {
			for i := range h {
				s.cache.Evict(layer, i, slots[i])
			}
			return nil, err
		}
	}
	return slots, nil
}

// tidy moves the tokens of all lists together, so that whole pages come free, and the pages, so that these lie side by
// side.
func (s *Session) tidy(a *step.Args) error {
	if k := s.devices(); k != nil {
		if err := k.Lend(a, &step.Loan{}); err != nil {
			return err
		}
		return s.closeUp(k, a)
	}
	sc := s.m.scorer()
	for layer := range s.m.cfg.Layers {
		for h := range s.m.cfg.KVHeads {
			if moves := s.cache.Compact(layer, h); len(moves) > 0 {
				if err := sc.Move(a, layer, h, moves); err != nil {
					return err
				}
			}
			s.cache.Trim(layer, h)
		}
	}
	if pages := s.cache.Gather(); len(pages) > 0 {
		return sc.Relocate(a, pages)
	}
	return nil
}

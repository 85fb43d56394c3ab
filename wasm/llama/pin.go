package llama

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/step"
)

// ErrPins says that tokens can't be pinned: too many for the budget, or one that the conversation does not have.
var ErrPins = policy.ErrPins

// Pin names the tokens that stay from now on, by their positions, whatever the recipe says, instead of those named before.
// They count against the cap ([policy.Run.Pin]). A token that has left some lists, or all, stays in those that have it; it
// comes back by Recall only, and then stays. What other lists must give for the pins leaves at once.
//
// The session is computed again, where that must be, with the pins that it had at each moment; under another recipe and
// after another cap with those that it has now, from the start. If Pin fails, the session answers as if it had never been
// called; the error is an ErrPins where the tokens can't be pinned.
func (s *Session) Pin(ctx context.Context, positions []int) error {
	return s.busy("pin", func() error {
		pins := make([]int32, 0, len(positions))
		for _, p := range positions {
			if n := s.pos + len(s.pending); p < 0 || p >= n {
				return fmt.Errorf("%w: position %d of %d", ErrPins, p, n)
			}
			pins = append(pins, int32(p))
		}
		sort.Slice(pins, func(a, b int) bool { return pins[a] < pins[b] })
		if err := s.settled(ctx); err != nil {
			return err
		}
		if pins = slices.Compact(pins); slices.Equal(pins, s.pinned()) {
			return nil
		}
		if err := s.pin(ctx, pins); err != nil {
			return err
		}
		s.did(pinning(pins))
		return nil
	})
}

// Pins are the positions that are pinned, ascending.
func (s *Session) Pins() []int {
	var out []int
	for _, p := range s.pinned() {
		out = append(out, int(p))
	}
	return out
}

// pinning is Pin as a deed.
func pinning(pins []int32) deed {
	return deed{do: func(ctx context.Context, s *Session) error { return s.pin(ctx, pins) }, lasts: true, pins: pins}
}

// pinned are the positions that are pinned: the last deed says so.
func (s *Session) pinned() []int32 {
	for _, sp := range slices.Backward(s.spans) {
		if sp.deed != nil && sp.deed.pins != nil {
			return sp.deed.pins
		}
	}
	return nil
}

// pinFirst is the conversation as if what is pinned now had been so from the start.
func (s *Session) pinFirst() []span {
	pins := s.pinned()
	spans := slices.DeleteFunc(slices.Clone(s.spans), func(sp span) bool { return sp.deed != nil && sp.deed.pins != nil })
	if len(pins) > 0 {
		d := pinning(pins)
		spans = append([]span{{deed: &d}}, spans...)
	}
	return spans
}

// holdsPins says whether a device that chooses tokens itself can keep so many. Which pins a list has is known to it alone:
// so the room of KV heads that compete for it, or what goes by scores before values weigh in, can't be counted here.
func (s *Session) holdsPins(pins int) error {
	p := s.recipe.plan
	if s.devices() == nil || pins == 0 || pins <= step.MaxPins && p.Heads.Kind != policy.HeadsAdaptive && p.Select.Kind != policy.SelectCritical {
		return nil
	}
	return fmt.Errorf("%w with %d pins", ErrRecipe, pins)
}

// pinsIn counts the pins that a list has from one position on, up to another.
func (s *Session) pinsIn(l *cache.List, from, to int) (n int) {
	for _, p := range s.run.Pins() {
		if int(p) >= from && int(p) < to && slices.ContainsFunc(l.Order(), func(slot uint32) bool { return l.At[slot] == uint32(p) }) {
			n++
		}
	}
	return n
}

// pin pins tokens, and lets go what lists hold beyond what they may then.
func (s *Session) pin(ctx context.Context, pins []int32) error {
	if s.run == nil {
		return nil
	}
	if err := s.holdsPins(len(pins)); err != nil {
		return err
	}
	was := s.run.Clone()
	moved, err := s.run.Pin(pins)
	if err != nil || !moved {
		return err
	}
	if err = s.shrink(ctx); err != nil {
		s.run = was
		s.cache.Reset()
		s.stale = true
	}
	return err
}

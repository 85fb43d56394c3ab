package policy

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"kvlens/cache/policy/stage"
)

// ErrPins says that tokens can't be pinned.
var ErrPins = errors.New("these tokens can't be pinned")

// Pin names the tokens, by their positions, that no selection and no decode rule lets go from now on, instead of those named
// before. They stay in every list that has them, before sinks and recent tokens where there is no room for all, and count
// against what lists may hold. Tokens that have left do not come back. A pin takes a place of every list: where those
// beside a list's sinks and recent tokens are more than the mean budget, nothing changes and the error is an [ErrPins].
//
// Where lists may differ in length, all come to have room for their pins. Others then have less: moved says so, and what
// they hold beyond it leaves with the next [Run.Step] of their layer, as after [Run.Resize].
func (r *Run) Pin(positions []int32) (moved bool, err error) {
	c := *r
	c.pins = slices.Clone(positions)
	sort.Slice(c.pins, func(a, b int) bool { return c.pins[a] < c.pins[b] })
	c.pins = slices.Compact(c.pins)
	if err := c.holdsPins(); err != nil {
		return false, err
	}
	old := slices.Concat(r.caps...)
	short := len(old) == r.lists() && slices.Min(old) < c.least()
	if short && (r.budget.Parity || !r.ragged()) {
		return false, fmt.Errorf("policy: %w: a list may hold %d tokens", ErrPins, slices.Min(old))
	}
	r.pins = c.pins
	if short {
		r.lower(true)
		r.reshare(old)
	}
	return short, nil
}

// Pins are the positions that are pinned, ascending. They are not to be changed.
func (r *Run) Pins() []int32 { return r.pins }

// holdsPins says whether the mean budget has room for the pins beside sinks and recent tokens.
func (r *Run) holdsPins() error {
	if len(r.pins) == 0 || r.plan.Decode.Kind == DecodeStop {
		return nil
	}
	if b := r.mean(); r.needs(b) > b {
		return fmt.Errorf("policy: %w: %d beside %d sinks and recent tokens, in %d", ErrPins, len(r.pins), r.needs(b)-r.beside(), b)
	}
	return nil
}

// mean is what a list may hold on average.
func (r *Run) mean() int {
	if r.ragged() {
		return r.total() / r.lists()
	}
	return r.budget.Tokens
}

// beside is how many tokens are pinned that are no sinks.
func (r *Run) beside() int {
	at, _ := slices.BinarySearch(r.pins, int32(r.plan.Protect.Sinks))
	return len(r.pins) - at
}

// needs is how many tokens of a list with room for limit never leave if it has them all. Pins leave room for a new one.
func (r *Run) needs(limit int) int {
	return r.plan.Protect.Sinks + max(1, r.recent(limit)) + r.beside()
}

// least is the least that a list may hold.
func (r *Run) least() int {
	if len(r.pins) == 0 {
		return 1
	}
	b := r.mean()
	return min(b, r.needs(b))
}

// lift gives lists, or layers, that have less room than their pins need what others have beyond it.
func (r *Run) lift(n []int) []int {
	if least := min(r.least(), sum(n)/len(n)); len(r.pins) > 0 && slices.Min(n) < least {
		return rescale(n, sum(n), least)
	}
	return n
}

// guarded is how many of n candidates of a list never leave, pins among them.
func (r *Run) guarded(layer, kvHead, n int, q *Quota, st Statistics) int {
	s, ok := st.(*seen)
	if !ok || len(r.pins) == 0 {
		return q.guarded(n)
	}
	return stage.Pinned(make([]bool, n), s.tokens(layer)[kvHead].Pos, r.pins, r.plan.Protect.Sinks, r.plan.Protect.recent(q.Limit), q.Limit)
}

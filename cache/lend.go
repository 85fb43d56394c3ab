package cache

import (
	"errors"
	"fmt"
	"slices"
	"sort"
)

// A backend whose device decides which tokens stay has the lists lent for a prompt or an answer. Lengths follow from
// budgets, so that slots and pages are handed out here as ever; which token lies in which slot is known to the device
// until [Cache.Learn]. Meanwhile At and Order are empty, and Put, Take and Compact have nothing to go by.

// Hold sets how many tokens a list holds, and lends it. A list that gets longer takes dead slots first and then fresh ones,
// whose pages are allocated; one that gets shorter keeps its slots. Errors are those of [Cache.Put].
func (c *Cache) Hold(layer, kvHead, tokens int) error {
	l, err := c.list(layer, kvHead)
	if err != nil {
		return fmt.Errorf("cache: hold: %w", err)
	}
	if tokens < 0 {
		return fmt.Errorf("cache: hold: %d tokens", tokens)
	}
	if more := tokens - l.Live; more > 0 {
		if err := c.allot(l, more); err != nil {
			return err
		}
		l.Slots = l.slotsFor(more)
	}
	c.countLive(tokens - l.Live)
	l.Live = tokens
	l.lent, l.At, l.order, l.hole = true, l.At[:0], l.order[:0], 0
	c.epoch++
	return nil
}

// Lent says that the device alone knows which tokens some list holds.
func (c *Cache) Lent() bool { return slices.ContainsFunc(c.lists, func(l List) bool { return l.lent }) }

// Pack says that the device has moved a list's last tokens into its dead slots, in the order of [Cache.Compact], so that
// slots 0…Live−1 are left. [Cache.Trim] follows.
func (c *Cache) Pack(layer, kvHead int) {
	l := c.List(layer, kvHead)
	if !l.lent {
		c.Compact(layer, kvHead)
		return
	}
	l.Slots = l.Live
	c.epoch++
}

// ErrPositions says that positions cannot be those of a list's tokens: too many, too few, or one twice.
var ErrPositions = errors.New("these are not the positions of the list's tokens")

// Learn takes a lent list back: at is the position of each slot's token, DeadPosition where there is none. The error is
// [ErrPositions].
func (c *Cache) Learn(layer, kvHead int, at []uint32) error {
	l, err := c.list(layer, kvHead)
	if err != nil {
		return fmt.Errorf("cache: learn: %w", err)
	}
	if !l.lent {
		return nil
	}
	if len(at) != l.Slots {
		return fmt.Errorf("cache: learn: %w: %d for %d slots", ErrPositions, len(at), l.Slots)
	}
	l.At, l.order = l.At[:0], l.order[:0]
	for slot, position := range at {
		c.push(&l.At, position)
		if position != DeadPosition {
			c.push(&l.order, uint32(slot))
		}
	}
	sort.Slice(l.order, func(a, b int) bool { return l.At[l.order[a]] < l.At[l.order[b]] })
	positions := 0
	for i, slot := range l.order {
		if i == 0 || l.At[slot] != l.At[l.order[i-1]] {
			positions++
		}
	}
	if len(l.order) != l.Live || positions != l.Live {
		return fmt.Errorf("cache: learn: %w: %d tokens at %d positions, there should be %d", ErrPositions, len(l.order), positions, l.Live)
	}
	l.lent = false
	return nil
}

// Allot gives a list the pages of so many slots, for tokens that it will hold. Errors are those of [Cache.Put].
func (c *Cache) Allot(layer, kvHead, slots int) error {
	l, err := c.list(layer, kvHead)
	if err != nil {
		return fmt.Errorf("cache: allot: %w", err)
	}
	if slots <= l.Slots {
		return nil
	}
	return c.allot(l, slots-l.Live)
}

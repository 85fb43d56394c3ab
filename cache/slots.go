package cache

import (
	"fmt"
	"slices"
)

// Put takes a slot of one list for each of some tokens, given by their positions in ascending order, none of them stored
// yet: dead slots first, the lowest before the others, then fresh ones, whose pages it allocates. If the arena has no
// more, nothing changes and the error is a *FullError, or [ErrScattered] if there is no run for a page. The slots are
// valid until the next Put to the list.
func (c *Cache) Put(layer, kvHead int, positions []uint32) ([]uint32, error) {
	l, err := c.list(layer, kvHead)
	if err != nil {
		return nil, fmt.Errorf("cache: put: %w", err)
	}
	if err := l.accept(positions); err != nil {
		return nil, fmt.Errorf("cache: put: %w", err)
	}
	if err := c.allot(l, len(positions)); err != nil {
		return nil, err
	}
	slots := l.one[:]
	if n := len(positions); n != 1 {
		slots = make([]uint32, n)
	}
	for i, p := range positions {
		slots[i] = c.occupy(l, p)
	}
	c.countLive(len(positions))
	return slots, nil
}

// accept checks the positions of new tokens.
func (l *List) accept(positions []uint32) error {
	if l.lent {
		return fmt.Errorf("the list is lent")
	}
	next := l.next()
	for i, p := range positions {
		if p == DeadPosition {
			return fmt.Errorf("position %d marks dead slots", p)
		}
		if i > 0 && p <= positions[i-1] {
			return fmt.Errorf("position %d after %d: want them ascending", p, positions[i-1])
		}
		if p < next {
			if at, stored := l.rank(p); stored {
				return fmt.Errorf("position %d is stored in slot %d", p, l.order[at])
			}
		}
	}
	return nil
}

// next is the position after the last one that is stored.
func (l *List) next() uint32 {
	if l.Live == 0 {
		return 0
	}
	return l.At[l.order[l.Live-1]] + 1
}

// rank is the number of stored tokens before a position, and whether the position is stored.
func (l *List) rank(position uint32) (int, bool) {
	return slices.BinarySearchFunc(l.order, position, func(slot, p uint32) int { return int(l.At[slot]) - int(p) })
}

// allot makes room for n more tokens in a list.
func (c *Cache) allot(l *List, n int) error {
	slots := l.slotsFor(n)
	if slots <= l.room {
		return nil
	}
	if c.listNeeds(l, slots) > c.arena.free {
		room := c.room(func(n int) int64 { return c.listNeeds(l, l.slotsFor(n)) })
		return &FullError{Stored: l.Live, Asked: n, Room: room, Cap: c.bytes}
	}
	if !c.grow(l, slots) {
		c.shrink(l, l.room)
		return fmt.Errorf("cache: put: %w", ErrScattered)
	}
	l.room = slots
	return nil
}

// occupy puts a token into the lowest dead slot, or else into a fresh one.
func (c *Cache) occupy(l *List, position uint32) uint32 {
	rank := l.Live
	if position < l.next() {
		rank, _ = l.rank(position)
	}
	if l.Live < l.Slots {
		for l.At[l.hole] != DeadPosition {
			l.hole++
		}
		l.At[l.hole] = position
		c.epoch++
	} else {
		l.hole = l.Slots
		l.Slots++
		c.push(&l.At, position)
	}
	slot := uint32(l.hole)
	c.push(&l.order, slot)
	copy(l.order[rank+1:], l.order[rank:])
	l.order[rank] = slot
	l.hole++
	l.Live++
	return slot
}

// Evict marks slots of one list dead; tokens that follow may take them. It panics where a slot holds no token. The slots
// may be part of the list's own Order.
func (c *Cache) Evict(layer, kvHead int, evicted []uint32) {
	if len(evicted) == 0 {
		return
	}
	l, n := c.List(layer, kvHead), len(evicted)
	rank, _ := l.rank(l.At[evicted[0]])
	for _, slot := range evicted {
		if l.At[slot] == DeadPosition {
			panic(fmt.Sprintf("cache: evict: slot %d of layer %d, KV head %d holds no token", slot, layer, kvHead))
		}
		l.At[slot] = DeadPosition
		l.hole = min(l.hole, int(slot))
	}
	if n == 1 { // at every step of decoding, so not by walking the list
		l.order = slices.Delete(l.order, rank, rank+1)
	} else {
		l.order = slices.DeleteFunc(l.order, func(slot uint32) bool { return l.At[slot] == DeadPosition })
	}
	l.Live -= n
	c.countLive(-n)
	c.epoch++
}

// Absorb counts tokens that join a list's record of sums, which is their backend's.
func (c *Cache) Absorb(layer, kvHead, tokens int) {
	l := c.List(layer, kvHead)
	if len(l.Sums) == 0 {
		panic(fmt.Sprintf("cache: absorb: layer %d, KV head %d has no sums", layer, kvHead))
	}
	l.Absorbed += tokens
	c.epoch++
}

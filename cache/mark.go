package cache

import "slices"

// Mark is a state to return to.
type Mark struct {
	lists []extent
	epoch int
}

type extent struct{ slots, room int }

// Mark remembers the state of all lists.
func (c *Cache) Mark() Mark {
	m := Mark{make([]extent, len(c.lists)), c.epoch}
	for i := range c.lists {
		m.lists[i] = extent{c.lists[i].Slots, c.lists[i].room}
	}
	return m
}

// MarkAt is the mark of when every list held so many tokens, no more than now, in a cache from which no token has left.
func (c *Cache) MarkAt(tokens int) Mark {
	m := Mark{make([]extent, len(c.lists)), c.epoch}
	for i := range m.lists {
		m.lists[i] = extent{tokens, min(tokens, c.lists[i].room)}
	}
	return m
}

// Epoch counts what Restore cannot undo: while it stays, lists have at most got longer by fresh slots.
func (c *Cache) Epoch() int { return c.epoch }

// Stale reports whether there is no way back to a mark: since then tokens were evicted or moved, dead slots taken, the
// cache was reset, or an earlier mark restored. What was overwritten can only be computed again.
func (c *Cache) Stale(m Mark) bool {
	if len(m.lists) != len(c.lists) || m.epoch != c.epoch {
		return true
	}
	for i, was := range m.lists {
		if l := &c.lists[i]; l.Slots < was.slots || l.room < was.room {
			return true
		}
	}
	return false
}

// Restore returns to a mark, which must not be stale, and frees the pages taken since.
func (c *Cache) Restore(m Mark) {
	if c.Stale(m) {
		panic("cache: mark of a state that is gone")
	}
	for i, was := range m.lists {
		l := &c.lists[i]
		// Whatever came since lies in slots of its own.
		l.order = slices.DeleteFunc(l.order, func(slot uint32) bool { return int(slot) >= was.slots })
		l.At = l.At[:was.slots]
		c.countLive(len(l.order) - l.Live)
		c.shrink(l, was.room)
		l.Slots, l.Live, l.room = was.slots, len(l.order), was.room
	}
}

package cache

import "slices"

// Saved is the book-keeping of a cache at one moment. With the bytes that the arena held then it is all of it: whoever
// saves copies the first [Cache.Used] bytes, and writes them back when the book-keeping is loaded.
type Saved struct {
	lists []List
	arena arena
}

// Save copies the book-keeping.
func (c *Cache) Save() *Saved {
	s := &Saved{lists: slices.Clone(c.lists), arena: *c.arena}
	s.arena.runs = slices.Clone(s.arena.runs)
	for i := range s.lists {
		for _, words := range s.lists[i].words() {
			*words = append(make([]uint32, 0, len(*words)), *words...)
		}
	}
	return s
}

// Bytes is what the copy takes of the host; whoever keeps it enters them in the ledger.
func (s *Saved) Bytes() (bytes int64) {
	for i := range s.lists {
		for _, words := range s.lists[i].words() {
			bytes += int64(cap(*words)) * wordBytes
		}
	}
	return bytes
}

// Load returns to what was saved, as often as one likes; the error is [ErrOtherArena]. All marks are stale then.
func (c *Cache) Load(s *Saved) error {
	if len(s.lists) != len(c.lists) || s.arena.size != c.arena.size {
		return ErrOtherArena
	}
	c.Reset()
	for i := range c.lists {
		l, was := &c.lists[i], &s.lists[i]
		from := was.words()
		for j, words := range l.words() {
			for _, w := range *from[j] {
				c.push(words, w)
			}
		}
		for j, t := range c.tables {
			pages := int64(len(*l.table(j)))
			c.led.Move(Free, t.kind, pages*t.units*unit)
			c.led.Add(t.kind, pages*t.whole, 0)
		}
		l.Slots, l.Live, l.Absorbed, l.room, l.hole = was.Slots, was.Live, was.Absorbed, was.room, was.hole
		c.countLive(l.Live)
	}
	c.arena.free, c.arena.runs = s.arena.free, append(c.arena.runs[:0], s.arena.runs...)
	return nil
}

// Used is where the last page ends, in bytes from the arena's start. After [Cache.Gather] it is what all pages take.
func (c *Cache) Used() int64 { return c.arena.end() * unit }

// Resize makes the cap another one: the pages are now in an arena of capBytes, at the places that they had in the old
// one. The caller has copied the first Used bytes, which must fit, and frees the old arena; the ledger needs no other
// entry, because what the new one added to [Free] and the old one takes from it differ by the change of the cap.
// The lanes of a page stay as they are.
func (c *Cache) Resize(capBytes int64) error {
	if capBytes > MaxCap || capBytes < c.Used() {
		return &SizeError{Used: c.Used(), Cap: capBytes}
	}
	c.arena.resize(capBytes / unit)
	c.bytes = capBytes
	c.reach(c.geo.FullTokens(capBytes))
	return nil
}

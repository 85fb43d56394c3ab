package cache

import (
	"fmt"
	"sort"
)

// List is one layer's one KV head. Page tables hold the offset of each page from the arena's start, in 4-byte words.
//
// At is the host's copy of the positions and the truth: [Cache.Evict] and [Cache.Compact] change it, and whoever reads
// positions from the arena writes them there.
type List struct {
	Keys, Values, Positions []uint32
	Scores, Bounds, Sums    []uint32 // empty unless the geometry has them

	At       []uint32 // [Slots] position of the token in a slot, DeadPosition if there is none
	Slots    int      // slots 0…Slots−1 have held a token; some may be dead
	Live     int      // slots that hold a token
	Absorbed int      // tokens that the record of Sums stands for; while it is 0, the record holds anything

	order []uint32  // live slots by position
	lent  bool      // to a device, which alone knows what At would say
	room  int       // slots that have pages, ≥ Slots
	hole  int       // where there are dead slots, none is below it
	one   [1]uint32 // what Put returns for one token
}

// Order are the live slots in the order of their positions. Valid until the list changes.
func (l *List) Order() []uint32 { return l.order }

// slotsFor is how many slots a list has after n more tokens: dead ones are taken first.
func (l *List) slotsFor(n int) int { return l.Slots + max(0, n-(l.Slots-l.Live)) }

// Cache is the lists of one session over one arena. It is used from one goroutine.
type Cache struct {
	geo    Geometry
	tables [tables]table
	lists  []List // [layer·KVHeads + head]
	arena  *arena
	bytes  int64 // of the arena: the cap
	led    *Ledger
	epoch  int // of what Restore cannot undo
}

// New makes an empty cache over an arena of capBytes; page sizes of 0 are chosen by the cap. The arena's bytes are in
// the ledger already, as [Free], entered by who allocated them; pages take them from there and return them (see
// [Ledger]). Page tables, positions and orders are the cache's own and enter as [Aux].
func New(g Geometry, capBytes int64, led *Ledger) (*Cache, error) {
	if capBytes < 0 || capBytes > MaxCap {
		return nil, fmt.Errorf("cache: new: cap of %d bytes: want 0…%d", capBytes, int64(MaxCap))
	}
	g = g.WithPages(capBytes)
	if err := g.check(); err != nil {
		return nil, err
	}
	c := &Cache{
		geo: g, tables: g.tables(), lists: make([]List, g.Layers*g.KVHeads),
		arena: newArena(capBytes), bytes: capBytes, led: led,
	}
	c.reach(g.FullTokens(capBytes))
	return c, nil
}

// reach makes the tables long enough for lists of so many slots. Where all lists are equally long, the cap says how
// long; a list that takes the room of others lets its tables grow, and the arena bounds them.
func (c *Cache) reach(slots int) {
	for i := range c.lists {
		l := &c.lists[i]
		for j, t := range c.tables {
			c.extend(l.table(j), t.pages(slots))
		}
		c.extend(&l.At, int64(slots))
		c.extend(&l.order, int64(slots))
	}
}

// extend makes a table's capacity at least n words.
func (c *Cache) extend(table *[]uint32, n int64) {
	if had := cap(*table); int64(had) < n {
		*table = append(make([]uint32, 0, n), *table...)
		c.countTables(int64(cap(*table) - had))
	}
}

// Geometry returns what the cache was made for, with its page sizes.
func (c *Cache) Geometry() Geometry { return c.geo }

// Cap is the size of the arena in bytes.
func (c *Cache) Cap() int64 { return c.bytes }

// List returns one list, to be read by the backends.
func (c *Cache) List(layer, kvHead int) *List { return &c.lists[layer*c.geo.KVHeads+kvHead] }

// list finds a list that a caller asks for.
func (c *Cache) list(layer, kvHead int) (*List, error) {
	if layer < 0 || layer >= c.geo.Layers || kvHead < 0 || kvHead >= c.geo.KVHeads || c.lists == nil {
		return nil, fmt.Errorf("no list for layer %d, KV head %d", layer, kvHead)
	}
	return c.List(layer, kvHead), nil
}

// Reserve checks that n more tokens fit every list and allocates their pages. If they don't fit, nothing changes and
// the error is a *FullError; if no free run is long enough for a page, it is [ErrScattered]. Slots that were reserved
// and not taken count towards n.
func (c *Cache) Reserve(n int) error {
	if n < 0 {
		return fmt.Errorf("cache: reserve: %d tokens", n)
	}
	if n > c.most() || c.unitsFor(n) > c.arena.free {
		return &FullError{Stored: c.Tokens(), Asked: n, Room: c.Room(), Cap: c.bytes}
	}
	for i := range c.lists {
		if l := &c.lists[i]; !c.grow(l, l.slotsFor(n)) {
			// Pages of this call are those past the reserved room.
			for j := range i + 1 {
				c.shrink(&c.lists[j], c.lists[j].room)
			}
			return fmt.Errorf("cache: reserve: %w", ErrScattered)
		}
	}
	for i := range c.lists {
		l := &c.lists[i]
		l.room = max(l.room, l.slotsFor(n))
	}
	return nil
}

// Take hands out n reserved slots of one list, in the order of the tokens. It is for the full recipe, where slot i holds
// position i; where tokens leave, Put takes slots with their positions.
func (c *Cache) Take(layer, kvHead, n int) ([]uint32, error) {
	l, err := c.list(layer, kvHead)
	if err != nil {
		return nil, fmt.Errorf("cache: take: %w", err)
	}
	if n < 0 || n > l.room-l.Slots {
		return nil, fmt.Errorf("cache: take: %d slots, %d are reserved", n, l.room-l.Slots)
	}
	if l.lent || l.Live < l.Slots || l.Slots > 0 && l.next() != uint32(l.Slots) {
		return nil, fmt.Errorf("cache: take: slots of this list are not positions")
	}
	slots := make([]uint32, n)
	for i := range slots {
		slots[i] = uint32(l.Slots + i)
		c.push(&l.At, slots[i])
		c.push(&l.order, slots[i])
	}
	l.Slots += n
	l.Live += n
	c.countLive(n)
	return slots, nil
}

// Reset empties all lists.
func (c *Cache) Reset() {
	for i := range c.lists {
		l := &c.lists[i]
		c.countLive(-l.Live)
		c.shrink(l, 0)
		l.At, l.order = l.At[:0], l.order[:0]
		l.Slots, l.Live, l.Absorbed, l.room, l.lent = 0, 0, 0, 0, false
	}
	c.epoch++
}

// Close empties the cache and gives its page tables up: all of the arena is Free again, for its owner to free.
func (c *Cache) Close() {
	c.Reset()
	for i := range c.lists {
		for _, words := range c.lists[i].words() {
			c.countTables(-int64(cap(*words)))
		}
	}
	c.lists = nil
}

// Tokens is how many tokens the fullest list holds.
func (c *Cache) Tokens() int {
	most := 0
	for i := range c.lists {
		most = max(most, c.lists[i].Live)
	}
	return most
}

// Room is how many more tokens fit every list.
func (c *Cache) Room() int { return c.room(c.unitsFor) }

// room is the most tokens whose need of units is free.
func (c *Cache) room(need func(n int) int64) int {
	return sort.Search(c.most(), func(n int) bool { return need(n+1) > c.arena.free })
}

package cache

import "fmt"

// List is one layer's one KV head. Page tables hold the offset of each page from the arena's start, in 4-byte words.
type List struct {
	Keys, Values, Positions []uint32
	Slots                   int // slots 0…Slots−1 have held a token; some may be dead
	Live                    int // slots that hold a token

	room int // slots that have pages, ≥ Slots
}

// Cache is the lists of one session over one arena. It is used from one goroutine.
type Cache struct {
	geo   Geometry
	lists []List // [layer·KVHeads + head]
	arena *arena
	bytes int64 // of the arena: the cap
	led   *Ledger
}

// New makes an empty cache over an arena of capBytes; page sizes of 0 are chosen by the cap. The arena's bytes are in
// the ledger already, as [Free], entered by who allocated them; pages take them from there and return them (see
// [Ledger]). The page tables are the cache's own and enter as [Aux].
func New(g Geometry, capBytes int64, led *Ledger) (*Cache, error) {
	if capBytes < 0 || capBytes > MaxCap {
		return nil, fmt.Errorf("cache: new: cap of %d bytes: want 0…%d", capBytes, int64(MaxCap))
	}
	g = g.WithPages(capBytes)
	if err := g.check(); err != nil {
		return nil, err
	}
	c := &Cache{geo: g, lists: make([]List, g.Layers*g.KVHeads), arena: newArena(capBytes), bytes: capBytes, led: led}
	// Under the full recipe all lists are equally long, so that the cap says how long the tables get.
	k, v, p := g.pages(g.FullTokens(capBytes))
	for i := range c.lists {
		l := &c.lists[i]
		l.Keys, l.Values, l.Positions = make([]uint32, 0, k), make([]uint32, 0, v), make([]uint32, 0, p)
	}
	c.countTables(int64(len(c.lists)) * (k + v + p))
	return c, nil
}

// Geometry returns what the cache was made for, with its page sizes.
func (c *Cache) Geometry() Geometry { return c.geo }

// Cap is the size of the arena in bytes.
func (c *Cache) Cap() int64 { return c.bytes }

// List returns one list, to be read by the backends.
func (c *Cache) List(layer, kvHead int) *List { return &c.lists[layer*c.geo.KVHeads+kvHead] }

// Reserve checks that n more tokens fit every list and allocates their pages; if they don't fit, nothing changes and
// the error is a *FullError. Slots that were reserved and not taken count towards n.
func (c *Cache) Reserve(n int) error {
	if n < 0 {
		return fmt.Errorf("cache: reserve: %d tokens", n)
	}
	if n > c.most() || c.unitsFor(n) > c.arena.free {
		return c.full(n)
	}
	for i := range c.lists {
		if l := &c.lists[i]; !c.grow(l, l.Slots+n) {
			// No run was long enough (see arena). Pages of this call are those past the reserved room.
			for j := range i + 1 {
				c.shrink(&c.lists[j], c.lists[j].room)
			}
			return c.full(n)
		}
	}
	for i := range c.lists {
		l := &c.lists[i]
		l.room = max(l.room, l.Slots+n)
	}
	return nil
}

// Take hands out n reserved slots of one list, in the order of the tokens.
func (c *Cache) Take(layer, kvHead, n int) ([]uint32, error) {
	if layer < 0 || layer >= c.geo.Layers || kvHead < 0 || kvHead >= c.geo.KVHeads {
		return nil, fmt.Errorf("cache: take: no list for layer %d, KV head %d", layer, kvHead)
	}
	l := c.List(layer, kvHead)
	if n < 0 || n > l.room-l.Slots {
		return nil, fmt.Errorf("cache: take: %d slots, %d are reserved", n, l.room-l.Slots)
	}
	slots := make([]uint32, n)
	for i := range slots {
		slots[i] = uint32(l.Slots + i)
	}
	l.Slots += n
	l.Live += n
	c.countLive(int64(n))
	return slots, nil
}

// Mark is a state to return to.
type Mark struct{ lists []extent }

type extent struct{ slots, live, room int }

// Mark remembers the state of all lists.
func (c *Cache) Mark() Mark {
	m := Mark{make([]extent, len(c.lists))}
	for i, l := range c.lists {
		m.lists[i] = extent{l.Slots, l.Live, l.room}
	}
	return m
}

// Restore returns to a mark and frees the pages taken since. Valid while nothing was evicted or reset in between.
func (c *Cache) Restore(m Mark) {
	if len(m.lists) != len(c.lists) {
		panic("cache: mark of another cache")
	}
	for i, was := range m.lists {
		l := &c.lists[i]
		if l.Slots < was.slots || l.room < was.room {
			panic("cache: mark of a state that is gone")
		}
		c.countLive(int64(was.live - l.Live))
		c.shrink(l, was.room)
		l.Slots, l.Live, l.room = was.slots, was.live, was.room
	}
}

// Reset empties all lists.
func (c *Cache) Reset() {
	for i := range c.lists {
		l := &c.lists[i]
		c.countLive(int64(-l.Live))
		c.shrink(l, 0)
		l.Slots, l.Live, l.room = 0, 0, 0
	}
}

// Close empties the cache and gives its page tables up: all of the arena is Free again, for its owner to free.
func (c *Cache) Close() {
	c.Reset()
	for _, l := range c.lists {
		c.countTables(-int64(cap(l.Keys) + cap(l.Values) + cap(l.Positions)))
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
func (c *Cache) Room() int {
	lo, hi := 0, c.most()
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if c.unitsFor(mid) <= c.arena.free {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// FullError says that the cap is reached.
type FullError struct {
	Stored, Asked, Room int   // tokens
	Cap                 int64 // bytes
}

func (e *FullError) Error() string {
	return fmt.Sprintf("cache: full: %d tokens are stored and %d of %d more fit in %d bytes", e.Stored, e.Room, e.Asked, e.Cap)
}

func (c *Cache) full(n int) error {
	return &FullError{Stored: c.Tokens(), Asked: n, Room: c.Room(), Cap: c.bytes}
}

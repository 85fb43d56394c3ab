package cache

import (
	"errors"
	"slices"
	"testing"
)

// model is what a cache should be, told by positions and sizes alone.
type model struct {
	geo  Geometry
	at   [][]uint32 // [lists][slots] position, DeadPosition
	room []int
}

func newModel(g Geometry) model {
	n := g.Layers * g.KVHeads
	return model{g, make([][]uint32, n), make([]int, n)}
}

func (m model) clone() model {
	c := model{m.geo, slices.Clone(m.at), slices.Clone(m.room)}
	for i := range c.at {
		c.at[i] = slices.Clone(c.at[i])
	}
	return c
}

func (m model) dead(i int) int {
	n := 0
	for _, p := range m.at[i] {
		if p == DeadPosition {
			n++
		}
	}
	return n
}

// after is how many slots a list has with n more tokens.
func (m model) after(i, n int) int { return len(m.at[i]) + max(0, n-m.dead(i)) }

// live are the slots of a list that hold a token, by position.
func (m model) live(i int) []uint32 {
	var slots []uint32
	for s, p := range m.at[i] {
		if p != DeadPosition {
			slots = append(slots, uint32(s))
		}
	}
	slices.SortFunc(slots, func(a, b uint32) int { return int(m.at[i][a]) - int(m.at[i][b]) })
	return slots
}

// fits tells from sizes alone whether lists have room for more slots, given what each reaches then.
func (m model) fits(c *Cache, reach func(i int) int) bool {
	one := m.geo
	one.Layers, one.KVHeads = 1, 1
	var bytes int64
	for i := range m.at {
		bytes += one.FullBytes(max(m.room[i], reach(i)))
	}
	return bytes <= c.Cap()
}

// reserve reserves, and knows whether it should work; pages that lie scattered are gathered.
func (m model) reserve(t *testing.T, c *Cache, b *bytesOf, n int) {
	t.Helper()
	fits := func(n int) bool { return m.fits(c, func(i int) int { return m.after(i, n) }) }
	if room := c.Room(); !fits(room) || fits(room+1) {
		t.Fatalf("Room is %d: that fits: %v, one more fits: %v", room, fits(room), fits(room+1))
	}
	was := state(c)
	err := c.Reserve(n)
	var full *FullError
	if err != nil && state(c) != was {
		t.Fatalf("Reserve(%d): %v, but the cache changed", n, err)
	}
	if errors.Is(err, ErrScattered) {
		b.gather(t, c)
		err = c.Reserve(n)
	}
	if fits(n) != (err == nil) || err != nil && !errors.As(err, &full) {
		t.Fatalf("Reserve(%d): %v, fits: %v", n, err, fits(n))
	}
	if err == nil {
		for i := range m.room {
			m.room[i] = max(m.room[i], m.after(i, n))
		}
	}
}

// check compares a cache with its model: what lists hold, whole pages for their slots, no byte in two pages, and a
// ledger whose kinds add up to the arena.
func (m model) check(t *testing.T, c *Cache, led *Ledger) {
	t.Helper()
	g, taken := m.geo, make([]bool, (c.Cap()+3)/4) // words
	want := [Kinds]Row{}
	var tables int64
	fullest := 0
	for i := range c.lists {
		l := &c.lists[i]
		live := m.live(i)
		if l.Slots != len(m.at[i]) || l.Live != len(live) || !slices.Equal(l.At, m.at[i]) || !slices.Equal(l.Order(), live) {
			t.Fatalf("list %d: %d slots, %d live, at %v by %v; want %v by %v", i, l.Slots, l.Live, l.At, l.Order(), m.at[i], live)
		}
		fullest = max(fullest, l.Live)
		tables += int64(cap(l.At) + cap(l.order))
		for _, p := range g.everyKind(l) {
			pages := 0
			if p.lanes > 0 {
				pages = (m.room[i] + p.lanes - 1) / p.lanes
			}
			if p.lanes < 0 && m.room[i] > 0 {
				pages = 1
			}
			if len(p.table) != pages {
				t.Fatalf("list %d: %d pages of kind %d for %d slots, want %d", i, len(p.table), p.kind, m.room[i], pages)
			}
			tables += int64(cap(p.table))
			want[p.kind].Allocated += int64(pages * p.bytes)
			want[p.kind].Logical += int64(l.Live*p.lane + pages*p.whole)
			for _, at := range p.table {
				if at%4 != 0 {
					t.Fatalf("page at word %d: not on 16 bytes", at)
				}
				for w := range p.bytes / 4 {
					if taken[int(at)+w] {
						t.Fatalf("word %d is in two pages", int(at)+w)
					}
					taken[int(at)+w] = true
				}
			}
		}
	}
	if c.Tokens() != fullest {
		t.Fatalf("Tokens is %d, want %d", c.Tokens(), fullest)
	}
	used := int64(0)
	for w, t := range taken {
		if t {
			used = int64(w+1) * 4
		}
	}
	if c.Used() != used {
		t.Fatalf("Used is %d, want %d", c.Used(), used)
	}
	want[Free].Allocated = c.Cap()
	for _, k := range []Kind{KVF16, KVF32, Positions, Scores, Bounds, Sums} {
		want[Free].Allocated -= want[k].Allocated
	}
	want[Aux] = Row{Logical: 4 * tables, Allocated: 4 * tables}
	for k, row := range led.Rows() {
		if row.Logical != want[k].Logical || row.Allocated != want[k].Allocated || row.Peak < row.Allocated {
			t.Fatalf("kind %d: %+v, want %+v", k, row, want[k])
		}
	}
	if led.Total().Allocated != c.Cap()+4*tables {
		t.Fatalf("total %+v, want %d", led.Total(), c.Cap()+4*tables)
	}
}

// pagesOf is one table of a list, and its pages' sizes in bytes by the definitions in the documentation.
type pagesOf struct {
	kind        Kind
	table       []uint32
	lanes       int // of a page; −1: one page for all
	lane, whole int // bytes of a token, or of a page
	bytes       int // of a page, on 16 bytes
}

func (g Geometry) everyKind(l *List) []pagesOf {
	up := func(n int) int { return (n + 15) / 16 * 16 }
	key, value := g.HeadDim*g.Key.Bytes(), g.HeadDim*g.Value.Bytes()
	out := []pagesOf{
		{g.Key.Kind(), l.Keys, g.PageK, key, 0, up(g.PageK * key)},
		{g.Value.Kind(), l.Values, g.PageV, value, 0, up(g.PageV * value)},
		{Positions, l.Positions, 8, 4, 0, 32},
		{Scores, l.Scores, 0, 0, 0, 32},
		{Bounds, l.Bounds, g.Bound, 0, 8 * g.HeadDim, up(8 * g.HeadDim)},
		{Sums, l.Sums, 0, 0, 4 * (2*g.HeadDim + 1), up(4 * (2*g.HeadDim + 1))},
	}
	if g.Scores {
		out[3].lanes, out[3].lane = 8, 4
	}
	if g.Sums {
		out[5].lanes = -1
	}
	return out
}

// bytesOf is an arena with content: a caller of the cache that copies what it is told to copy.
type bytesOf struct {
	geo   Geometry
	bytes []byte
	pages map[uint32]bool // that were filled: pages without lanes, by their place
}

// each visits the bytes of a slot, with what kind of page they are in.
func (b *bytesOf) each(l *List, slot int, visit func(kind int, bytes []byte)) {
	for i, p := range b.geo.everyKind(l) {
		if p.lanes > 0 && p.lane > 0 {
			visit(i, b.bytes[int(p.table[slot/p.lanes])*4+slot%p.lanes*p.lane:][:p.lane])
		}
	}
}

// mark is a byte of a token's content.
func mark(list, kind, i int, position uint32) byte {
	return byte(uint32(list*31+kind*7+i)*2654435761>>24) ^ byte(position*97) ^ byte(position>>8)
}

// write fills slots of new tokens.
func (b *bytesOf) write(l *List, list int, slots []uint32) {
	for _, s := range slots {
		b.each(l, int(s), func(kind int, bytes []byte) {
			for i := range bytes {
				bytes[i] = mark(list, kind, i, l.At[s])
			}
		})
	}
}

// fresh fills the pages that hold no tokens, when they are new.
func (b *bytesOf) fresh(c *Cache) {
	now := map[uint32]bool{}
	for i := range c.lists {
		for k, p := range b.geo.everyKind(&c.lists[i]) {
			for n, at := range p.table {
				if p.whole == 0 {
					continue
				}
				now[at] = true
				for j := range p.whole {
					if !b.pages[at] {
						b.bytes[int(at)*4+j] = mark(i, k, j, uint32(n))
					}
				}
			}
		}
	}
	b.pages = now
}

// check reads every token, and every page that holds none.
func (b *bytesOf) check(t *testing.T, c *Cache) {
	t.Helper()
	for i := range c.lists {
		l := &c.lists[i]
		for _, s := range l.Order() {
			b.each(l, int(s), func(kind int, bytes []byte) {
				for j, got := range bytes {
					if got != mark(i, kind, j, l.At[s]) {
						t.Fatalf("list %d, position %d in slot %d: its bytes of table %d are others", i, l.At[s], s, kind)
					}
				}
			})
		}
		for k, p := range b.geo.everyKind(l) {
			for n, at := range p.table {
				for j := range p.whole {
					if b.bytes[int(at)*4+j] != mark(i, k, j, uint32(n)) {
						t.Fatalf("list %d: page %d of table %d holds other bytes", i, n, k)
					}
				}
			}
		}
	}
}

// gather gathers, and copies pages in the order of the moves.
func (b *bytesOf) gather(t *testing.T, c *Cache) {
	t.Helper()
	for _, m := range c.Gather() {
		if m.To >= m.From || m.Words == 0 {
			t.Fatalf("page move %+v", m)
		}
		copy(b.bytes[m.To*4:], b.bytes[m.From*4:][:m.Words*4])
	}
	if n := len(c.arena.runs); n > 1 {
		t.Fatalf("%d free runs are left", n)
	}
	b.pages = map[uint32]bool{}
	for i := range c.lists {
		for _, at := range slices.Concat(c.lists[i].Bounds, c.lists[i].Sums) {
			b.pages[at] = true
		}
	}
}

// compact compacts a list and copies its tokens, in any order.
func (b *bytesOf) compact(t *testing.T, c *Cache, list int, shuffle func(n int, swap func(i, j int))) {
	t.Helper()
	l := &c.lists[list]
	moves := c.Compact(list/b.geo.KVHeads, list%b.geo.KVHeads)
	shuffle(len(moves), func(i, j int) { moves[i], moves[j] = moves[j], moves[i] })
	for _, m := range moves {
		from := map[int][]byte{}
		b.each(l, int(m.From), func(kind int, bytes []byte) { from[kind] = bytes })
		b.each(l, int(m.To), func(kind int, bytes []byte) { copy(bytes, from[kind]) })
	}
}

package cache

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// one is a cache of one list with pages of 2 lanes.
func one(t testing.TB, tokens int) (*Cache, *Ledger) {
	g := Geometry{Layers: 1, KVHeads: 1, HeadDim: 32, Key: F16, Value: F16, PageK: 2, PageV: 2}
	return open(t, g, g.FullBytes(tokens))
}

func mustPut(t testing.TB, c *Cache, layer, head int, positions ...uint32) []uint32 {
	t.Helper()
	slots, err := c.Put(layer, head, positions)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(slots)
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// A slot that died takes the next token, the order of positions stays, and moving together frees whole pages.
func TestSlotsByHand(t *testing.T) {
	c, led := one(t, 8)
	l := c.List(0, 0)
	if got := mustPut(t, c, 0, 0, 10, 11, 12, 13, 14, 15); !slices.Equal(got, []uint32{0, 1, 2, 3, 4, 5}) {
		t.Fatalf("slots %v", got)
	}
	c.Evict(0, 0, []uint32{3, 1})
	if logical := led.Rows()[KVF16].Logical; logical != 4*128 {
		t.Errorf("%d bytes are in use by 4 tokens, want %d", logical, 4*128)
	}
	if got := mustPut(t, c, 0, 0, 20); got[0] != 1 {
		t.Errorf("the next token went to slot %d, want the lowest dead one, 1", got[0])
	}
	if want := []uint32{10, 20, 12, DeadPosition, 14, 15}; !slices.Equal(l.At, want) {
		t.Errorf("positions %v, want %v", l.At, want)
	}
	if want := []uint32{0, 2, 4, 5, 1}; !slices.Equal(l.Order(), want) {
		t.Errorf("order %v, want %v", l.Order(), want)
	}
	c.Evict(0, 0, []uint32{0})
	if moves, want := c.Compact(0, 0), []Move{{5, 0}, {4, 3}}; !slices.Equal(moves, want) {
		t.Errorf("moves %v, want %v", moves, want)
	}
	if want := []uint32{15, 20, 12, 14}; !slices.Equal(l.At, want) {
		t.Errorf("positions %v, want %v", l.At, want)
	}
	if len(l.Keys) != 3 {
		t.Errorf("%d key pages before Trim, want 3: what moves is in them", len(l.Keys))
	}
	c.Trim(0, 0)
	if len(l.Keys) != 2 || led.Rows()[KVF16].Allocated != 4*128 {
		t.Errorf("%d key pages, %d bytes, want 2 pages and %d", len(l.Keys), led.Rows()[KVF16].Allocated, 4*128)
	}
	if c.Compact(0, 0) != nil {
		t.Error("a list without dead slots moves")
	}
}

func TestHostilePuts(t *testing.T) {
	c, led := one(t, 6)
	mustPut(t, c, 0, 0, 3, 5, 9)
	before, ledger := state(c), led.Rows()
	for name, positions := range map[string][]uint32{
		"stored": {5}, "stored, later": {4, 9}, "twice": {10, 10}, "descending": {12, 11}, "dead": {DeadPosition},
	} {
		if _, err := c.Put(0, 0, positions); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, at := range [][2]int{{-1, 0}, {1, 0}, {0, -1}, {0, 1}, {math.MinInt, math.MaxInt}} {
		if _, err := c.Put(at[0], at[1], []uint32{20}); err == nil {
			t.Errorf("list %v: no error", at)
		}
	}
	var full *FullError
	if _, err := c.Put(0, 0, []uint32{20, 21, 22, 23}); !errors.As(err, &full) || *full != (FullError{3, 4, 3, c.Cap()}) {
		t.Errorf("4 tokens where 3 fit: %v", err)
	}
	if got := mustPut(t, c, 0, 0); len(got) != 0 {
		t.Errorf("no tokens took slots %v", got)
	}
	if state(c) != before || led.Rows() != ledger {
		t.Error("calls that failed changed the cache")
	}
	mustPut(t, c, 0, 0, 1) // earlier than all others
	if want := []uint32{3, 0, 1, 2}; !slices.Equal(c.List(0, 0).Order(), want) {
		t.Errorf("order %v, want %v", c.List(0, 0).Order(), want)
	}
	if _, err := c.Take(0, 0, 0); err == nil {
		t.Error("Take where slots are not positions: no error")
	}
	c.Reset()
	mustPut(t, c, 0, 0, 0, 1, 2)
	if _, err := c.Take(0, 0, 0); err != nil {
		t.Errorf("Take where slots are positions: %v", err)
	}
	c.Evict(0, 0, []uint32{1})
	if _, err := c.Take(0, 0, 0); err == nil {
		t.Error("Take where a slot is dead: no error")
	}
	c.Close()
	if _, err := c.Put(0, 0, []uint32{1}); err == nil {
		t.Error("Put after Close: no error")
	}
}

func TestHostileEvictions(t *testing.T) {
	for name, evicted := range map[string][]uint32{
		"never taken": {3}, "twice": {2, 2}, "dead": {1}, "dead, among others": {0, 1}, "no slot": {NoSlot},
	} {
		c, _ := one(t, 6)
		mustPut(t, c, 0, 0, 3, 5, 9)
		c.Evict(0, 0, []uint32{1})
		if !panics(func() { c.Evict(0, 0, evicted) }) {
			t.Errorf("%s: no panic", name)
		}
	}
	c, _ := one(t, 6)
	mustPut(t, c, 0, 0, 3)
	if !panics(func() { c.Absorb(0, 0, 1) }) {
		t.Error("absorbed without a record of sums")
	}
}

// Two lists of pages of 4 keys (4 units of 16 bytes), 1 value (1 unit) and 8 positions (2 units): 4 tokens each take 20
// units of 22. When 3 values of the first are gone, 5 units are free, and a key and a value page need 5, but no 4 of them
// lie side by side.
func TestPagesMoveBeforeAllocationFails(t *testing.T) {
	g := Geometry{Layers: 1, KVHeads: 2, HeadDim: 8, Key: F16, Value: F16, PageK: 4, PageV: 1}
	for name, take := range map[string]func(c *Cache) error{
		"Put":     func(c *Cache) error { _, err := c.Put(0, 1, []uint32{4}); return err },
		"Reserve": func(c *Cache) error { return c.Reserve(1) }, // the first list takes a value page then, the second both
	} {
		units := int64(22)
		if name == "Reserve" {
			units = 23
		}
		c, led := open(t, g, units*16)
		mustPut(t, c, 0, 0, 0, 1, 2, 3)
		mustPut(t, c, 0, 1, 0, 1, 2, 3)
		c.Evict(0, 0, []uint32{1, 2, 3})
		c.Compact(0, 0)
		c.Trim(0, 0)
		was, ledger := state(c), led.Rows()
		if err := take(c); !errors.Is(err, ErrScattered) {
			t.Fatalf("%s: %v", name, err)
		}
		if state(c) != was || led.Rows() != ledger {
			t.Errorf("%s: the call that failed changed the cache", name)
		}
		// The first list: 4 units of keys, a value, then a hole of 3 and 2 of positions; the second behind it.
		if got, want := c.Gather(), []PageMove{{From: 8 * 4, To: 5 * 4, Words: 12 * 4}}; !slices.Equal(got, want) {
			t.Errorf("%s: moves %v, want %v", name, got, want)
		}
		if c.Used() != 17*16 {
			t.Errorf("%s: %d bytes up to the last page, want %d", name, c.Used(), 17*16)
		}
		if err := take(c); err != nil {
			t.Errorf("%s after Gather: %v", name, err)
		}
		if moves := c.Gather(); moves != nil {
			t.Errorf("%s: pages that lie side by side move: %v", name, moves)
		}
	}
}

// What the record of sums stands for is a number of the list's: 0 when its page is new.
func TestAbsorbed(t *testing.T) {
	g := builtIn
	g.Sums = true
	c, _ := open(t, g, g.lanes(2, 2).FullBytes(8))
	mustPut(t, c, 1, 1, 0, 1, 2)
	m := c.Mark()
	c.Absorb(1, 1, 5)
	c.Absorb(1, 1, 2)
	if n := c.List(1, 1).Absorbed; n != 7 || c.List(1, 0).Absorbed != 0 {
		t.Errorf("%d tokens are in the sums, want 7", n)
	}
	if !c.Stale(m) {
		t.Error("what was absorbed can be restored")
	}
	c.Evict(1, 1, []uint32{0, 1, 2})
	c.Compact(1, 1)
	c.Trim(1, 1)
	if l := c.List(1, 1); l.Absorbed != 0 || len(l.Sums) != 0 {
		t.Errorf("an empty list has %d tokens in %d records", l.Absorbed, len(l.Sums))
	}
}

// A saved cache belongs to its arena, and an arena holds its pages.
func TestOtherArenas(t *testing.T) {
	c, _ := one(t, 8)
	mustPut(t, c, 0, 0, 0, 1, 2, 3)
	saved, used := c.Save(), c.Used()
	if used != 4*128+32 || saved.Bytes() != 4*(2+2+1+4+4) {
		t.Errorf("%d bytes are used, %d are saved", used, saved.Bytes())
	}
	var size *SizeError
	for _, bytes := range []int64{used - 1, -1, math.MinInt64, MaxCap + 1, math.MaxInt64} {
		if err := c.Resize(bytes); !errors.As(err, &size) || *size != (SizeError{used, bytes}) {
			t.Errorf("resized to %d bytes: %v", bytes, err)
		}
	}
	if err := c.Resize(used); err != nil || c.Room() != 0 || c.Cap() != used || len(c.arena.runs) != 0 {
		t.Errorf("resized to what is used: %v, room for %d, free %v", err, c.Room(), c.arena.runs)
	}
	if err := c.Load(saved); !errors.Is(err, ErrOtherArena) {
		t.Errorf("loaded into a smaller arena: %v", err)
	}
	other, _ := open(t, builtIn, 1<<20)
	if err := other.Load(saved); !errors.Is(err, ErrOtherArena) {
		t.Errorf("loaded into another cache: %v", err)
	}
}

// What the cache takes of the host follows from the cap: words for 8 key, 8 value and 2 position pages, 16 positions and
// 16 slots in order, in 8 lists. It is all there from the start, and after another cap it is that cap's.
func TestTablesFollowTheCap(t *testing.T) {
	quarter := builtIn.Share(62, .25)
	c, led := open(t, builtIn, quarter)
	for i := range c.lists {
		if aux := led.Rows()[Aux]; aux.Allocated != 8*(8+8+2+16+16)*4 || aux.Logical != aux.Allocated {
			t.Errorf("with %d lists full: %+v, want 1,600 bytes", i, aux)
		}
		mustPut(t, c, i/2, i%2, newPositions(rand.New(rand.NewPCG(1, 1)), nil, 16)...)
	}
	if err := c.Resize(builtIn.lanes(2, 2).FullBytes(40)); err != nil {
		t.Fatal(err)
	}
	if aux := led.Rows()[Aux].Allocated; aux != 8*(20+20+5+40+40)*4 {
		t.Errorf("%d bytes after the cap was raised, want 4,000", aux)
	}
}

// After the way back to a mark, what was marked later is gone.
func TestMarksAfterRestore(t *testing.T) {
	for name, between := range map[string]func(c *Cache) error{
		"pages": func(c *Cache) error { return c.Reserve(3) },
		"slots": func(c *Cache) error { _, err := c.Take(0, 0, 2); return err },
	} {
		c, _ := one(t, 8)
		if name == "slots" {
			if err := c.Reserve(4); err != nil {
				t.Fatal(err)
			}
		}
		early := c.Mark()
		if err := between(c); err != nil {
			t.Fatal(err)
		}
		late := c.Mark()
		if c.Stale(early) || c.Stale(late) {
			t.Errorf("%s: nothing was restored yet", name)
		}
		c.Restore(early)
		if c.Stale(early) || !c.Stale(late) || !panics(func() { c.Restore(late) }) {
			t.Errorf("%s: a state that is gone can be restored", name)
		}
	}
}

// Pitfall 14: a cache that was compressed once grows past its cap while decoding. 2·B tokens go by; n stays within
// B + reserve, and no page is asked for beyond those of the prompt and the reserve.
func TestPitfall14CapHoldsInDecode(t *testing.T) {
	for _, perStep := range []bool{true, false} {
		capBytes := builtIn.Share(400, .25)
		b := builtIn.Budget(capBytes, perStep, false)
		c, led := open(t, builtIn, capBytes)
		g := c.Geometry()
		prompt := make([]uint32, b.Tokens)
		for i := range prompt {
			prompt[i] = uint32(i * 2)
		}
		lists := g.Layers * g.KVHeads
		for i := range lists {
			mustPut(t, c, i/g.KVHeads, i%g.KVHeads, prompt...)
		}
		r := rand.New(rand.NewPCG(14, 0))
		aux := led.Rows()[Aux].Allocated
		for step := range 2 * b.Tokens {
			for i := range lists {
				l := &c.lists[i]
				mustPut(t, c, i/g.KVHeads, i%g.KVHeads, uint32(3*b.Tokens+step))
				if l.Live > b.Tokens+b.Reserve {
					t.Fatalf("step %d: %d tokens, a budget of %+v", step, l.Live, b)
				}
				if l.Live == b.Tokens+b.Reserve {
					for range b.Reserve {
						c.Evict(i/g.KVHeads, i%g.KVHeads, l.Order()[r.IntN(l.Live):][:1])
					}
				}
			}
			if rows := led.Rows(); led.Total().Allocated-rows[Aux].Allocated != capBytes || rows[Aux].Allocated != aux {
				t.Fatalf("step %d: the ledger has %+v", step, led.Total())
			}
		}
		if got, want := led.Rows()[Free].Allocated, capBytes-g.FullBytes(b.Tokens+b.Reserve); got != want {
			t.Errorf("%d bytes are free, want %d", got, want)
		}
	}
}

// Pitfall 20: memory is not lower than expected. What the ledger says is the pages that there are, and it is the formula:
// also for short texts, and also with what recipes keep beside.
func TestPitfall20AccountedBytesArePages(t *testing.T) {
	for _, tokens := range []int{1, 2, 7, 62, 100} {
		for _, share := range []float64{.25, .5, 1} {
			g := builtIn
			g.Scores, g.Bound, g.Sums = tokens%2 == 0, tokens%3*8, tokens > 50
			capBytes := g.Share(tokens, share)
			b := g.Budget(capBytes, true, false)
			c, led := open(t, g, capBytes)
			g = c.Geometry()
			for i := range g.Layers * g.KVHeads {
				mustPut(t, c, i/g.KVHeads, i%g.KVHeads, newPositions(rand.New(rand.NewPCG(20, 0)), nil, b.Tokens)...)
			}
			var pages, ledger int64
			for i := range c.lists {
				for _, p := range g.everyKind(&c.lists[i]) {
					pages += int64(len(p.table) * p.bytes)
				}
			}
			rows := led.Rows()
			for _, k := range []Kind{KVF16, KVF32, Positions, Scores, Bounds, Sums} {
				ledger += rows[k].Allocated
			}
			want := g.FullBytes(b.Tokens)
			if pages != ledger || pages != want || pages+rows[Free].Allocated != capBytes || capBytes > builtIn.Share(tokens, 1) {
				t.Errorf("%g of %d tokens: pages of %d bytes, %d in the ledger, %d by the formula, %d free of %d",
					share, tokens, pages, ledger, want, rows[Free].Allocated, capBytes)
			}
		}
	}
}

// steady is a decode step of every list: the new token takes the slot of the one that left before.
func steady(c *Cache, position uint32) {
	g := &c.geo
	for i := range c.lists {
		l := &c.lists[i]
		c.Evict(i/g.KVHeads, i%g.KVHeads, l.order[int(position)%l.Live:][:1])
		if _, err := c.Put(i/g.KVHeads, i%g.KVHeads, []uint32{position}); err != nil {
			panic(err)
		}
	}
}

// filled is a cache of the built-in model whose lists are full.
func filled(t testing.TB, tokens int) *Cache {
	c, _ := open(t, builtIn, builtIn.lanes(8, 8).FullBytes(tokens))
	for i := range c.lists {
		mustPut(t, c, i/c.geo.KVHeads, i%c.geo.KVHeads, newPositions(rand.New(rand.NewPCG(1, 1)), nil, tokens)...)
	}
	return c
}

// Once lists are full, decoding asks for no memory.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	c := filled(t, 256)
	position := uint32(1 << 20)
	if n := testing.AllocsPerRun(100, func() { position++; steady(c, position) }); n != 0 {
		t.Errorf("%g allocations a step", n)
	}
}

// A step of decoding: 8 lists lose one token and take one.
func BenchmarkStep(b *testing.B) {
	for _, tokens := range []int{64, 2048} {
		b.Run(fmt.Sprint(tokens), func(b *testing.B) {
			c := filled(b, tokens)
			b.ReportAllocs()
			position := uint32(1 << 20)
			for b.Loop() {
				position++
				steady(c, position)
			}
		})
	}
}

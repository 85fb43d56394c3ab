package cache

import (
	"errors"
	"fmt"
	"math"
	"testing"
)

// builtIn is the geometry of the built-in model: 4 layers, 2 KV heads of 32.
var builtIn = Geometry{Layers: 4, KVHeads: 2, HeadDim: 32, Key: F16, Value: F16}

func (g Geometry) lanes(k, v int) Geometry {
	g.PageK, g.PageV = k, v
	return g
}

// open makes a cache over an arena that entered the ledger as a backend would enter it.
func open(t testing.TB, g Geometry, bytes int64) (*Cache, *Ledger) {
	t.Helper()
	led := new(Ledger)
	led.Add(Free, 0, bytes)
	c, err := New(g, bytes, led)
	if err != nil {
		t.Fatal(err)
	}
	return c, led
}

// The worked example of the design: 62 tokens take 64 slots a list. A key and a value take 64 bytes each, a position 4.
func TestBuiltInModel(t *testing.T) {
	full := builtIn.lanes(8, 8).FullBytes(62)
	if want := int64(8 * 64 * (64 + 64 + 4)); full != want {
		t.Errorf("62 tokens take %d bytes, want %d", full, want)
	}
	quarter := full / 4
	if quarter != 16896 {
		t.Errorf("a quarter of it is %d bytes, want 16,896", quarter)
	}
	c, led := open(t, builtIn, quarter)
	if g := c.Geometry(); g.PageK != 2 || g.PageV != 2 {
		t.Errorf("pages of %d and %d lanes, want 2: the cap buys 16 slots a list", g.PageK, g.PageV)
	}
	if c.Room() != 16 {
		t.Errorf("room for %d tokens, want 16", c.Room())
	}
	if err := c.Reserve(16); err != nil {
		t.Fatal(err)
	}
	rows := led.Rows()
	if rows[KVF16].Allocated != 8*16*128 || rows[Positions].Allocated != 8*2*32 || rows[Free].Allocated != 0 {
		t.Errorf("16 tokens: %+v", rows)
	}
	var fe *FullError
	if err := c.Reserve(17); !errors.As(err, &fe) || *fe != (FullError{Stored: 0, Asked: 17, Room: 16, Cap: 16896}) {
		t.Errorf("17 tokens: %v", err)
	}
}

func TestWithPages(t *testing.T) {
	eight := builtIn.lanes(8, 8)
	for _, c := range []struct {
		cap  int64
		in   Geometry
		k, v int
	}{
		{eight.FullBytes(64), builtIn, 8, 8},
		{eight.FullBytes(64) - 1, builtIn, 2, 2},
		{0, builtIn, 2, 2},
		{-1, builtIn, 2, 2},
		{eight.FullBytes(64), builtIn.lanes(3, 0), 3, 8},
		{0, builtIn.lanes(0, 1), 2, 1},
	} {
		if g := c.in.WithPages(c.cap); g.PageK != c.k || g.PageV != c.v {
			t.Errorf("cap %d, pages %d and %d: chose %d and %d, want %d and %d", c.cap, c.in.PageK, c.in.PageV, g.PageK, g.PageV, c.k, c.v)
		}
	}
}

// FullBytes against its definition: whole pages, each rounded up to 16 bytes.
func TestFullBytes(t *testing.T) {
	up := func(n, to int) int { return (n + to - 1) / to }
	for _, g := range []Geometry{
		builtIn.lanes(8, 8), builtIn.lanes(1, 1), builtIn.lanes(2, 32), builtIn.lanes(3, 5),
		{Layers: 1, KVHeads: 3, HeadDim: 1, Key: F16, Value: F32, PageK: 3, PageV: 1},
		{Layers: 30, KVHeads: 3, HeadDim: 64, Key: F32, Value: F16, PageK: 8, PageV: 8},
	} {
		for _, n := range []int{1, 2, 7, 8, 9, 31, 62, 64, 65, 1000} {
			key := up(n, g.PageK) * up(g.PageK*g.HeadDim*g.Key.Bytes(), 16) * 16
			value := up(n, g.PageV) * up(g.PageV*g.HeadDim*g.Value.Bytes(), 16) * 16
			want := int64(g.Layers * g.KVHeads * (key + value + up(n, 8)*32))
			got := g.FullBytes(n)
			if got != want {
				t.Errorf("%+v: %d tokens take %d bytes, want %d", g, n, got, want)
			}
			if m := g.FullTokens(got); m < n || g.FullBytes(m) != got {
				t.Errorf("%+v: %d bytes hold %d tokens, want at least %d", g, got, m, n)
			}
			if m := g.FullTokens(got - 1); m >= n {
				t.Errorf("%+v: %d bytes hold %d tokens, want fewer than %d", g, got-1, m, n)
			}
		}
	}
	g := builtIn.lanes(8, 8)
	if g.FullBytes(0) != 0 || g.FullBytes(-5) != 0 || builtIn.FullBytes(9) != 0 {
		t.Error("no tokens, or no pages, take bytes")
	}
	g.Layers, g.HeadDim = 1<<19, 1<<16
	if n := g.FullBytes(math.MaxInt); n != math.MaxInt64 {
		t.Errorf("a cache of MaxInt tokens takes %d bytes", n)
	}
}

func TestNewErrors(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(g *Geometry)
		cap   int64
	}{
		"no layers":       {func(g *Geometry) { g.Layers = 0 }, 4096},
		"no heads":        {func(g *Geometry) { g.KVHeads = -1 }, 4096},
		"too many lists":  {func(g *Geometry) { g.Layers, g.KVHeads = 1<<40, 1<<40 }, 4096},
		"no dimension":    {func(g *Geometry) { g.HeadDim = 0 }, 4096},
		"huge dimension":  {func(g *Geometry) { g.HeadDim = math.MaxInt }, 4096},
		"unknown format":  {func(g *Geometry) { g.Value = 2 }, 4096},
		"negative page":   {func(g *Geometry) { g.PageK = -1 }, 4096},
		"page too long":   {func(g *Geometry) { g.PageV = 33 }, 4096},
		"negative cap":    {func(*Geometry) {}, -1},
		"cap above 2^34":  {func(*Geometry) {}, 1<<34 + 1},
		"cap of MaxInt64": {func(*Geometry) {}, math.MaxInt64},
	} {
		g, led := builtIn, new(Ledger)
		c.spoil(&g)
		if _, err := New(g, c.cap, led); err == nil {
			t.Errorf("%s: no error", name)
		}
		if led.Total() != (Row{}) {
			t.Errorf("%s: the ledger has %+v", name, led.Total())
		}
	}
}

func TestTinyCaps(t *testing.T) {
	for _, bytes := range []int64{0, 1, 15, 16, 1000, builtIn.lanes(2, 2).FullBytes(1) - 1} {
		c, led := open(t, builtIn, bytes)
		var full *FullError
		if err := c.Reserve(1); c.Room() != 0 || !errors.As(err, &full) {
			t.Errorf("%d bytes: room for %d, %v", bytes, c.Room(), err)
		}
		if err := c.Reserve(0); err != nil {
			t.Errorf("%d bytes: %v", bytes, err)
		}
		if led.Rows()[Free].Allocated != bytes {
			t.Errorf("%d bytes: %d are free", bytes, led.Rows()[Free].Allocated)
		}
	}
}

func TestHostileCalls(t *testing.T) {
	c, led := open(t, builtIn, 1<<20)
	if err := c.Reserve(10); err != nil {
		t.Fatal(err)
	}
	before := led.Rows()
	for _, n := range []int{-1, math.MinInt, math.MaxInt, math.MaxInt - 1, 1 << 40} {
		if c.Reserve(n) == nil {
			t.Errorf("Reserve(%d): no error", n)
		}
	}
	for _, a := range [][3]int{{-1, 0, 1}, {4, 0, 1}, {0, -1, 1}, {0, 2, 1}, {0, 0, -1}, {0, 0, 11}, {0, 0, math.MaxInt}} {
		if _, err := c.Take(a[0], a[1], a[2]); err == nil {
			t.Errorf("Take(%v): no error", a)
		}
	}
	if led.Rows() != before {
		t.Error("calls that failed changed the ledger")
	}
	for name, m := range map[string]Mark{"none": {}, "gone": func() Mark { m := c.Mark(); c.Reset(); return m }()} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("mark that is %s: no panic", name)
				}
			}()
			c.Restore(m)
		}()
	}
}

// state is everything of a cache that counts, but for the capacity of tables.
func state(c *Cache) (s string) {
	for _, l := range c.lists {
		s += fmt.Sprintln(l.Slots, l.Live, l.Absorbed, l.room, l.Keys, l.Values, l.Positions, l.Scores, l.Bounds, l.Sums, l.At, l.order)
	}
	return s + fmt.Sprintln(c.arena.free, c.arena.runs)
}

// Where the free sum suffices but no run does, Reserve fails and leaves no page behind.
func TestFragmentedArena(t *testing.T) {
	c, led := open(t, builtIn, builtIn.lanes(8, 8).FullBytes(64))
	for range c.arena.size {
		c.arena.alloc(1)
	}
	for at := int64(0); at < c.arena.size; at++ {
		if at < 40 || at%2 == 0 { // a key page is 32 units
			c.arena.release(at, 1)
		}
	}
	was, ledgerWas := state(c), led.Rows()
	if err := c.Reserve(1); !errors.Is(err, ErrScattered) {
		t.Fatal(err)
	}
	if got := state(c); got != was {
		t.Errorf("left behind:\n%s\nwant\n%s", got, was)
	}
	for k, row := range led.Rows() {
		if row.Allocated != ledgerWas[k].Allocated || row.Logical != ledgerWas[k].Logical {
			t.Errorf("kind %d: %+v, was %+v", k, row, ledgerWas[k])
		}
	}
}

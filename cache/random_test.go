package cache

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// Random calls of a full cache against the model: pages lie apart and hold what their list needs, the ledger's kinds add
// up to the arena at every moment, Restore gives back exactly what was.
func TestRandomCalls(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 77))
		g := Geometry{
			Layers: 1 + r.IntN(3), KVHeads: 1 + r.IntN(2), HeadDim: 1 + r.IntN(40),
			Key: Format(r.IntN(2)), Value: Format(r.IntN(2)), PageK: 1 + r.IntN(9), PageV: 1 + r.IntN(9),
		}
		c, led := open(t, g, g.FullBytes(40)+int64(r.IntN(300)))
		n := g.Layers * g.KVHeads
		b := &bytesOf{geo: g, bytes: make([]byte, c.Cap())}
		now := newModel(g)
		type saved struct {
			mark  Mark
			model model
			state string
		}
		var marks []saved
		for range 120 {
			switch op := r.IntN(20); {
			case op < 8:
				now.reserve(t, c, b, r.IntN(12))
			case op < 16:
				i := r.IntN(n)
				left := now.room[i] - len(now.at[i])
				if _, err := c.Take(i/g.KVHeads, i%g.KVHeads, left+1); err == nil {
					t.Fatalf("seed %d: took more slots than are reserved", seed)
				}
				k := r.IntN(left + 1)
				slots, err := c.Take(i/g.KVHeads, i%g.KVHeads, k)
				if err != nil || len(slots) != k {
					t.Fatalf("seed %d: Take %d of %d: %v", seed, k, left, err)
				}
				for _, s := range slots {
					if int(s) != len(now.at[i]) {
						t.Fatalf("seed %d: slot %d instead of %d", seed, s, len(now.at[i]))
					}
					now.at[i] = append(now.at[i], s) // slot and position are the same
				}
				b.write(c.List(i/g.KVHeads, i%g.KVHeads), i, slots)
			case op < 18:
				marks = append(marks, saved{c.Mark(), now.clone(), state(c)})
			case op < 19 && len(marks) > 0:
				i := r.IntN(len(marks))
				m := marks[i]
				if c.Stale(m.mark) {
					t.Fatalf("seed %d: stale, though nothing was evicted", seed)
				}
				c.Restore(m.mark)
				if state(c) != m.state {
					t.Fatalf("seed %d: restored\n%s\ninstead of\n%s", seed, state(c), m.state)
				}
				now, marks = m.model.clone(), marks[:i]
			case r.IntN(8) == 0:
				c.Reset()
				for _, m := range marks {
					if !c.Stale(m.mark) {
						t.Fatalf("seed %d: a mark outlived Reset", seed)
					}
				}
				now, marks = newModel(g), nil
			}
			now.check(t, c, led)
			b.check(t, c)
		}
		closed(t, c, led)
	}
}

func closed(t *testing.T, c *Cache, led *Ledger) {
	t.Helper()
	c.Close()
	c.Close()
	if led.Rows()[Free].Allocated != c.Cap() || led.Total().Allocated != c.Cap() || led.Total().Logical != 0 {
		t.Fatalf("after Close the ledger has %+v", led.Rows())
	}
}

// Random calls of recipes that drop tokens, with a caller that copies what it is told to: besides, every token's bytes
// stay readable in its slot, dead slots are taken before fresh ones, a page that finds no run finds one after Gather, and
// what was saved comes back.
func TestRandomSlots(t *testing.T) {
	scattered, full, restored, resized := 0, 0, 0, 0
	for seed := range uint64(24) {
		r := rand.New(rand.NewPCG(seed, 78))
		g := Geometry{
			Layers: 1 + r.IntN(3), KVHeads: 1 + r.IntN(2), HeadDim: 1 + r.IntN(20),
			Key: Format(r.IntN(2)), Value: Format(r.IntN(2)), PageK: 1 + r.IntN(9), PageV: 1 + r.IntN(9),
			Scores: r.IntN(2) == 0, Bound: max(0, r.IntN(40)-20), Sums: r.IntN(2) == 0,
		}
		c, led := open(t, g, g.FullBytes(6+r.IntN(30))+int64(r.IntN(300)))
		n := g.Layers * g.KVHeads
		b := &bytesOf{geo: g, bytes: make([]byte, c.Cap())}
		now := newModel(g)
		type saved struct {
			book  *Saved
			mark  Mark
			alive bool // nothing was done that Restore cannot undo
			moved bool // pages lie elsewhere, which Restore leaves so
			bytes []byte
			model model
			state string
		}
		var kept []saved
		stale := func() {
			for i := range kept {
				kept[i].alive = false
			}
		}
		put := func(i, k int) bool {
			layer, head, l := i/g.KVHeads, i%g.KVHeads, &c.lists[i]
			positions := newPositions(r, now.at[i], k)
			before := state(c)
			slots, err := c.Put(layer, head, positions)
			fits := now.fits(c, func(j int) int {
				if j == i {
					return now.after(i, len(positions))
				}
				return 0
			})
			if err != nil && state(c) != before {
				t.Fatalf("seed %d: Put: %v, but the cache changed", seed, err)
			}
			if errors.Is(err, ErrScattered) {
				scattered++
				b.gather(t, c)
				slots, err = c.Put(layer, head, positions)
			}
			var fe *FullError
			if fits != (err == nil) || err != nil && !errors.As(err, &fe) {
				t.Fatalf("seed %d: Put %d: %v, fits: %v", seed, len(positions), err, fits)
			}
			if err != nil {
				full++
				if fe.Asked != len(positions) || fe.Stored != l.Live || fe.Room >= fe.Asked {
					t.Fatalf("seed %d: %+v for %d tokens beside %d", seed, fe, len(positions), l.Live)
				}
				return false
			}
			if now.dead(i) > 0 && len(positions) > 0 {
				stale()
			}
			now.put(t, i, positions, slots)
			b.write(l, i, slots)
			b.fresh(c)
			return true
		}
		for range 250 {
			i := r.IntN(n)
			layer, head := i/g.KVHeads, i%g.KVHeads
			l := &c.lists[i]
			switch op := r.IntN(32); {
			case op < 8:
				put(i, r.IntN(1+r.IntN(12)))
			case op < 10: // up to the last byte, where pages that were freed have left holes
				for put(r.IntN(n), 1) {
				}
			case op < 17:
				evicted := l.Order() // itself: evicting must not trip over it
				if r.IntN(2) == 0 {
					evicted = slices.Clone(evicted)
					r.Shuffle(len(evicted), func(a, b int) { evicted[a], evicted[b] = evicted[b], evicted[a] })
				}
				if few := 1 + r.IntN(3); r.IntN(3) == 0 && len(evicted) > few {
					evicted = evicted[:few]
				} else if len(evicted) > 0 {
					evicted = evicted[:len(evicted)*(5+r.IntN(6))/10]
				}
				for _, s := range evicted {
					now.at[i][s] = DeadPosition
				}
				if len(evicted) > 0 {
					stale()
				}
				c.Evict(layer, head, evicted)
			case op < 23:
				if now.dead(i) > 0 {
					stale()
				}
				want := now.live(i)
				positions := make([]uint32, len(want))
				for j, s := range want {
					positions[j] = now.at[i][s]
				}
				b.compact(t, c, i, r.Shuffle)
				now.at[i] = slices.Clone(l.At) // what lies where is the cache's choice
				if got := now.live(i); len(l.At) != len(want) || len(got) != len(want) {
					t.Fatalf("seed %d: %d slots for %d tokens after Compact", seed, len(l.At), len(want))
				} else {
					for j, s := range got {
						if now.at[i][s] != positions[j] {
							t.Fatalf("seed %d: Compact lost position %d", seed, positions[j])
						}
					}
				}
				if r.IntN(4) > 0 {
					if now.room[i] > len(l.At) {
						stale()
					}
					c.Trim(layer, head)
					now.room[i] = len(l.At)
				}
			case op < 24 && r.IntN(4) == 0:
				b.gather(t, c)
				for j := range kept {
					kept[j].moved = true
				}
			case op < 26:
				now.reserve(t, c, b, r.IntN(3))
			case op < 28:
				kept = append(kept, saved{c.Save(), c.Mark(), true, false, slices.Clone(b.bytes[:c.Used()]), now.clone(), state(c)})
			case op < 30 && len(kept) > 0:
				j := r.IntN(len(kept))
				k := kept[j]
				if k.alive == c.Stale(k.mark) {
					t.Fatalf("seed %d: stale: %v, but restorable: %v", seed, c.Stale(k.mark), k.alive)
				}
				if k.alive {
					restored++
					c.Restore(k.mark)
					if !k.moved && state(c) != k.state {
						t.Fatalf("seed %d: restored\n%s\ninstead of\n%s", seed, state(c), k.state)
					}
				} else {
					if err := c.Load(k.book); err != nil {
						t.Fatal(err)
					}
					copy(b.bytes, k.bytes)
					if state(c) != k.state {
						t.Fatalf("seed %d: loaded\n%s\ninstead of\n%s", seed, state(c), k.state)
					}
				}
				now, kept = k.model.clone(), kept[:j]
				b.pages = nil // of the time before
			case op < 31 && len(l.Sums) > 0 && r.IntN(2) == 0:
				was := l.Absorbed
				if c.Absorb(layer, head, 3); l.Absorbed != was+3 {
					t.Fatalf("seed %d: %d tokens in the sums", seed, l.Absorbed)
				}
				stale()
			case op < 31 && r.IntN(8) == 0:
				to := c.Used() + int64(r.IntN(2000))
				led.Add(Free, 0, to) // the new arena, and then the old one goes
				led.Add(Free, 0, -c.Cap())
				if err := c.Resize(to); err != nil {
					t.Fatal(err)
				}
				b.bytes = slices.Concat(b.bytes[:c.Used()], make([]byte, to-c.Used()))
				kept, resized = nil, resized+1
			case r.IntN(8) == 0:
				c.Reset()
				now, kept, b.pages = newModel(g), nil, nil
			}
			b.fresh(c)
			now.check(t, c, led)
			b.check(t, c)
		}
		closed(t, c, led)
	}
	t.Logf("%d scattered, %d full, %d restored, %d resized", scattered, full, restored, resized)
	if scattered < 10 || full < 50 || restored < 10 || resized < 10 {
		t.Errorf("too few cases: %d scattered, %d full, %d restored, %d resized", scattered, full, restored, resized)
	}
}

// newPositions are n positions that a list does not store, most often later than all that it does.
func newPositions(r *rand.Rand, at []uint32, n int) []uint32 {
	var p uint32
	for _, q := range at {
		if q != DeadPosition {
			p = max(p, q+1)
		}
	}
	if r.IntN(4) == 0 {
		p = 0
	}
	var out []uint32
	for ; len(out) < n; p++ {
		if r.IntN(3) > 0 && !slices.Contains(at, p) {
			out = append(out, p)
		}
	}
	return out
}

// put enters tokens in the model: each in the lowest dead slot, else in a fresh one.
func (m model) put(t *testing.T, i int, positions, slots []uint32) {
	t.Helper()
	if len(slots) != len(positions) {
		t.Fatalf("%d slots for %d tokens", len(slots), len(positions))
	}
	for j, p := range positions {
		want := slices.Index(m.at[i], DeadPosition)
		if want < 0 {
			want = len(m.at[i])
			m.at[i] = append(m.at[i], 0)
		}
		if int(slots[j]) != want {
			t.Fatalf("slot %d instead of %d", slots[j], want)
		}
		m.at[i][want] = p
	}
	m.room[i] = max(m.room[i], len(m.at[i]))
}

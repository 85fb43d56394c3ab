package reftest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
)

// oracle is what everything is compared with.
func oracle(led *cache.Ledger) (step.Backend, error) { return ref.NewF64(led), nil }

// opCase is one model and cache for testOps. Stored tokens differ from head to head, some are dead.
type opCase struct {
	shape   step.Shape
	layouts []quant.Layout
	pages   pages
	rows    int // of the run
	before  int // rows of the prompt that ran before these
	stored  int // about how many tokens are stored in each list
}

func (c opCase) String() string {
	s := c.shape
	return fmt.Sprintf("%v,H%d,%dx%d/%d,F%d,rot%d,neox=%v,pages%v,rows%d+%d,stored%d", c.layouts, s.Hidden, s.Heads,
		s.HeadDim, s.KVHeads, s.FFN, s.RotDim, s.Neox, c.pages, c.before, c.rows, c.stored)
}

// opCases are random, the same every time.
func opCases() []opCase {
	r := rand.New(rand.NewPCG(3, 1))
	pick := func(n ...int) int { return n[r.IntN(len(n))] }
	layouts := [][]quant.Layout{
		{quant.LayoutF32},
		{quant.LayoutF16},
		{quant.Layout4},
		{quant.Layout8},
		{quant.Layout4, quant.Layout8, quant.LayoutF16, quant.LayoutF32},
	}
	var out []opCase
	for i := range 40 {
		c := opCase{layouts: layouts[i%len(layouts)]}
		group, dim := pick(1, 2, 3, 4), pick(32, 64)
		c.shape = step.Shape{
			Layers: 1, KVHeads: pick(1, 2, 3), HeadDim: dim, Hidden: 32 * pick(1, 2, 3, 9), FFN: 32 * pick(1, 3, 5, 12),
			Vocab: 50 + r.IntN(50), RotDim: pick(dim, dim, dim/2), Neox: i%2 == 1, Eps: 1e-5,
		}
		if i%len(layouts) < 2 { // sizes of any kind, where there are no groups
			c.shape.HeadDim = pick(2, 6, 10, 40)
			c.shape.RotDim = pick(0, 2, c.shape.HeadDim)
			c.shape.Hidden, c.shape.FFN = 5+r.IntN(300), 3+r.IntN(90)
		}
		c.shape.Heads = group * c.shape.KVHeads
		c.pages = pages{cache.Format(r.IntN(2)), cache.Format(r.IntN(2)), pick(1, 2, 3, 8), pick(1, 2, 8, 32)}
		c.rows, c.before, c.stored = pick(1, 2, 5, 17, 37), pick(0, 0, 3, 20), pick(0, 1, 7, 48, 100)
		out = append(out, c)
	}
	return out
}

// testOps runs the operations of one layer on the backend and on the oracle, from the same inputs each.
func testOps(t *testing.T, open Open, c opCase, tol Tolerance) {
	r := rand.New(rand.NewPCG(7, uint64(c.rows*1000+c.stored)))
	m := NewModel(r, c.shape, c.rows, c.layouts...)
	total := c.before + c.rows
	both := [2]*session{}
	for i, o := range []Open{open, oracle} {
		both[i] = newEngine(t, o, m).session(c.pages, c.stored+5+total)
		both[i].must(both[i].exec.Grow(total, c.rows))
	}
	got, want := both[0], both[1]
	fillStored(r, c.stored, got, want)

	a := step.Args{IDs: make([]int32, total), Pos: Positions/2 + r.IntN(9), From: c.before, To: total, Logits: step.AllRows}
	for i := range a.IDs {
		a.IDs[i] = int32(r.IntN(c.shape.Vocab))
	}
	// What earlier chunks left: keys and values, and a residual that must stay as it is.
	for _, name := range []step.Name{step.X, step.K, step.V} {
		x := normal(r, total*got.width(name))
		for _, s := range both {
			s.must(s.b.Upload(s.exec.Scratch(name), 0, quant.Bytes(x)))
		}
	}
	// compare holds what an operation wrote against the oracle, then takes the oracle's numbers as the next inputs.
	compare := func(what string, rows int, names ...step.Name) {
		t.Helper()
		for _, name := range names {
			n := rows * got.width(name)
			x := want.read(name, n)
			Compare(t, fmt.Sprintf("%s: scratch %d", what, name), got.read(name, n), x, tol)
			got.must(got.b.Upload(got.exec.Scratch(name), 0, quant.Bytes(x)))
		}
	}
	run := func(op int) {
		t.Helper()
		for _, s := range both {
			a.Cache, a.Arena = s.cache, s.arena
			s.run(&a, op, op+1)
		}
	}
	run(0)
	compare("embed", total, step.X)
	run(1)
	compare("QKV", total, step.K, step.V)
	compare("QKV", c.rows, step.Q)
	run(2)
	compare("attend", c.rows, step.A)
	run(4)
	compare("project A", total, step.X)
	run(5)
	compare("gate, up", c.rows, step.F)
	run(6)
	compare("project F", total, step.X)
	run(7)
	compare("norm", c.rows, step.N)
	run(8)
	compare("head", c.rows, step.Logits)
	a.Logits = step.LastRow
	run(7)
	compare("norm, last row", 1, step.N)
	run(8)
	compare("head, last row", 1, step.Logits)

	for _, s := range both {
		s.must(s.cache.Reserve(total))
		a.Slots = s.take(0, total)
	}
	// Rows that ran before are stored too, by a run of their own.
	for from := 0; from < total; from += c.rows {
		a.From, a.To = from, min(from+c.rows, total)
		run(3)
	}
	if !bytes.Equal(got.readArena(), want.readArena()) {
		t.Error("store: the arenas differ")
	}
	got.checkPositions(a.Slots, a.Pos)
	a.Stored, a.From, a.To = true, total-1, total
	run(2)
	compare("attend, stored", 1, step.A)
	compareRows(t, &a, got, want, tol)
}

// checkPositions looks for the positions from pos on in the slots of a layer's tokens.
func (s *session) checkPositions(slots [][]uint32, pos int) {
	s.t.Helper()
	arena := s.readArena()
	for h := range slots {
		p := ref.Pages{Arena: arena, List: s.cache.List(0, h), Geo: s.cache.Geometry()}
		for t, slot := range slots[h] {
			if got := *p.Position(int(slot)); int(got) != pos+t {
				s.t.Errorf("store: head %d has position %d in slot %d, want %d", h, got, slot, pos+t)
			}
		}
	}
}

// compareRows compares attention rows, of a token in the middle and of the last.
func compareRows(t *testing.T, a *step.Args, got, want *session, tol Tolerance) {
	s := &got.model.Shape
	for _, from := range []int{a.From / 2, a.From} {
		a.From, a.To = from, from+1
		rows := [2][][]float32{}
		for i, x := range []*session{got, want} {
			a.Cache, a.Arena = x.cache, x.arena
			rows[i] = x.row(a)
		}
		for h := range s.Heads {
			Compare(t, fmt.Sprintf("attention row of head %d at %d", h, a.Pos+from), rows[0][h], rows[1][h], tol)
		}
	}
}

// row is the attention row of the run's first row by position. Backends that follow no plans write it by slot.
func (s *session) row(a *step.Args) [][]float32 {
	s.t.Helper()
	_, byPosition := s.exec.(step.Scorer)
	arena, shape := s.readArena(), &s.model.Shape
	rows := make([][]float32, shape.Heads)
	for h := range rows {
		rows[h] = make([]float32, Positions)
	}
	s.must(s.exec.AttentionRow(a, 0, 0, rows))
	for h, bySlot := range rows {
		if byPosition {
			continue
		}
		rows[h] = make([]float32, Positions)
		p := ref.Pages{Arena: arena, List: s.cache.List(0, h/(shape.Heads/shape.KVHeads)), Geo: s.cache.Geometry()}
		for slot := range p.List.Slots {
			if pos := *p.Position(slot); pos != cache.DeadPosition {
				rows[h][pos] = bySlot[slot]
			}
		}
	}
	return rows
}

// fillStored gives every list about n tokens of random content, a different number each, with some slots dead.
func fillStored(r *rand.Rand, n int, sessions ...*session) {
	first := sessions[0]
	geo := first.cache.Geometry()
	lengths := make([]int, geo.KVHeads)
	for h := range lengths {
		lengths[h] = max(0, n-r.IntN(5))
	}
	for _, s := range sessions {
		s.must(s.cache.Reserve(n))
		for h, n := range lengths {
			_, err := s.cache.Take(0, h, n)
			s.must(err)
		}
	}
	arena := make([]byte, first.cache.Cap())
	for h := range geo.KVHeads {
		p := ref.Pages{Arena: arena, List: first.cache.List(0, h), Geo: geo}
		for slot := range lengths[h] {
			randomLane(r, geo.Key, p.Key(slot))
			randomLane(r, geo.Value, p.Value(slot))
			*p.Position(slot) = uint32(slot)
			if r.IntN(4) == 0 {
				*p.Position(slot) = cache.DeadPosition
			}
		}
	}
	for _, s := range sessions {
		s.must(s.b.Upload(s.arena, 0, arena))
	}
}

func randomLane(r *rand.Rand, f cache.Format, lane []byte) {
	x := normal(r, len(lane)/f.Bytes())
	if f == cache.F32 {
		copy(lane, quant.Bytes(x))
		return
	}
	for i, v := range x {
		quant.Uint16s(lane)[i] = quant.ToHalf(v)
	}
}

func normal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func (s *session) readArena() []byte {
	s.t.Helper()
	out := make([]byte, s.cache.Cap())
	s.must(s.b.Read(s.arena, 0, out))
	return out
}

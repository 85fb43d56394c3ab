package reftest

import (
	"context"
	"errors"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// testMemory: the ledger knows every byte, through sessions that come and go and scratch that grows, and is empty when
// everything is closed.
func testMemory(t *testing.T, open Open) {
	m, ids := tinyModel(tiny, quant.Layout4)
	led := new(cache.Ledger)
	b, err := open(led)
	if err != nil {
		t.Fatal(err)
	}
	own := led.Rows() // what the backend needs for itself
	e := newEngine(t, func(*cache.Ledger) (step.Backend, error) { return b, nil }, m)
	e.led = led

	var settled [cache.Kinds]cache.Row
	for round := range 3 {
		s := e.session(halfPages, 40)
		if row := led.Rows()[cache.Free]; row.Allocated != s.cache.Cap() || row.Logical != 0 {
			t.Errorf("round %d: an arena of %d bytes enters as %+v", round, s.cache.Cap(), row)
		}
		s.answer(ids)
		if got, want := allocated(led, cache.KVF16, cache.Positions, cache.Free), s.cache.Cap(); got != want {
			t.Errorf("round %d: the arena's kinds add up to %d bytes of %d", round, got, want)
		}
		s.close()
		if got := allocated(led, cache.KVF16, cache.KVF32, cache.Positions, cache.Free); got != 0 {
			t.Errorf("round %d: %d bytes of the arena are left", round, got)
		}
		if round == 0 {
			settled = led.Rows()
		} else if led.Rows() != settled {
			t.Errorf("round %d: the ledger changed:\n%v\n%v", round, settled, led.Rows())
		}
	}
	x := e.exec.Scratch(step.X)
	e.must(e.exec.Grow(20, 20))
	if e.exec.Scratch(step.X) != x {
		t.Error("Grow to what there is moved X")
	}
	// X, K and V of more rows, logits of more rows: no more, no less.
	before := led.Rows()[cache.Scratch].Allocated
	e.must(e.exec.Grow(100, 70))
	width := int64(e.width(step.X) + e.width(step.K) + e.width(step.V))
	if got, want := led.Rows()[cache.Scratch].Allocated-before, 4*(80*width+int64(6*tiny.Vocab)); got != want {
		t.Errorf("Grow allocated %d bytes more, want %d", got, want)
	}
	e.exec.Close()
	if got, want := allocated(led, cache.Scratch), own[cache.Scratch].Allocated; got != want {
		t.Errorf("after Close of the program: %d bytes of scratch, want %d", got, want)
	}
	e.must(b.Close())
	for k, row := range led.Rows() {
		if row.Logical != 0 || row.Allocated != 0 {
			t.Errorf("after Close: %d bytes of kind %d, %d logical", row.Allocated, k, row.Logical)
		}
	}
	if led.Total().Peak == 0 {
		t.Error("the ledger saw no bytes")
	}
}

func allocated(led *cache.Ledger, kinds ...cache.Kind) (sum int64) {
	rows := led.Rows()
	for _, k := range kinds {
		sum += rows[k].Allocated
	}
	return sum
}

// testErrors: wrong arguments give errors, and the backend works on.
func testErrors(t *testing.T, open Open) {
	m, ids := tinyModel(tiny, quant.Layout4)
	e := newEngine(t, open, m)
	s := e.session(halfPages, 40)
	want := s.prefill(ids, 8)
	e.must(e.exec.Grow(64, 0))

	good := step.Args{Cache: s.cache, Arena: s.arena, IDs: ids, To: 4}
	last := len(m.Program.Ops)
	for _, c := range []struct {
		name     string
		spoil    func(a *step.Args)
		from, to int
	}{
		{"ops from the end", func(*step.Args) {}, 2, 1},
		{"more ops than there are", func(*step.Args) {}, 0, last + 1},
		{"no rows", func(a *step.Args) { a.To = 0 }, 0, 1},
		{"rows before the first", func(a *step.Args) { a.From = -1 }, 0, 1},
		{"rows after the last", func(a *step.Args) { a.To = len(ids) + 1 }, 0, 1},
		{"more rows than the chunk", func(a *step.Args) { a.IDs, a.To = make([]int32, 65), 65 }, 0, 1},
		{"more rows than Grow made room for", func(a *step.Args) { a.IDs, a.From, a.To = make([]int32, 65), 1, 65 }, 0, 1},
		{"an id below the vocabulary", func(a *step.Args) { a.IDs = []int32{0, 0, 0, -1} }, 0, 1},
		{"an id above the vocabulary", func(a *step.Args) { a.IDs = []int32{0, int32(tiny.Vocab), 0, 0} }, 0, 1},
		{"positions before the table", func(a *step.Args) { a.Pos = -1 }, 1, 2},
		{"positions after the table", func(a *step.Args) { a.Pos = Positions - 3 }, 1, 2},
		{"no cache", func(a *step.Args) { a.Cache = nil }, 2, 3},
		{"no arena", func(a *step.Args) { a.Arena = 0 }, 2, 3},
		{"store without slots", func(*step.Args) {}, 3, 4},
		{"store with slots of one head", func(a *step.Args) { a.Slots = [][]uint32{{0, 1, 2, 3}} }, 3, 4},
		{"store with too few slots", func(a *step.Args) { a.Slots = [][]uint32{{0, 1, 2, 3}, {0}} }, 3, 4},
		{"store past the list", func(a *step.Args) { a.Slots = [][]uint32{{0, 1, 2, 30}, {0, 1, 2, 3}} }, 3, 4},
		{"stored rows, more than one", func(a *step.Args) { a.Stored = true }, 2, 3},
		{"more logits than there is room for", func(a *step.Args) { a.IDs, a.To, a.Logits = make([]int32, 64), 64, step.AllRows }, last - 1, last},
	} {
		a := good
		c.spoil(&a)
		if e.exec.Run(context.Background(), &a, c.from, c.to) == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := e.exec.Run(ctx, &good, 0, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if e.exec.Grow(-1, 0) == nil || e.exec.Grow(0, -1) == nil || e.exec.Grow(1<<40, 0) == nil {
		t.Error("Grow to sizes that cannot be: no error")
	}
	testBufferErrors(t, e)
	testCompileErrors(t, e)
	Compare(t, "after the errors", e.session(halfPages, 40).prefill(ids, 8), want, Tolerance{})
}

func testBufferErrors(t *testing.T, e *engine) {
	buf, err := e.b.Alloc(cache.Staging, "small", 16)
	e.must(err)
	for name, err := range map[string]error{
		"upload past the end":   e.b.Upload(buf, 9, make([]byte, 8)),
		"upload before":         e.b.Upload(buf, -1, make([]byte, 8)),
		"upload far past":       e.b.Upload(buf, 1<<62, make([]byte, 8)),
		"read past the end":     e.b.Read(buf, 16, make([]byte, 1)),
		"upload to no buffer":   e.b.Upload(0, 0, make([]byte, 1)),
		"read of a free buffer": func() error { e.b.Free(buf); return e.b.Read(buf, 0, make([]byte, 1)) }(),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	e.b.Free(buf) // again, and none at all: both are ignored
	e.b.Free(0)
	for _, size := range []int64{-1, 1 << 60} {
		if _, err := e.b.Alloc(cache.Staging, "impossible", size); err == nil {
			t.Errorf("alloc of %d bytes: no error", size)
		}
	}
}

func testCompileErrors(t *testing.T, e *engine) {
	before := e.led.Rows()
	small, err := e.b.Alloc(cache.Weights, "small", 1024)
	e.must(err)
	norm := step.Tensor{Buf: small, Rows: 1, Cols: tiny.Hidden}
	at := func(off int64, cols int) []step.Op {
		n := norm
		n.Off, n.Cols = off, cols
		return []step.Op{step.Norm{W: n}}
	}
	for name, spoil := range map[string]func(p *step.Program){
		"no chunk":              func(p *step.Program) { p.Chunk = 0 },
		"no layers":             func(p *step.Program) { p.Shape.Layers = 0 },
		"heads that don't fit":  func(p *step.Program) { p.Shape.KVHeads = 3 },
		"huge head dimension":   func(p *step.Program) { p.Shape.HeadDim = 1 << 40 },
		"odd rotation":          func(p *step.Program) { p.Shape.RotDim = 31 },
		"rotation past a head":  func(p *step.Program) { p.Shape.RotDim = 34 },
		"no RoPE table":         func(p *step.Program) { p.Rope = 0 },
		"no weights":            func(p *step.Program) { p.Ops = []step.Op{step.Norm{W: step.Tensor{Rows: 1, Cols: tiny.Hidden}}} },
		"weights past the end":  func(p *step.Program) { p.Ops = at(1024, tiny.Hidden) },
		"weights of wrong size": func(p *step.Program) { p.Ops = at(0, tiny.Hidden-1) },
		"unknown layout":        func(p *step.Program) { p.Ops = []step.Op{step.Head{W: step.Tensor{Buf: small, Layout: 99}}} },
		"layer that is none":    func(p *step.Program) { p.Ops = []step.Op{step.Attend{Layer: tiny.Layers}} },
		"project from X":        func(p *step.Program) { p.Ops = []step.Op{step.Project{In: step.X}} },
		"stack with rows left":  func(p *step.Program) { p.Ops = []step.Op{step.GateUp{Norm: norm, W: step.Stack{}}} },
	} {
		p := step.Program{Shape: tiny, Chunk: 4}
		rope, err := e.b.Alloc(cache.Aux, "RoPE", 1024)
		e.must(err)
		p.Rope = rope
		spoil(&p)
		if x, err := e.b.Compile(&p); err == nil {
			t.Errorf("compile with %s: no error", name)
			x.Close()
		}
		e.b.Free(rope)
	}
	e.b.Free(small)
	if after := e.led.Rows(); after[cache.Scratch].Allocated != before[cache.Scratch].Allocated {
		t.Errorf("failed compiles left %d bytes of scratch", after[cache.Scratch].Allocated-before[cache.Scratch].Allocated)
	}
}

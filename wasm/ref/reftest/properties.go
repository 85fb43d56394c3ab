package reftest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// tiny is the shape of the property tests.
var tiny = step.Shape{
	Layers: 2, Hidden: 64, Heads: 4, KVHeads: 2, HeadDim: 32, FFN: 96, Vocab: 70, RotDim: 32, Eps: 1e-5,
}

var (
	exactPages = pages{cache.F32, cache.F32, 8, 8}
	halfPages  = pages{cache.F16, cache.F16, 8, 8}
)

// tinyModel is the same for every call with the same arguments.
func tinyModel(s step.Shape, layouts ...quant.Layout) (*Model, []int32) {
	r := rand.New(rand.NewPCG(11, 13))
	m := NewModel(r, s, 64, layouts...)
	ids := make([]int32, 30)
	for i := range ids {
		ids[i] = int32(r.IntN(s.Vocab))
	}
	return m, ids
}

// testChunks: a prompt gives the same logits in chunks of any size.
func testChunks(t *testing.T, open Open, tol Tolerance) {
	m, ids := tinyModel(tiny, quant.Layout4)
	e := newEngine(t, open, m)
	whole := e.session(exactPages, 30).prefill(ids, len(ids))
	for _, chunk := range []int{1, 7, 16, 29} {
		Compare(t, fmt.Sprintf("chunks of %d", chunk), e.session(exactPages, 30).prefill(ids, chunk), whole, tol)
	}
}

// testDecode: decoding after a prefill, and a second prefill after that, give the logits of one prefill of everything.
func testDecode(t *testing.T, open Open, tol Tolerance) {
	m, ids := tinyModel(tiny, quant.Layout8)
	e := newEngine(t, open, m)
	v := tiny.Vocab
	whole := e.session(exactPages, 30).prefill(ids, 64)
	s := e.session(exactPages, 30)
	parts := s.prefill(ids[:11], 64)
	for _, id := range ids[11:15] {
		parts = append(parts, s.decode(id)...)
	}
	parts = append(parts, s.prefill(ids[15:28], 64)...)
	for _, id := range ids[28:] {
		parts = append(parts, s.decode(id)...)
	}
	for i := range ids {
		Compare(t, fmt.Sprintf("position %d", i), parts[i*v:][:v], whole[i*v:][:v], tol)
	}
}

// answer is the logits of a prefill and of a few decode steps after it.
func (s *session) answer(ids []int32) []float32 {
	s.t.Helper()
	logits := s.prefill(ids[:20], 64)
	for _, id := range ids[20:] {
		logits = append(logits, s.decode(id)...)
	}
	return logits
}

// testPages: the size of pages changes nothing.
func testPages(t *testing.T, open Open, tol Tolerance) {
	m, ids := tinyModel(tiny, quant.LayoutF32)
	e := newEngine(t, open, m)
	for _, f := range []cache.Format{cache.F32, cache.F16} {
		want := e.session(pages{f, f, 8, 8}, 30).answer(ids)
		for _, p := range []pages{{f, f, 1, 1}, {f, f, 2, 2}, {f, f, 3, 32}, {f, f, 8, 1}} {
			Compare(t, fmt.Sprint(p), e.session(p, 30).answer(ids), want, tol)
		}
	}
}

// testHalfPages: pages of half floats, which round by at most 1 in 2,048, change little but something.
func testHalfPages(t *testing.T, open Open, _ Tolerance) {
	m, ids := tinyModel(tiny, quant.LayoutF32)
	e := newEngine(t, open, m)
	half, exact := e.session(halfPages, 30).answer(ids), e.session(exactPages, 30).answer(ids)
	Compare(t, "half pages", half, exact, Tolerance{0.02, 0.002})
	if slices.Equal(half, exact) {
		t.Error("half pages: logits are those of f32 pages to the last bit")
	}
}

// testNeox: the two pairings of RoPE differ by an order of channels, so that a model whose rows of Q and K are reordered
// accordingly gives the same logits.
func testNeox(t *testing.T, open Open, tol Tolerance) {
	shape := tiny
	shape.RotDim = 24 // the other eight channels stay where they are
	m, ids := tinyModel(shape, quant.LayoutF32)
	want := newEngine(t, open, m).session(exactPages, 30).answer(ids)

	shape.Neox = true
	m, _ = tinyModel(shape, quant.LayoutF32)
	for _, op := range m.Program.Ops {
		qkv, ok := op.(step.QKV)
		if !ok {
			continue
		}
		w := quant.Float32s(m.Data[qkv.W[0].Off:][:qkv.W[0].Rows*shape.Hidden*4])
		for h := range shape.Heads + shape.KVHeads {
			head := w[h*shape.HeadDim*shape.Hidden:][:shape.RotDim*shape.Hidden]
			paired := slices.Clone(head)
			for i := range shape.RotDim / 2 {
				copy(head[i*shape.Hidden:][:shape.Hidden], paired[2*i*shape.Hidden:])
				copy(head[(i+shape.RotDim/2)*shape.Hidden:][:shape.Hidden], paired[(2*i+1)*shape.Hidden:])
			}
		}
	}
	got := newEngine(t, open, m).session(exactPages, 30).answer(ids)
	Compare(t, "neox", got, want, tol)
}

// testSessions: two sessions on one program, token by token in turn, each give what they give alone.
func testSessions(t *testing.T, open Open, tol Tolerance) {
	m, ids := tinyModel(tiny, quant.Layout4)
	e := newEngine(t, open, m)
	other := slices.Clone(ids)
	slices.Reverse(other)
	wantA, wantB := e.session(exactPages, 30).answer(ids), e.session(halfPages, 30).answer(other)
	a, b := e.session(exactPages, 30), e.session(halfPages, 30)
	gotA, gotB := a.prefill(ids[:20], 64), b.prefill(other[:20], 64)
	for i := 20; i < 30; i++ {
		gotA, gotB = append(gotA, a.decode(ids[i])...), append(gotB, b.decode(other[i])...)
	}
	Compare(t, "first session", gotA, wantA, tol)
	Compare(t, "second session", gotB, wantB, tol)
}

// testRollback: a session that went back to a mark goes on as if nothing had been between.
func testRollback(t *testing.T, open Open, tol Tolerance) {
	m, ids := tinyModel(tiny, quant.Layout8)
	e := newEngine(t, open, m)
	s := e.session(halfPages, 40)
	want := e.session(halfPages, 40).answer(ids)
	got := s.prefill(ids[:20], 64)
	mark, pos := s.cache.Mark(), s.pos
	s.prefill(ids[3:17], 64)
	s.cache.Restore(mark)
	s.pos = pos
	for _, id := range ids[20:] {
		got = append(got, s.decode(id)...)
	}
	Compare(t, "after going back", got, want, tol)
}

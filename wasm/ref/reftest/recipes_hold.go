package reftest

import (
	"context"
	"math"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/step"
)

// testMoves: tokens that move within their lists, and pages that move within the arena, change nothing.
func testMoves(t *testing.T, open Open, tol Tolerance) {
	for i, s := range labShapes(8) {
		geo := cache.Geometry{Key: cache.Format(i % 2), PageK: 1 + i%3, PageV: 2, Scores: true, Bound: 4}
		l := newLab(t, open, s, geo, 8, &policy.Plan{Decode: policy.Decode{Kind: policy.DecodeSums, Decay: 1}})
		l.fill(40)
		for h := range l.held {
			l.evict(h, 0.6)
		}
		decode := func() {
			t.Helper()
			a, q := l.decoded()
			in, err := l.scorer.Rows(a, 0)
			l.must(err)
			l.compareRows(in, q, &policy.Decode{Kind: policy.DecodeSums, Decay: 1}, tol)
			for h := range l.held { // beside dead slots too
				l.checkBounds(l.readArena(), h, int(a.Slots[h][0])/geo.Bound)
			}
		}
		decode()
		for h := range l.held {
			moves := l.cache.Compact(0, h)
			l.must(l.scorer.Move(l.at(nil), 0, h, moves))
			l.cache.Trim(0, h)
			for page := range l.cache.List(0, h).Bounds {
				l.checkBounds(l.readArena(), h, page)
			}
		}
		decode()
		moves := l.cache.Gather()
		if len(moves) == 0 {
			t.Error("no page had to move")
		}
		l.must(l.scorer.Relocate(l.at(nil), moves))
		decode()
	}
}

// testFollowing: what a plan takes is in the ledger and goes with it; what makes no sense is refused.
func testFollowing(t *testing.T, open Open, _ Tolerance) {
	geo := cache.Geometry{PageK: 8, PageV: 8, Scores: true, Sums: true}
	l := newLab(t, open, tiny1, geo, 8, nil)
	l.must(l.exec.Grow(20, 0))
	before := l.led.Rows()[cache.Scratch]
	for _, p := range []policy.Plan{
		{Score: policy.Score{Kind: policy.ScoreWindow, Window: 5}},
		{Score: policy.Score{Kind: policy.ScoreColumns}, Select: policy.Select{Kind: policy.SelectCritical}},
		{Score: policy.Score{Kind: policy.ScoreExpected, Covariance: true}},
		{Store: policy.Store{Rank: true}},
	} {
		l.must(l.scorer.Follow(&p))
		a, _ := l.observed(20, 8)
		_, err := l.scorer.Input(a, 0)
		l.must(err)
		if during := l.led.Rows()[cache.Scratch]; during.Allocated <= before.Allocated {
			t.Errorf("%+v: %d bytes of scratch, %d without a plan", p, during.Allocated, before.Allocated)
		}
		l.must(l.scorer.Follow(nil))
		if after := l.led.Rows()[cache.Scratch]; after.Allocated != before.Allocated || after.Logical != before.Logical {
			t.Errorf("%+v: %d bytes of scratch are left, want %d", p, after.Allocated, before.Allocated)
		}
	}
	l.refusesPlans()
	l.must(l.scorer.Follow(&policy.Plan{Score: policy.Score{Kind: policy.ScoreExpected, Window: 3}}))
	l.observed(20, 8)
	l.exec.Close()
	l.must(l.b.Close())
	if left := l.led.Rows()[cache.Scratch]; left.Allocated != 0 {
		t.Errorf("%d bytes of scratch are left when all is closed", left.Allocated)
	}
}

// tiny1 is tiny with one layer.
var tiny1 = func() step.Shape { s := tiny; s.Layers = 1; return s }()

// refusesPlans tries calls that make no sense.
func (l *lab) refusesPlans() {
	l.t.Helper()
	a := l.at(make([]int32, 4))
	a.To = 4
	_, input := l.scorer.Input(a, 0)
	_, rows := l.scorer.Rows(a, 0)
	for name, err := range map[string]error{
		"observe": l.scorer.Observe(a, 0), "input": input, "rows": rows,
		"sums": l.scorer.PutSums(a, 0, 0, nil, nil), "absorb": l.scorer.Absorb(a, 0, 0, nil, []int32{0}),
		"a window below none": l.scorer.Follow(&policy.Plan{Score: policy.Score{Window: -1}}),
		"a huge window":       l.scorer.Follow(&policy.Plan{Score: policy.Score{Window: math.MaxInt}}),
		"means of keys without positions": l.scorer.Follow(
			&policy.Plan{Store: policy.Store{Rank: true, Virtual: true}}),
	} {
		if err == nil {
			l.t.Errorf("without a plan: %s: no error", name)
		}
	}
	l.must(l.scorer.Follow(&policy.Plan{Store: policy.Store{Virtual: true}}))
	l.scorer.Begin(0)
	one := []uint32{0}
	_, input = l.scorer.Input(a, 0)
	_, rows = l.scorer.Rows(a, 0)
	past := *a
	past.From = 1
	for name, err := range map[string]error{
		"input before its rows":   input,
		"rows of a prompt":        rows,
		"rows out of order":       l.scorer.Observe(&past, 0),
		"another layer":           l.scorer.Observe(a, 1),
		"sums of a slot too far":  l.scorer.PutSums(a, 0, 0, one, []float32{1}),
		"more sums than slots":    l.scorer.PutSums(a, 0, 0, nil, []float32{1}),
		"sums of no head":         l.scorer.PutSums(a, 0, 2, nil, nil),
		"absorb without a record": l.scorer.Absorb(a, 0, 0, nil, []int32{0}),
		"move past the list":      l.scorer.Move(a, 0, 0, []cache.Move{{From: 0, To: 9}}),
		"relocate past the end":   l.scorer.Relocate(a, []cache.PageMove{{From: 0, To: 8, Words: math.MaxUint32}}),
	} {
		if err == nil {
			l.t.Errorf("%s: no error", name)
		}
	}
	l.must(l.scorer.Follow(&policy.Plan{Store: policy.Store{Page: 4, Read: 8}}))
	a.To, a.IDs, a.Stored = 1, a.IDs[:1], true
	if l.exec.Run(context.Background(), a, 2, 3) == nil {
		l.t.Error("pages are read whose bounds nobody keeps")
	}
	l.must(l.scorer.Follow(nil))
}

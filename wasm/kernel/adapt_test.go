package kernel_test

import (
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/cache/policy/stage"
	"kvlens/wasm/gpu"
	"kvlens/wasm/kernel"
	"kvlens/wasm/quant"
)

// testAdapt: how many of a layer's highest scores each KV head has is what its twin counts, and in kvpress' form with what
// is safe.
func testAdapt(t *testing.T, lib *kernel.Library, dev gpu.Device) {
	r := newKeepRig(t, lib, dev, cache.Geometry{})
	s := &keepShape
	const stored, next, stride = 5, 6, 148
	r.fill(next, next) // of which one has left
	cases := []struct {
		rows           []int
		oldest, newest int
		total          int
		normalise      bool
		press          bool
		alpha          float64
		pins           []int32
	}{
		{rows: []int{20, 13}, oldest: 1, newest: 2, total: 14},
		{rows: []int{20, 13}, oldest: 1, newest: 2, total: 14, normalise: true},
		{rows: []int{140, 97}, newest: 8, total: 100, normalise: true},
		{rows: []int{140, 143}, newest: 8, total: 101},
		{rows: []int{3, 3}, total: 16},
		{rows: []int{20, 13}, oldest: 2, newest: 2, total: 15, press: true, alpha: 0.5},
		{rows: []int{140, 97}, newest: 8, total: 100, press: true, alpha: 0.2},
		{rows: []int{140, 97}, newest: 8, total: 100, press: true},
		{rows: []int{20, 13}, oldest: 1, newest: 2, total: 14, pins: []int32{0, 3, 10, 16, 24}},
		{rows: []int{20, 13}, oldest: 2, newest: 2, total: 15, press: true, alpha: 0.5, pins: []int32{4, 17}},
	}
	for i := range 4 * len(cases) {
		c := cases[i%len(cases)]
		worth := r.worth(s.KVHeads * stride)
		for i, x := range worth {
			worth[i] = max(x, 0) // as attention is
			if i >= stride && c.total != 14 {
				worth[i] /= 3
			}
		}
		var free [][]float32
		for h := range s.KVHeads {
			n, l := stored+c.rows[h], r.list(h)
			var pos []int32
			for _, slot := range l.Order() {
				pos = append(pos, int32(l.At[slot]))
			}
			for row := range c.rows[h] {
				pos = append(pos, int32(next+row))
			}
			guarded := make([]bool, n)
			stage.Pinned(guarded, pos, c.pins, c.oldest, c.newest, n)
			var scores []float32
			oldest := 0
			for i, g := range guarded {
				if int(pos[i]) < c.oldest {
					oldest++
				}
				if x := worth[h*stride+i]; !g {
					scores = append(scores, x)
				} else if c.press {
					scores = append(scores, 1e30)
				}
			}
			free = append(free, scores)
			*r.quota(h) = kernel.Quota{
				Live: stored, Slots: l.Slots, New: c.rows[h], Stride: stride, Limit: n, Oldest: oldest, Newest: c.newest,
			}
		}
		each := c.total / s.KVHeads
		q := r.quota(0)
		q.Total, q.Each = c.total, each
		contest := stage.NewContest(c.total, s.KVHeads, c.alpha, c.normalise, true, c.press)
		q.Total, q.Safe = contest.Total, contest.Safe
		want := contest.Highest(free)
		r.pins = c.pins
		r.upload("lists", quant.Bytes(r.lists()))
		r.upload("ranks", quant.Bytes(r.ranks()))
		r.upload("session", quant.Bytes(r.session(next, 1)))
		r.upload("arena", r.arena)
		r.upload("worth", quant.Bytes(worth))
		r.scratch(s.KVHeads, "counts")
		r.upload("stays", make([]byte, 4*(s.KVHeads+1)*stride))
		p := &policy.Plan{Heads: policy.Heads{Kind: policy.HeadsAdaptive, Normalise: c.normalise, KVPress: c.press}}
		r.run(nil, r.lib.Selection(p, s, &r.geo, keepLayer, false).Share...)
		got := r.words("counts", s.KVHeads)
		for h, n := range want {
			if got[h] != uint32(n) {
				t.Errorf("%d: %v, want %v", i, got, want)
				break
			}
		}
	}
}

// testRemember: noted is what the tokens that stay are worth, in the order of their positions, of a prompt and of what was
// noted of it.
func testRemember(t *testing.T, lib *kernel.Library, dev gpu.Device) {
	r := newKeepRig(t, lib, dev, cache.Geometry{})
	heads := keepShape.KVHeads
	r.fill(12, 14)
	x := r.selection(&policy.Plan{}, 140, 1, 2, []int{130, 40})
	stride := r.quota(0).Stride
	r.scratch(heads*keepRoom, "earlier")
	r.run(nil, kernel.Remember(keepLayer, heads, false))
	want := make([][]float32, heads)
	check := func(what string) {
		got := quant.Float32s(quant.Bytes(r.words("earlier", heads*keepRoom)))
		for h, row := range want {
			if !slices.Equal(got[h*keepRoom:][:len(row)], row) {
				t.Errorf("%s: list %d is worth %v, want %v", what, h, got[h*keepRoom:][:len(row)], row)
			}
		}
	}
	for h, kept := range x.kept {
		for _, i := range kept {
			want[h] = append(want[h], x.worth[h*stride+int(i)])
		}
	}
	check("a prompt")
	kept := make([]uint32, heads*keepRoom)
	for h, row := range want {
		var stay []float32
		for i, w := range row {
			if i%3 != h {
				kept[h*keepRoom+len(stay)] = uint32(i)
				stay = append(stay, w)
			}
		}
		want[h] = stay
		*r.quota(h) = kernel.Quota{Live: len(stay), Stride: keepRoom}
	}
	r.upload("kept", quant.Bytes(kept))
	r.upload("lists", quant.Bytes(r.lists()))
	r.run(nil, kernel.Remember(keepLayer, heads, true))
	check("again")
}

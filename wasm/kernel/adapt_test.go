package kernel_test

import (
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
	const stored, stride = 5, 148
	cases := []struct {
		rows           []int
		oldest, newest int
		total          int
		normalise      bool
		press          bool
		alpha          float64
	}{
		{rows: []int{20, 13}, oldest: 1, newest: 2, total: 14},
		{rows: []int{20, 13}, oldest: 1, newest: 2, total: 14, normalise: true},
		{rows: []int{140, 97}, newest: 8, total: 100, normalise: true},
		{rows: []int{140, 143}, newest: 8, total: 101},
		{rows: []int{3, 3}, total: 16},
		{rows: []int{20, 13}, oldest: 2, newest: 2, total: 15, press: true, alpha: 0.5},
		{rows: []int{140, 97}, newest: 8, total: 100, press: true, alpha: 0.2},
		{rows: []int{140, 97}, newest: 8, total: 100, press: true},
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
			n := stored + c.rows[h]
			row := worth[h*stride:][:n]
			scores := append([]float32(nil), row[c.oldest:n-c.newest]...)
			if c.press {
				for range c.oldest + c.newest {
					scores = append(scores, 1e30)
				}
			}
			free = append(free, scores)
			*r.quota(h) = kernel.Quota{Live: stored, New: c.rows[h], Stride: stride, Oldest: c.oldest, Newest: c.newest}
		}
		each := c.total / s.KVHeads
		q := r.quota(0)
		q.Total, q.Each = c.total, each
		contest := stage.NewContest(c.total, s.KVHeads, c.alpha, c.normalise, true, c.press)
		q.Total, q.Safe = contest.Total, contest.Safe
		want := contest.Highest(free)
		r.upload("lists", quant.Bytes(r.lists()))
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

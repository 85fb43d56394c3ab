package kernel_test

import (
	"math"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/cache/policy/stage"
	"kvlens/wasm/gpu"
	"kvlens/wasm/kernel"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
	"kvlens/web/lab/golden"
)

// newGoldenRig holds a layer of the tiny model's prompt 0, or its first rows, of which nothing is stored. Originals that give
// every query head its own keys have as many KV heads.
func newGoldenRig(t *testing.T, lib *kernel.Library, dev gpu.Device, g *golden.TinyLayer, kvHeads, rows int) *scoreRig {
	t.Helper()
	const d = golden.TinyHeadDim
	s := step.Shape{Layers: 2, Heads: golden.TinyHeads, KVHeads: kvHeads, HeadDim: d, RotDim: d, Neox: true}
	r := openScoreRig(t, lib, dev, s, cache.Geometry{PageK: 2, PageV: 4, Scores: true}, 128)
	r.rows, r.room = rows, 128
	r.c = kernel.Candidates{Stored: make([][]uint32, kvHeads), New: r.rows, Same: true, Slots: r.rows}
	width := kvHeads * d
	kv := make([]float32, 2*r.rows*width)
	weights := make([]float32, kvHeads*r.c.Stride())
	for h := range kvHeads {
		of := h * golden.TinyKVHeads / kvHeads
		c := policy.Candidates{K: slices.Concat(g.K[of][:rows]...), V: slices.Concat(g.V[of][:rows]...), OutL1: g.OutL1[of][:rows]}
		for row := range r.rows {
			c.Pos = append(c.Pos, int32(row))
			copy(kv[row*width+h*d:], g.K[of][row])
			copy(kv[(r.rows+row)*width+h*d:], g.V[of][row])
		}
		r.heads, r.acc = append(r.heads, c), append(r.acc, make([]float32, r.rows))
		copy(weights[h*r.c.Stride():], c.OutL1)
	}
	for h := range s.Heads {
		r.c.Scored = append(r.c.Scored, h)
	}
	for row := range r.rows {
		for h := range s.Heads {
			r.q = append(r.q, g.Q[h][row]...)
		}
	}
	r.raw = make([]float32, len(r.q)) // only the twin asks for them
	r.turns(10000, r.rows+512)
	for name, x := range map[string][]float32{"kv": kv, "rope": r.rope, "weights": weights} {
		r.upload(name, quant.Bytes(x))
	}
	r.upload("arena", r.arena)
	r.upload("session", quant.Bytes(kernel.ScoringSession(r.cache, 0, 0, r.rows, r.rows*width, r.room)))
	r.upload("worth", quant.Bytes(make([]float32, kvHeads*max(r.c.Stride(), r.room)+128)))
	return r
}

// scores scores the layer on the device, and gives each KV head's; nil where position alone decides.
func (r *scoreRig) scores(p *policy.Plan, tables *policy.Tables) [][]float32 {
	r.t.Helper()
	if p.Score.Kind == policy.ScoreNone {
		return nil
	}
	r.worth(p, tables)
	var rows [][]float32
	for row := range slices.Chunk(r.read("worth", r.shape.KVHeads*r.c.Stride()), r.c.Stride()) {
		rows = append(rows, row[:r.rows])
	}
	return rows
}

// counted is what a policy.Run asks of scores that it does not see.
type counted struct {
	*scoreRig
	p *policy.Plan
}

// Unrest is asked of layers that share a budget, of which there are none here.
func (c counted) Unrest(int) (entropy, variance float64, err error) { return 0, 0, nil }

// Highest counts on the device.
func (c counted) Highest(_ int, contest *policy.Contest) ([]int, error) {
	r, quotas := c.scoreRig, make([]kernel.Quota, len(contest.Guards))
	for h, g := range contest.Guards {
		quotas[h] = kernel.Quota{Limit: g.Limit, Oldest: g.Oldest, Newest: g.Newest, Total: contest.Total, Each: contest.Each, Safe: contest.Safe}
	}
	r.tell(quotas)
	r.upload("counts", make([]byte, 4*len(quotas)))
	r.run(r.lib.Scoring(c.p, &r.shape, &r.geo, scoreLayer), r.lib.Selection(c.p, &r.shape, &r.geo, scoreLayer, false).Share)
	counts := make([]uint32, len(quotas))
	r.must(r.dev.Read(r.bufs["counts"], 0, quant.Bytes(counts)))
	won := make([]int, len(counts))
	for h, n := range counts {
		won[h] = int(n)
	}
	return won, nil
}

// keeps selects on the device as many tokens as quotas say.
func (r *scoreRig) keeps(p *policy.Plan, quotas []policy.Quota) [][]int32 {
	r.t.Helper()
	told := make([]kernel.Quota, len(quotas))
	for h, q := range quotas {
		told[h] = kernel.Quota{Limit: q.Limit, Oldest: q.Oldest, Newest: q.Newest, Lead: q.Lead}
	}
	r.tell(told)
	return r.choose(r.lib.Selection(p, &r.shape, &r.geo, scoreLayer, false), r.lib.Scoring(p, &r.shape, &r.geo, scoreLayer))
}

// guard is the quota of a list of which limit stay.
func (r *scoreRig) guard(p *policy.Plan, limit int) policy.Quota {
	q := policy.Quota{Limit: min(limit, r.rows)}
	recent := p.Protect.Recent
	if p.Score.Kind == policy.ScoreNone || scoreLayer < p.Score.SkipLayers {
		recent = limit
	}
	q.Oldest, q.Newest = stage.Guard(r.rows, min(p.Protect.Sinks, r.rows), recent, limit)
	return q
}

// compareKept compares what was kept with a reference's set: exactly where the cut is clear; at a tie the same number, of
// which none scores below one of the reference's by more than 10⁻⁶.
func compareKept(t *testing.T, n *golden.Counter, what string, got, want []int32, clear bool, scores []float32, p *policy.Plan) {
	t.Helper()
	n.Case(1)
	if clear || scores == nil {
		if !slices.Equal(got, want) {
			t.Errorf("%s: kept %v, want %v", what, got, want)
		}
		return
	}
	n.Tie(1)
	if len(got) != len(want) {
		t.Errorf("%s: kept %d, want %d", what, len(got), len(want))
		return
	}
	lowest := float32(math.Inf(1))
	free := func(i int32) bool { return int(i) >= p.Protect.Sinks && int(i) < len(scores)-p.Protect.Recent }
	for _, i := range want {
		if free(i) {
			lowest = min(lowest, scores[i])
		}
	}
	for _, i := range got {
		if free(i) && scores[i] < lowest-1e-6 {
			t.Errorf("%s: kept %d with %v, the reference's lowest is %v", what, i, scores[i], lowest)
		}
	}
}

package kernel_test

import (
	"math"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/cache/policy/stage"
	"kvlens/wasm/gpu/gputest"
	"kvlens/wasm/kernel"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref/reftest"
)

// scoreTolerance is that of sums of a few exponentials of f32 logits; gamma multiplies it in indicators.
var scoreTolerance = reftest.Tolerance{Abs: 2e-5, Rel: 1e-4}

const (
	windowKind, indicatorKind, columnsKind = policy.ScoreWindow, policy.ScoreIndicator, policy.ScoreColumns
	normKind, keyDiffKind, expectedKind    = policy.ScoreNorm, policy.ScoreKeyDiff, policy.ScoreExpected
)

// scorePlans are plans that between them take every branch of the kernels.
var scorePlans = map[string]policy.Plan{
	"window, smoothed":                {Score: policy.Score{Kind: windowKind, Window: 4}, Pool: policy.Pool{Kind: policy.PoolAvg, Size: 5}},
	"window, mean, highest after max": {Score: policy.Score{Kind: windowKind, Window: 3, Mean: true}, Pool: policy.Pool{Kind: policy.PoolMax, Size: 7, After: true}, Reduce: policy.Reduce{Kind: policy.ReduceMax}},
	"window, even size, sum":          {Score: policy.Score{Kind: windowKind, Window: 2}, Pool: policy.Pool{Kind: policy.PoolAvg, Size: 4, After: true}, Reduce: policy.Reduce{Kind: policy.ReduceSum}},
	"one query, layer":                {Score: policy.Score{Kind: windowKind, Window: 1}, Reduce: policy.Reduce{Kind: policy.ReduceLayer}},
	"two heads of the layer":          {Score: policy.Score{Kind: windowKind, Window: 4, Heads: 2}, Pool: policy.Pool{Kind: policy.PoolMax, Size: 3}, Reduce: policy.Reduce{Kind: policy.ReduceLayer}},
	"one head, by group":              {Score: policy.Score{Kind: windowKind, Window: 4, Heads: 1}, Pool: policy.Pool{Kind: policy.PoolMax, Size: 3}},
	"whole chunks":                    {Score: policy.Score{Kind: windowKind, Window: 4}, Pool: policy.Pool{Kind: policy.PoolAvg, Size: 3}, Select: policy.Select{Kind: policy.SelectChunks, Chunk: 4}},
	"indicator":                       {Score: policy.Score{Kind: indicatorKind, Window: 5, Gamma: 20}, Pool: policy.Pool{Kind: policy.PoolAvg, Size: 3}},
	"indicator of one query":          {Score: policy.Score{Kind: indicatorKind, Window: 1, Gamma: 20}},
	"indicator of two queries":        {Score: policy.Score{Kind: indicatorKind, Window: 2, Gamma: 20}},
	"columns":                         {Score: policy.Score{Kind: columnsKind}, Reduce: policy.Reduce{Kind: policy.ReduceSum}},
	"columns by query":                {Score: policy.Score{Kind: columnsKind, PerQuery: true}, Pool: policy.Pool{Kind: policy.PoolAvg, Size: 3}},
	"norm":                            {Score: policy.Score{Kind: normKind}},
	"norm of whole chunks":            {Score: policy.Score{Kind: normKind}, Select: policy.Select{Kind: policy.SelectChunks, Chunk: 4}},
	"keydiff of whole chunks":         {Score: policy.Score{Kind: keyDiffKind}, Select: policy.Select{Kind: policy.SelectChunks, Chunk: 4}},
	"keydiff":                         {Score: policy.Score{Kind: keyDiffKind}},
	"expected":                        {Score: policy.Score{Kind: expectedKind, Future: 5}, Protect: policy.Protect{Sinks: 2}},
	"expected, covariance and values": {Score: policy.Score{Kind: expectedKind, Future: 7, Covariance: true, ValueNorm: true, Epsilon: .02}, Protect: policy.Protect{Sinks: freshPos + 2}},
}

// Kernels score a layer as the plan's twins do: over pages and new rows, lists alike and different, formats of pages, and
// both variants of what threads share.
func TestScoring(t *testing.T) {
	dev := gputest.Open(t)
	for _, c := range []struct {
		name                      string
		plain, alike, empty, neox bool
		format                    cache.Format
	}{
		{name: "plain, half pages", plain: true, format: cache.F16},
		{name: "lanes, float pages", alike: true, neox: true, format: cache.F32},
		{name: "plain, nothing stored", plain: true, empty: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			lib := newLibrary(dev)
			lib.Plain = c.plain
			for name, p := range scorePlans {
				r := newScoreRig(t, lib, dev, c.format, c.alike, c.empty, c.neox)
				r.score(name, &p)
				r.close()
			}
		})
	}
}

// score runs a plan on the device and compares the layer's scores with the twins'.
func (r *scoreRig) score(name string, p *policy.Plan) {
	r.t.Helper()
	s := &r.shape
	tables := &policy.Tables{Semantic: [][]float32{make([]float32, s.Heads), {.1, .5, .2, .1, .1, .9}}}
	in := r.worth(p, tables)
	run, err := policy.NewRun(p, r.policyShape(), policy.Budget{Tokens: 1000}, tables)
	r.must(err)
	run.Prompt(r.rows)
	_, err = run.Layer(scoreLayer, in, policy.GoLoops)
	r.must(err)
	stride := r.c.Stride()
	got := r.read("worth", s.KVHeads*stride)
	for h, want := range run.Scores(scoreLayer) {
		row := got[h*stride:][:stride]
		reftest.Compare(r.t, name, row[:len(want)], want, scoreTolerance)
		for _, v := range row[len(want):] {
			if v != kernel.Invalid {
				r.t.Errorf("%s: %v beyond the candidates", name, v)
			}
		}
	}
	if p.Score.Kind == indicatorKind {
		r.totals(name, p, in)
	}
}

func (r *scoreRig) policyShape() policy.Shape {
	s := &r.shape
	return policy.Shape{Layers: s.Layers, Heads: s.Heads, KVHeads: s.KVHeads, HeadDim: s.HeadDim}
}

// worth scores the layer on the device, and gives what the twins look at.
func (r *scoreRig) worth(p *policy.Plan, tables *policy.Tables) *policy.Input {
	r.t.Helper()
	s := &r.shape
	x := r.lib.Scoring(p, s, &r.geo, scoreLayer)
	in := &policy.Input{Candidates: r.heads}
	width := s.Heads * s.HeadDim
	if p.Score.Heads > 0 {
		r.c.Scored = tables.SemanticOrder(scoreLayer)[:min(p.Score.Heads, s.Heads)]
	}
	switch p.Score.Kind {
	case windowKind, indicatorKind:
		w := p.Score.Window
		in.Queries = r.q[(r.rows-w)*width:]
		// The buffer of queries goes round: the first of them is its last row.
		r.c.Queries, r.c.FirstRow, r.c.First, r.c.Around = w, r.rows-w, w, w+1
		ring := append(slices.Clone(in.Queries[width:]), r.draw(width)...)
		r.upload("q", quant.Bytes(append(ring, in.Queries[:width]...)))
	case columnsKind:
		in.Columns = r.columns(x)
	case expectedKind:
		in.Spread = r.spread(x, p)
	}
	r.run(x, x.Input)
	return in
}

// columns sums the attention of all rows in two chunks, on the device and by the twin. The chunks' own attention leaves what
// it takes.
func (r *scoreRig) columns(x *kernel.Scoring) [][]float32 {
	s := &r.shape
	width := s.Heads * s.HeadDim
	for _, c := range [][2]int{{0, 4}, {4, r.rows}} {
		r.upload("q", quant.Bytes(r.q[c[0]*width:c[1]*width]))
		r.c.Queries, r.c.FirstRow, r.c.First, r.c.Around = c[1]-c[0], c[0], 0, c[1]-c[0]
		r.attend(x, c[0], c[1], "gone")
		r.run(x, x.Observe)
	}
	out := make([][]float32, s.Heads)
	for h := range out {
		kv := h / (s.Heads / s.KVHeads)
		k := r.heads[kv].K
		out[h] = slices.Clone(r.acc[kv])
		stage.Attention(stage.Go{}, out[h], make([]float32, len(out[h])), r.q[h*s.HeadDim:], width, r.rows, k, s.HeadDim)
	}
	return out
}

// spread sums queries in two chunks on the device, and by its definition. Rows whose position is among the sinks are left
// out: two of them in one of the plans.
func (r *scoreRig) spread(x *kernel.Scoring, p *policy.Plan) *policy.Spread {
	s, d := &r.shape, r.shape.HeadDim
	width := s.Heads * d
	skip := max(0, p.Protect.Sinks-r.first)
	for _, c := range [][2]int{{0, 1}, {1, 5}, {5, r.rows}} {
		r.upload("q", quant.Bytes(r.q[c[0]*width:c[1]*width]))
		r.upload("session", quant.Bytes(kernel.ScoringSession(r.cache, r.first+c[0], c[0], c[1]-c[0], r.rows*s.KVHeads*d, r.room)))
		r.c.Seen = max(0, c[0]-skip)
		r.run(x, x.Observe)
	}
	r.c.Seen, r.c.Queries, r.c.FirstRow = r.rows-skip, 1, r.rows-1
	rope := func(pos int) []float32 { return r.turn(pos).CosSin }
	mean := stage.MeanRotation(rope, s.Neox, r.first+r.rows, p.Score.Future)
	r.upload("turn", quant.Bytes(mean.CosSin))
	out := &policy.Spread{N: r.rows - skip, Mean: make([]float32, width), Cov: make([]float32, width*d), Rope: rope, Neox: s.Neox}
	each := func(do func(at int, q []float32)) {
		for row := skip; row < r.rows; row++ {
			for h := range s.Heads {
				do(h, r.raw[(row*s.Heads+h)*d:][:d])
			}
		}
	}
	part := 1 / float32(out.N)
	each(func(h int, q []float32) {
		for c, v := range q {
			out.Mean[h*d+c] += v * part
		}
	})
	each(func(h int, q []float32) {
		for i := range d * d {
			out.Cov[h*d*d+i] += (q[i/d] - out.Mean[h*d+i/d]) * (q[i%d] - out.Mean[h*d+i%d]) * part
		}
	})
	return out
}

// totals compares a layer's entropy and variance, which the host adds up from parts.
func (r *scoreRig) totals(name string, p *policy.Plan, in *policy.Input) {
	r.t.Helper()
	s := &r.shape
	var got, want [2]float64
	got[0], got[1] = r.unrest()
	for h := range s.Heads {
		k := r.heads[h/(s.Heads/s.KVHeads)].K
		n := len(k) / s.HeadDim
		out, row := make([]float32, n-p.Score.Window), make([]float32, n)
		e, v := stage.Indicator(stage.Go{}, out, row, make([]float32, n), make([]float32, n), in.Queries[h*s.HeadDim:],
			s.Heads*s.HeadDim, p.Score.Window, k, s.HeadDim, p.Score.Gamma)
		want[0], want[1] = want[0]+e, want[1]+v
	}
	for i, what := range []string{"entropy", "variance"} {
		if !(math.Abs(got[i]-want[i]) <= 1e-5+1e-4*want[i]) {
			r.t.Errorf("%s: %s %v, want %v", name, what, got[i], want[i])
		}
	}
}

// A layer of any method's prompt in one chunk is scored by at most four dispatches, and a step of decoding by at most two.
func TestScoringDispatches(t *testing.T) {
	geo := cache.Geometry{Layers: 2, KVHeads: 2, HeadDim: scoreShape.HeadDim}
	for _, m := range policy.Methods() {
		if m.Wrapper {
			continue
		}
		r := policy.Recipe{Method: m.Name}
		p, err := r.Plan()
		if err != nil {
			t.Fatal(err)
		}
		x := new(kernel.Library).Scoring(p, &scoreShape, &geo, scoreLayer)
		prompt, step := len(x.Observe)+len(x.Input), len(x.Query)+len(x.Row)
		scored := p.Score.Kind != policy.ScoreNone && p.Score.Kind != policy.ScoreRandom && scoreLayer >= p.Score.SkipLayers
		if prompt > 4 || step > 2 || scored != (prompt > 0) {
			t.Errorf("%s: %d dispatches for a prompt's layer, %d for a step's", m.Name, prompt, step)
		}
	}
}

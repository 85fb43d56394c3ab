package reftest

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
)

// testRecipes runs the tests of step.Scorer, where the backend is one. What they compare with is computed from the
// backend's own Q, K and V, so that the tolerance is that of float32 for every backend.
func testRecipes(t *testing.T, open Open) {
	e := newEngine(t, open, NewModel(rand.New(rand.NewPCG(1, 1)), tiny, 4, quant.LayoutF32))
	if _, ok := e.exec.(step.Scorer); !ok {
		t.Skip("this backend follows no plans")
	}
	tol := Tolerance{2e-5, 2e-5}
	for _, p := range []struct {
		name string
		test func(*testing.T, Open, Tolerance)
	}{
		{"Input", testInput},
		{"Rows", testRows},
		{"Sums", testSums},
		{"Dropped", testDropped},
		{"Ranks", testRanks},
		{"Compensation", testCompensation},
		{"PagesRead", testPagesRead},
		{"Moves", testMoves},
		{"Following", testFollowing},
	} {
		t.Run(p.name, func(t *testing.T) { p.test(t, open, tol) })
	}
}

// token is what a list holds of one token.
type token struct {
	pos  int
	k, v []float32
	acc  float32
}

// lab is a session of one layer under a plan, and what its lists hold by KV head in the order of positions.
type lab struct {
	*session
	scorer step.Scorer
	r      *rand.Rand
	held   [][]token
	group  int
}

// labShapes are random, the same every time.
func labShapes(n int) (shapes []step.Shape) {
	r := rand.New(rand.NewPCG(23, 29))
	for i := range n {
		kv, d := 1+r.IntN(3), []int{8, 32, 64, 6, 40}[i%5]
		shapes = append(shapes, step.Shape{
			Layers: 1, KVHeads: kv, Heads: kv * (1 + r.IntN(4)), HeadDim: d, Hidden: 5 + r.IntN(90), FFN: 8, Vocab: 50,
			RotDim: []int{d, d, d / 2 &^ 1, 0}[r.IntN(4)], Neox: r.IntN(2) == 0, Eps: 1e-5,
		})
	}
	return shapes
}

// newLab opens a session whose model has one layer; its geometry may ask for more than keys and values.
func newLab(t *testing.T, open Open, s step.Shape, geo cache.Geometry, chunk int, p *policy.Plan) *lab {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(s.HeadDim), uint64(s.Hidden)))
	e := newEngine(t, open, NewModel(r, s, chunk, quant.LayoutF32))
	geo.Layers, geo.KVHeads, geo.HeadDim = 1, s.KVHeads, s.HeadDim
	l := &lab{session: e.sessionOf(geo, geo.FullBytes(300)+2), r: r, group: s.Heads / s.KVHeads}
	l.scorer = e.exec.(step.Scorer)
	l.must(l.b.Upload(l.arena, 0, bytes.Repeat([]byte{0x7F}, int(l.cache.Cap())))) // an arena that was in use: no numbers
	l.must(l.scorer.Follow(p))
	l.held = make([][]token, s.KVHeads)
	return l
}

// fill gives every list about n tokens that no program computed, some of them in slots of others that left before.
func (l *lab) fill(n int) {
	l.t.Helper()
	arena := l.readArena()
	geo := l.cache.Geometry()
	for h := range l.held {
		var pos []uint32
		for p := range uint32(2 * n) {
			if l.r.IntN(2) == 0 {
				pos = append(pos, p)
			}
		}
		for _, part := range [][]uint32{pos[:len(pos)/2], pos[len(pos)/2:]} {
			slots, err := l.cache.Put(0, h, part)
			l.must(err)
			p := ref.Pages{Arena: arena, List: l.cache.List(0, h), Geo: geo}
			for i, slot := range slices.Clone(slots) {
				randomLane(l.r, geo.Key, p.Key(int(slot)))
				randomLane(l.r, geo.Value, p.Value(int(slot)))
				*p.Position(int(slot)) = part[i]
			}
			for _, slot := range slices.Clone(l.cache.List(0, h).Order()) {
				if l.r.IntN(4) == 0 {
					l.cache.Evict(0, h, []uint32{slot})
				}
			}
		}
		l.held[h] = l.stored(arena, h)
	}
	l.must(l.b.Upload(l.arena, 0, arena))
	l.pos = 2 * n
	if !geo.Scores {
		return
	}
	for h, held := range l.held {
		sums := make([]float32, len(held))
		for i := range sums {
			sums[i] = 3 * l.r.Float32()
			held[i].acc = sums[i]
		}
		l.must(l.scorer.PutSums(l.at(nil), 0, h, l.cache.List(0, h).Order(), sums))
	}
}

// stored reads a list's tokens.
func (s *session) stored(arena []byte, head int) (out []token) {
	p := ref.Pages{Arena: arena, List: s.cache.List(0, head), Geo: s.cache.Geometry()}
	for _, slot := range p.List.Order() {
		tok := token{pos: int(p.List.At[slot])}
		tok.k = lane(p.Geo.Key, p.Key(int(slot)))
		tok.v = lane(p.Geo.Value, p.Value(int(slot)))
		out = append(out, tok)
	}
	return out
}

func lane(f cache.Format, lane []byte) []float32 {
	if f == cache.F32 {
		return slices.Clone(quant.Float32s(lane))
	}
	var out []float32
	for _, h := range quant.Uint16s(lane) {
		out = append(out, quant.Half(h))
	}
	return out
}

func (l *lab) at(ids []int32) *step.Args {
	return &step.Args{Cache: l.cache, Arena: l.arena, IDs: ids, Pos: l.pos}
}

// observed computes keys, values and attention of n random rows, chunk by chunk, and returns their queries.
func (l *lab) observed(n, chunk int) (a *step.Args, q []float32) {
	l.t.Helper()
	l.must(l.exec.Grow(n, 0))
	l.must(l.b.Upload(l.exec.Scratch(step.X), 0, quant.Bytes(normal(l.r, n*l.width(step.X)))))
	a = l.at(make([]int32, n))
	l.scorer.Begin(0)
	for a.From = 0; a.From < n; a.From = a.To {
		a.To = min(a.From+chunk, n)
		l.run(a, 1, 3)
		l.must(l.scorer.Observe(a, 0))
		q = append(q, l.read(step.Q, (a.To-a.From)*l.width(step.Q))...)
	}
	return a, q
}

// rows are the new rows of a KV head.
func (l *lab) rows(a *step.Args, head int) (out []token) {
	n, d := len(a.IDs), l.model.Shape.HeadDim
	k, v := l.read(step.K, n*l.width(step.K)), l.read(step.V, n*l.width(step.V))
	for t := range n {
		at := t*l.width(step.K) + head*d
		out = append(out, token{pos: a.Pos + t, k: k[at:][:d], v: v[at:][:d]})
	}
	return out
}

// softmaxRow is the attention of a query to tokens, by the definition.
func softmaxRow(q []float32, tokens []token) []float64 {
	p, sum := make([]float64, len(tokens)), 0.0
	for j, tok := range tokens {
		dot := 0.0
		for c := range q {
			dot += float64(q[c]) * float64(tok.k[c])
		}
		p[j] = math.Exp(dot / math.Sqrt(float64(len(q))))
		sum += p[j]
	}
	for j := range p {
		p[j] /= sum
	}
	return p
}

// testInput: what a layer offers is what its queries, keys and values say, however the chunks fall.
func testInput(t *testing.T, open Open, tol Tolerance) {
	for i, s := range labShapes(15) {
		geo := cache.Geometry{Key: cache.Format(i % 2), Value: cache.Format(i / 2 % 2), PageK: 1 + i%3, PageV: 8, Scores: i%3 > 0}
		n, stored := []int{1, 3, 17, 40, 21}[i%5], []int{0, 9, 40}[i%3]
		chunk := []int{1, 5, 16, 40}[i%4]
		for name, p := range map[string]policy.Plan{
			"position": {},
			"window":   {Score: policy.Score{Kind: policy.ScoreWindow, Window: []int{1, 4, 8, 30}[i/2%4]}},
			"columns":  {Score: policy.Score{Kind: policy.ScoreColumns}, Select: policy.Select{Kind: policy.SelectCritical}},
			"expected": {
				Score:   policy.Score{Kind: policy.ScoreExpected, Covariance: true, ValueNorm: true},
				Protect: policy.Protect{Sinks: 4},
			},
			"keys": {Score: policy.Score{Kind: policy.ScoreKeyDiff}, Select: policy.Select{Kind: policy.SelectCritical}},
		} {
			t.Run(fmt.Sprintf("%d/%s", i, name), func(t *testing.T) {
				l := newLab(t, open, s, geo, chunk, &p)
				l.fill(stored)
				l.compareInput(&p, n, chunk, tol)
			})
		}
	}
}

func (l *lab) compareInput(p *policy.Plan, n, chunk int, tol Tolerance) {
	l.t.Helper()
	a, q := l.observed(n, chunk)
	in, err := l.scorer.Input(a, 0)
	l.must(err)
	kind := p.Score.Kind
	for h := range l.held {
		all := append(slices.Clone(l.held[h]), l.rows(a, h)...)
		c := in.Candidates[h]
		var pos []int32
		var k, v []float32
		for _, tok := range all {
			pos, k, v = append(pos, int32(tok.pos)), append(k, tok.k...), append(v, tok.v...)
		}
		if !slices.Equal(c.Pos, pos) {
			l.t.Fatalf("positions %v, want %v", c.Pos, pos)
		}
		if kind != policy.ScoreNone {
			Compare(l.t, "keys", c.K, k, Tolerance{})
		}
		if kind == policy.ScoreExpected {
			Compare(l.t, "values", c.V, v, Tolerance{})
		}
		if p.Select.Kind == policy.SelectCritical {
			Compare(l.t, "‖W_o·v‖₁", c.OutL1, l.outputs(all, h), tol)
		}
		for g := range l.group {
			if head := h*l.group + g; kind == policy.ScoreColumns {
				Compare(l.t, "column sums", in.Columns[head], l.columns(all, q, head, n), tol)
			}
		}
	}
	if w := min(p.Score.Window, n); w > 0 {
		Compare(l.t, "last queries", in.Queries, q[(n-w)*l.width(step.Q):], Tolerance{})
	}
	if kind == policy.ScoreExpected {
		l.compareSpread(in.Spread, q, a.Pos, tol)
	}
}

// columns sums the attention of all queries of a head, beside what the stored tokens had.
func (l *lab) columns(all []token, q []float32, head, n int) (out []float32) {
	d := l.model.Shape.HeadDim
	sums := make([]float64, len(all))
	for j := range all {
		sums[j] = float64(all[j].acc)
	}
	for t := range n {
		seen := all[:len(all)-n+t+1]
		for j, p := range softmaxRow(q[t*l.width(step.Q)+head*d:][:d], seen) {
			sums[j] += p
		}
	}
	for _, s := range sums {
		out = append(out, float32(s))
	}
	return out
}

// outputs is what each value adds to the layer's output, as the mean over the heads that read it.
func (l *lab) outputs(all []token, kvHead int) (out []float32) {
	s := &l.model.Shape
	naive := naiveModel{m: l.model, unpacked: map[int64][][]float64{}}
	w := naive.rows(step.Stack{l.model.Program.Ops[4].(step.Project).W})
	for _, tok := range all {
		sum := 0.0
		for g := range l.group {
			first := (kvHead*l.group + g) * s.HeadDim
			for _, row := range w {
				dot := 0.0
				for c, v := range tok.v {
					dot += row[first+c] * float64(v)
				}
				sum += math.Abs(dot)
			}
		}
		out = append(out, float32(sum/float64(l.group)))
	}
	return out
}

// compareSpread holds mean and covariance against their definitions, over queries turned back to before RoPE. As in
// kvpress the divisor is the number of queries, and the first positions are left out.
func (l *lab) compareSpread(got *policy.Spread, q []float32, first int, tol Tolerance) {
	l.t.Helper()
	s := &l.model.Shape
	width := l.width(step.Q)
	naive := naiveModel{m: l.model}
	var rows [][]float64
	for t := range len(q) / width {
		if first+t < 4 {
			continue
		}
		row := make([]float64, width)
		for c := range row {
			row[c] = float64(q[t*width+c])
		}
		naive.turn(row, first+t, -1)
		rows = append(rows, row)
	}
	if got.N != len(rows) {
		l.t.Fatalf("a spread of %d queries, want %d", got.N, len(rows))
	}
	if got.N == 0 {
		return
	}
	mean := make([]float64, width)
	for _, row := range rows {
		for c, v := range row {
			mean[c] += v / float64(len(rows))
		}
	}
	var cov, mean32 []float32
	for i := range width * s.HeadDim {
		a := i / s.HeadDim
		b := a/s.HeadDim*s.HeadDim + i%s.HeadDim
		sum := 0.0
		for _, row := range rows {
			sum += (row[a] - mean[a]) * (row[b] - mean[b])
		}
		cov = append(cov, float32(sum/float64(len(rows))))
	}
	for _, v := range mean {
		mean32 = append(mean32, float32(v))
	}
	Compare(l.t, "mean of queries", got.Mean, mean32, tol)
	Compare(l.t, "covariance of queries", got.Cov, cov, tol)
	if s.RotDim > 0 { // also where the table ends
		for _, pos := range []int{0, 5, Positions - 1, Positions, 3*Positions + 7} {
			for i, cs := 0, got.Rope(pos); i < s.RotDim; i += 2 {
				sin, cos := math.Sincos(float64(pos) * math.Pow(100, -float64(i)/float64(s.RotDim)))
				Compare(l.t, fmt.Sprintf("rotation at %d", pos), cs[i:][:2], []float32{float32(cos), float32(sin)}, tol)
			}
		}
	}
}

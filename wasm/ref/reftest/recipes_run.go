package reftest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// put takes slots for the rows of a run that keep says are stored, and stores them.
func (l *lab) put(a *step.Args, keep func(head, row int) bool) {
	l.t.Helper()
	a.Slots = make([][]uint32, len(l.held))
	for h := range l.held {
		var positions []uint32
		var rows []int
		for row := range a.IDs {
			if keep(h, row) {
				positions, rows = append(positions, uint32(a.Pos+row)), append(rows, row)
			}
		}
		slots, err := l.cache.Put(0, h, positions)
		l.must(err)
		a.Slots[h] = slices.Repeat([]uint32{cache.NoSlot}, len(a.IDs))
		for i, row := range rows {
			a.Slots[h][row] = slots[i]
		}
	}
	const chunk = 7
	for a.From = 0; a.From < len(a.IDs); a.From = a.To {
		a.To = min(a.From+min(chunk, l.model.Program.Chunk), len(a.IDs))
		l.run(a, 3, 4)
	}
	l.pos = a.Pos + len(a.IDs)
	l.reread()
}

// reread looks what the lists hold now; what was accumulated stays with its token.
func (l *lab) reread() {
	l.t.Helper()
	arena := l.readArena()
	for h, was := range l.held {
		now := l.stored(arena, h)
		for i := range now {
			for _, tok := range was {
				if tok.pos == now[i].pos {
					now[i].acc = tok.acc
				}
			}
		}
		l.held[h] = now
	}
}

// evict drops tokens of a list, each with some probability.
func (l *lab) evict(head int, share float64) {
	var slots []uint32
	for _, slot := range l.cache.List(0, head).Order() {
		if l.r.Float64() < share {
			slots = append(slots, slot)
		}
	}
	l.cache.Evict(0, head, slots)
	l.reread()
}

// decoded runs one random row as a decode step does, and returns its query.
func (l *lab) decoded() (a *step.Args, q []float32) {
	l.t.Helper()
	return l.decode(normal(l.r, l.width(step.X)))
}

func (l *lab) decode(x []float32) (a *step.Args, q []float32) {
	l.t.Helper()
	l.must(l.exec.Grow(1, 0))
	l.must(l.b.Upload(l.exec.Scratch(step.X), 0, quant.Bytes(x)))
	a = l.at([]int32{0})
	a.Stored, a.To = true, 1
	l.run(a, 1, 2)
	l.put(a, func(int, int) bool { return true })
	a.From, a.To = 0, 1
	l.run(a, 2, 3)
	return a, l.read(step.Q, l.width(step.Q))
}

// mix is the attention output of a row by its probabilities.
func mix(p []float64, tokens []token) []float32 {
	out := make([]float32, len(tokens[0].v))
	for c := range out {
		sum := 0.0
		for j, tok := range tokens {
			sum += p[j] * float64(tok.v[c])
		}
		out[c] = float32(sum)
	}
	return out
}

// attended is what all query heads of one row should get, over what the lists hold.
func (l *lab) attended(q []float32) (out []float32) {
	d := l.model.Shape.HeadDim
	for h := range l.model.Shape.Heads {
		tokens := l.held[h/l.group]
		out = append(out, mix(softmaxRow(q[h*d:][:d], tokens), tokens)...)
	}
	return out
}

func float32s(x []float64) (out []float32) {
	for _, v := range x {
		out = append(out, float32(v))
	}
	return out
}

// testRows: what a decode rule sees is the softmax of the decoded token's query over what is stored, in the order of
// positions, and its sum over time, while tokens leave and others take their slots.
func testRows(t *testing.T, open Open, tol Tolerance) {
	for i, s := range labShapes(10) {
		rule := []policy.Decode{
			{Kind: policy.DecodeRow},
			{Kind: policy.DecodeSums, Decay: 1},
			{Kind: policy.DecodeSums, Decay: 0.75},
			{Kind: policy.DecodeCap, Decay: 0.875},
			{Kind: policy.DecodeOldest},
		}[i%5]
		t.Run(fmt.Sprint(i, rule.Kind), func(t *testing.T) {
			geo := cache.Geometry{Key: cache.Format(i % 2), PageK: 3, PageV: 2, Scores: true}
			l := newLab(t, open, s, geo, 3, &policy.Plan{Decode: rule})
			l.fill([]int{0, 12, 30}[i%3])
			for range 6 {
				a, q := l.decoded()
				Compare(t, "attention", l.read(step.A, l.width(step.A)), l.attended(q), tol)
				in, err := l.scorer.Rows(a, 0)
				l.must(err)
				l.compareRows(in, q, &rule, tol)
				for h := range l.held {
					l.evict(h, 0.2)
				}
			}
		})
	}
}

func (l *lab) compareRows(in *policy.StepInput, q []float32, rule *policy.Decode, tol Tolerance) {
	l.t.Helper()
	d := l.model.Shape.HeadDim
	fold := rule.Kind == policy.DecodeSums || rule.Kind == policy.DecodeCap
	if (in.Sums != nil) != fold || (in.Rows != nil) != (fold || rule.Kind == policy.DecodeRow) {
		l.t.Fatalf("rows %v, sums %v", in.Rows != nil, in.Sums != nil)
	}
	for h, held := range l.held {
		mean := make([]float64, len(held))
		for g := range l.group {
			head := h*l.group + g
			p := softmaxRow(q[head*d:][:d], held)
			if in.Rows != nil {
				Compare(l.t, "row", in.Rows[head], float32s(p), tol)
			}
			for j := range p {
				mean[j] += p[j] / float64(l.group)
			}
		}
		weight := 1.0
		if rule.Kind == policy.DecodeCap {
			weight = 1 - rule.Decay
		}
		var pos []int32
		var acc []float32
		for j := range held {
			pos = append(pos, int32(held[j].pos))
			if fold {
				held[j].acc = float32(rule.Decay*float64(held[j].acc) + weight*mean[j])
			}
			acc = append(acc, held[j].acc)
		}
		if !slices.Equal(in.Pos[h], pos) {
			l.t.Fatalf("positions %v, want %v", in.Pos[h], pos)
		}
		if fold {
			Compare(l.t, "accumulated attention", in.Sums[h], acc, tol)
		}
	}
}

// testSums is row 10 of the pitfalls: accumulated attention sums to the number of queries that there were, as long as
// nothing leaves.
func testSums(t *testing.T, open Open, tol Tolerance) {
	for i, s := range labShapes(6) {
		geo := cache.Geometry{PageK: 8, PageV: 8, Scores: true}
		plan := policy.Plan{Score: policy.Score{Kind: policy.ScoreColumns}, Decode: policy.Decode{Kind: policy.DecodeSums, Decay: 1}}
		l := newLab(t, open, s, geo, 9, &plan)
		queries := 0.0
		check := func(what string, sums []float32) {
			t.Helper()
			total := 0.0
			for _, v := range sums {
				total += float64(v)
			}
			if math.Abs(total-queries) > 20*tol.Rel*queries {
				t.Errorf("%d: %s: attention sums to %v for %v queries", i, what, total, queries)
			}
		}
		for turn, n := range []int{25, 1, 14} {
			a, _ := l.observed(n, 9)
			queries += float64(n)
			in, err := l.scorer.Input(a, 0)
			l.must(err)
			sums := make([][]float32, len(l.held))
			for head, column := range in.Columns {
				check("prompt", column)
				h := head / l.group
				if sums[h] == nil {
					sums[h] = make([]float32, len(column))
				}
				for j, v := range column {
					sums[h][j] += v / float32(l.group)
				}
			}
			l.put(a, func(int, int) bool { return true })
			for h := range sums {
				l.must(l.scorer.PutSums(a, 0, h, l.cache.List(0, h).Order(), sums[h]))
			}
			for range turn + 1 {
				a, _ := l.decoded()
				queries++
				in, err := l.scorer.Rows(a, 0)
				l.must(err)
				for _, acc := range in.Sums {
					check("decode", acc)
				}
			}
		}
	}
}

// testDropped: rows without a slot are not stored, what left is not seen, and a cache whose slots were taken again equals
// one that never held what left. Views show what is left where its position is.
func testDropped(t *testing.T, open Open, tol Tolerance) {
	for i, s := range labShapes(10) {
		geo := cache.Geometry{Key: cache.Format(i % 2), Value: cache.Format(i % 2), PageK: 2, PageV: 3}
		l := newLab(t, open, s, geo, 16, &policy.Plan{})
		for _, n := range []int{30, 11} { // a later turn takes slots of the first
			a, _ := l.observed(n, 16)
			l.put(a, func(_, row int) bool { return row == n-1 || l.r.IntN(3) > 0 })
			for h := range l.held {
				l.evict(h, 0.4)
			}
		}
		x := normal(l.r, l.width(step.X))
		never := newLab(t, open, s, geo, 16, nil)
		never.copy(l)
		a, q := l.decode(x)
		out := l.read(step.A, l.width(step.A))
		Compare(t, "attention", out, l.attended(q), tol)
		never.decode(x)
		Compare(t, "attention without what left", never.read(step.A, l.width(step.A)), out, tol)
		l.compareViews(a, q, tol)
	}
}

// copy gives an empty lab the tokens of another, in slots of their own order.
func (l *lab) copy(from *lab) {
	l.t.Helper()
	l.pos = from.pos
	arena, theirs := l.readArena(), from.readArena()
	for h := range l.held {
		list := from.cache.List(0, h)
		var pos []uint32
		for _, slot := range list.Order() {
			pos = append(pos, list.At[slot])
		}
		slots, err := l.cache.Put(0, h, pos)
		l.must(err)
		src, dst := from.pagesOf(theirs, h), l.pagesOf(arena, h)
		for i, slot := range slots {
			was := int(list.Order()[i])
			copy(dst.Key(int(slot)), src.Key(was))
			copy(dst.Value(int(slot)), src.Value(was))
			*dst.Position(int(slot)) = pos[i]
		}
	}
	l.must(l.b.Upload(l.arena, 0, arena))
}

// compareViews holds rows, codes and logits of the decoded token against what the lists hold.
func (l *lab) compareViews(a *step.Args, q []float32, tol Tolerance) {
	l.t.Helper()
	s := &l.model.Shape
	rows := make([][]float32, s.Heads)
	for h := range rows {
		rows[h] = make([]float32, l.pos+2)
	}
	l.must(l.exec.AttentionRow(a, 0, 0, rows))
	stride := (l.pos + 3) &^ 3
	dst, err := l.b.Alloc(cache.Views, "view", int64(s.Heads*stride))
	l.must(err)
	viewer := l.exec.(step.Viewer)
	l.must(viewer.Look(a, &step.View{Heads: s.Heads, Rows: 1, Pool: 1, Dst: dst, Stride: int64(stride), Sums: -1}))
	codes := make([]byte, s.Heads*stride)
	l.must(l.b.Read(dst, 0, codes))
	l.b.Free(dst)
	for h := range rows {
		held := l.held[h/l.group]
		want := make([]float32, l.pos+2)
		for j, p := range softmaxRow(q[h*s.HeadDim:][:s.HeadDim], held) {
			want[held[j].pos] = float32(p)
		}
		Compare(l.t, "attention row", rows[h], want, tol)
		scores := make([]float32, l.pos)
		l.must(viewer.Scores(a, 0, h, 0, scores))
		for pos, score := range scores {
			if dropped := want[pos] == 0; dropped != math.IsInf(float64(score), -1) || dropped && codes[h*stride+pos] != 0 || !near(codes[h*stride+pos], want[pos]) {
				l.t.Errorf("head %d, position %d: logit %v, code %d for %v", h, pos, score, codes[h*stride+pos], want[pos])
			}
		}
		Compare(l.t, "softmax of logits", softmaxOf(scores), want[:l.pos], tol)
	}
}

package reftest

import (
	"math"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
)

func (s *session) pagesOf(arena []byte, head int) *ref.Pages {
	return &ref.Pages{Arena: arena, List: s.cache.List(0, head), Geo: s.cache.Geometry()}
}

// testRanks: with positions by rank, what is left after tokens left equals a prompt of nothing but those: keys turned by
// the difference of two positions are keys of the second. One row and several see the same.
func testRanks(t *testing.T, open Open, tol Tolerance) {
	for i, s := range labShapes(10) {
		geo := cache.Geometry{PageK: 3, PageV: 8}
		l := newLab(t, open, s, geo, 8, &policy.Plan{Store: policy.Store{Rank: true}})
		var xs [][]float32 // of every position
		prompt := func(n int) {
			l.must(l.exec.Grow(n, 0))
			x := normal(l.r, n*l.width(step.X))
			l.must(l.b.Upload(l.exec.Scratch(step.X), 0, quant.Bytes(x)))
			for row := range n {
				xs = append(xs, x[row*l.width(step.X):][:l.width(step.X)])
			}
		}
		// attended are rows [from, from + n) of a prompt that holds nothing but some positions, in a session without a plan.
		attended := func(positions []int, n int) (out []float32) {
			plain := newLab(t, open, s, geo, len(positions), nil)
			plain.must(plain.exec.Grow(len(positions), 0))
			var x []float32
			for _, pos := range positions {
				x = append(x, xs[pos]...)
			}
			plain.must(plain.b.Upload(plain.exec.Scratch(step.X), 0, quant.Bytes(x)))
			a := plain.at(make([]int32, len(positions)))
			a.To = len(positions)
			plain.run(a, 1, 3)
			return plain.read(step.A, len(positions)*l.width(step.A))[(len(positions)-n)*l.width(step.A):]
		}
		// All KV heads hold the same here, so that one prompt stands for all.
		held := func() (positions []int) {
			list := l.cache.List(0, 0)
			for _, slot := range list.Order() {
				positions = append(positions, int(list.At[slot]))
			}
			return positions
		}
		evict := func(ranks ...int) {
			for h := range l.held {
				var slots []uint32
				for _, rank := range ranks {
					slots = append(slots, l.cache.List(0, h).Order()[rank])
				}
				l.cache.Evict(0, h, slots)
			}
		}
		all := func(int, int) bool { return true }
		chunks := func(n int) (a *step.Args, out []float32) {
			a = l.at(make([]int32, n))
			for a.From = 0; a.From < n; a.From = a.To {
				a.To = min(a.From+8, n)
				l.run(a, 1, 3)
				out = append(out, l.read(step.A, (a.To-a.From)*l.width(step.A))...)
			}
			return a, out
		}
		const first = 20
		prompt(first)
		a, out := chunks(first)
		now := make([]int, first)
		for pos := range now {
			now[pos] = pos
		}
		Compare(t, "a first prompt", out, attended(now, first), tol)
		l.put(a, all)
		evict(4, 5, 6, 11)
		for range 3 {
			x := normal(l.r, l.width(step.X))
			xs = append(xs, x)
			a, _ := l.decode(x)
			Compare(t, "decoded", l.read(step.A, l.width(step.A)), attended(held(), 1), tol)
			if i%2 == 0 {
				compareRanks(l, a, held(), tol)
			}
			evict(4)
		}
		was := held()
		prompt(11)
		_, out = chunks(11)
		for pos := range 11 {
			was = append(was, l.pos+pos)
		}
		Compare(t, "a later prompt", out, attended(was, 11), tol)
	}
}

// compareRanks holds the attention row by position against the output: its mix of values is what attention gave.
func compareRanks(l *lab, a *step.Args, held []int, tol Tolerance) {
	l.t.Helper()
	s := &l.model.Shape
	rows := make([][]float32, s.Heads)
	for h := range rows {
		rows[h] = make([]float32, l.pos)
	}
	l.must(l.exec.AttentionRow(a, 0, 0, rows))
	var out []float32
	for h, row := range rows {
		var p []float64
		for _, pos := range held {
			p = append(p, float64(row[pos]))
		}
		out = append(out, mix(p, l.held[h/l.group])...)
	}
	Compare(l.t, "values by the attention row", out, l.read(step.A, l.width(step.A)), tol)
}

// testCompensation: a compensation token stands for what left with its means, weighted by the number of tokens; where
// those are all alike, attention is what it was when they were there.
func testCompensation(t *testing.T, open Open, tol Tolerance) {
	for i, s := range labShapes(10) {
		geo := cache.Geometry{PageK: 3, PageV: 8, Sums: true}
		plan := policy.Plan{Store: policy.Store{Virtual: true}, Decode: policy.Decode{Kind: policy.DecodeRow}}
		l := newLab(t, open, s, geo, 8, &plan)
		alike := i%2 == 0
		l.fill(24)
		if alike { // the tokens of even ranks
			arena := l.readArena()
			for h := range l.held {
				p, order := l.pagesOf(arena, h), l.cache.List(0, h).Order()
				for rank := 0; rank < len(order); rank += 2 {
					copy(p.Key(int(order[rank])), p.Key(int(order[0])))
					copy(p.Value(int(order[rank])), p.Value(int(order[0])))
				}
			}
			l.must(l.b.Upload(l.arena, 0, arena))
			l.reread()
		}
		full, gone := slices.Clone(l.held), make([][]token, len(l.held))
		for h, held := range l.held {
			if h == 1 {
				continue // a list that lost nothing
			}
			order := slices.Clone(l.cache.List(0, h).Order())
			for part := range 2 { // in two goes
				var slots []uint32
				for rank := 2 * part; rank < len(order); rank += 4 {
					slots, gone[h] = append(slots, order[rank]), append(gone[h], held[rank])
				}
				l.must(l.scorer.Absorb(l.at(nil), 0, h, slots, nil))
				l.cache.Evict(0, h, slots)
			}
		}
		l.reread()
		check := func(what string, q, out []float32, new func(h int) []token) {
			t.Helper()
			var want []float32
			for head := range s.Heads {
				h := head / l.group
				query, seen := q[head*s.HeadDim:][:s.HeadDim], append(slices.Clone(l.held[h]), new(h)...)
				if alike {
					seen = append(slices.Clone(full[h]), new(h)...)
					want = append(want, mix(softmaxRow(query, seen), seen)...)
				} else {
					p, all := compensated(query, seen, gone[h])
					want = append(want, mix(p, all)...)
				}
			}
			Compare(t, what, out, want, tol)
		}
		// Several rows, then one.
		a, q := l.observed(8, 8)
		out := l.read(step.A, 8*l.width(step.A))
		for row := range 8 {
			check("rows", q[row*l.width(step.Q):], out[row*l.width(step.A):][:l.width(step.A)], func(h int) []token {
				return l.rows(a, h)[:row+1]
			})
		}
		// Rows that were never stored are absorbed too.
		before := slices.Clone(l.held)
		l.put(a, func(_, row int) bool { return row > 2 })
		if !alike {
			for h := range l.held {
				l.must(l.scorer.Absorb(a, 0, h, nil, []int32{0, 1, 2}))
				gone[h] = append(gone[h], l.rows(a, h)[:3]...)
			}
			a, q = l.decoded()
			check("decoded", q, l.read(step.A, l.width(step.A)), func(int) []token { return nil })
			in, err := l.scorer.Rows(a, 0)
			l.must(err)
			for head := range s.Heads {
				held := l.held[head/l.group]
				p, _ := compensated(q[head*s.HeadDim:][:s.HeadDim], held, gone[head/l.group])
				Compare(t, "row", in.Rows[head], float32s(p[:len(held)]), tol)
			}
			continue
		}
		l.held = before
	}
}

// compensated is the attention of a query to tokens and to one that stands for those that are gone, by the definition.
func compensated(q []float32, seen, gone []token) (p []float64, all []token) {
	if len(gone) == 0 {
		return softmaxRow(q, seen), seen
	}
	mean := token{k: make([]float32, len(q)), v: make([]float32, len(q))}
	for c := range q {
		var k, v float64
		for _, tok := range gone {
			k, v = k+float64(tok.k[c]), v+float64(tok.v[c])
		}
		mean.k[c], mean.v[c] = float32(k/float64(len(gone))), float32(v/float64(len(gone)))
	}
	all = append(slices.Clone(seen), mean)
	p = softmaxRow(q, all)
	last := len(p) - 1
	rest := 1 + p[last]*float64(len(gone)-1)
	p[last] *= float64(len(gone))
	for j := range p {
		p[j] /= rest
	}
	return p, all
}

// testPagesRead: bounds of a page are the least and the largest of its keys, so that no key of it has a larger product
// with a query than they say; a decoded token reads the pages with the largest bounds and the newest one, and with room
// for all pages, and in a layer that reads everything, it reads what it would without the plan.
func testPagesRead(t *testing.T, open Open, tol Tolerance) {
	for i, s := range labShapes(10) {
		const page = 4
		geo := cache.Geometry{Key: cache.Format(i % 2), PageK: 3, PageV: 8, Bound: page}
		plan := policy.Plan{Store: policy.Store{Page: page, Read: []int{1, 8, 12, 1000}[i%4], Whole: i / 4 % 2}}
		l := newLab(t, open, s, geo, 8, &plan)
		all := func(int, int) bool { return true }
		a, _ := l.observed(21, 8)
		l.put(a, all)
		mark, pos := l.cache.Mark(), l.pos
		a, _ = l.observed(6, 8)
		l.put(a, all) // what is taken back leaves no trace
		l.cache.Restore(mark)
		l.pos = pos
		for range 6 {
			a, q := l.decoded()
			var want []float32
			for head := range s.Heads {
				seen := l.pagesRead(head/l.group, plan.Store.Read, q[head*s.HeadDim:][:s.HeadDim])
				if plan.Store.Whole > 0 {
					seen = l.held[head/l.group]
				}
				want = append(want, mix(softmaxRow(q[head*s.HeadDim:][:s.HeadDim], seen), seen)...)
			}
			Compare(t, "attention", l.read(step.A, l.width(step.A)), want, tol)
			if plan.Store.Read >= 1000 || plan.Store.Whole > 0 {
				Compare(t, "all pages", want, l.attended(q), tol)
			}
			rows := make([][]float32, s.Heads)
			for head := range rows {
				rows[head] = make([]float32, l.pos)
			}
			l.must(l.exec.AttentionRow(a, 0, 0, rows))
			var shown []float32
			for head, row := range rows {
				var p []float64
				for _, v := range row {
					p = append(p, float64(v))
				}
				shown = append(shown, mix(p, l.held[head/l.group])...)
			}
			Compare(t, "values by the attention row", shown, want, tol)
		}
	}
}

// pagesRead checks a list's bounds and returns what a query should read.
func (l *lab) pagesRead(head, read int, q []float32) (seen []token) {
	l.t.Helper()
	page, held := l.cache.Geometry().Bound, l.held[head]
	arena := l.readArena()
	var bounds []float64
	for i := range l.cache.List(0, head).Bounds {
		low, high := l.checkBounds(arena, head, i)
		tokens := held[i*page : min(len(held), (i+1)*page)]
		most := 0.0
		for c, v := range q {
			most += math.Max(float64(v)*float64(low[c]), float64(v)*float64(high[c]))
		}
		for _, tok := range tokens {
			dot := 0.0
			for c, v := range q {
				dot += float64(v) * float64(tok.k[c])
			}
			if dot > most+1e-9 {
				l.t.Errorf("page %d: a product of %v beyond the bound %v", i, dot, most)
			}
		}
		bounds = append(bounds, most)
	}
	newest := len(bounds) - 1
	reads := []int{newest}
	for range min(newest, read/page-1) {
		best := -1
		for i := range newest {
			if !slices.Contains(reads, i) && (best < 0 || bounds[i] > bounds[best]) {
				best = i
			}
		}
		reads = append(reads, best)
	}
	for i := range bounds {
		if slices.Contains(reads, i) {
			seen = append(seen, held[i*page:min(len(held), (i+1)*page)]...)
		}
	}
	return seen
}

// checkBounds holds the bounds of a page against the keys that lie in its slots, and returns them.
func (l *lab) checkBounds(arena []byte, head, page int) (low, high []float32) {
	l.t.Helper()
	p, n := l.pagesOf(arena, head), l.cache.Geometry().Bound
	for slot := page * n; slot < min(p.List.Slots, (page+1)*n); slot++ {
		if p.List.At[slot] == cache.DeadPosition {
			continue
		}
		key := lane(p.Geo.Key, p.Key(slot))
		if low == nil {
			low, high = slices.Clone(key), slices.Clone(key)
		}
		for c, v := range key {
			low[c], high[c] = min(low[c], v), max(high[c], v)
		}
	}
	words := quant.Float32s(arena[4*p.List.Bounds[page]:][:8*len(low)])
	if !slices.Equal(words, append(slices.Clone(low), high...)) {
		l.t.Fatalf("page %d: bounds %v, want %v and %v", page, words, low, high)
	}
	return low, high
}

package llama_test

import (
	"errors"
	"slices"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/step"
)

// opts are what the session has now.
func (w *wild) opts() *llama.SessionOptions {
	o := w.o
	o.Recipe, o.Cap = w.s.Recipe(), w.s.Cap()
	return &o
}

// pinsStay is that what was pinned is where it was.
func (w *wild) pinsStay(pins []int) {
	now := held(w.s)
	if w.s.Stored() == 0 {
		return
	}
	for l, lists := range w.was {
		for h, list := range lists {
			for _, p := range pins {
				if slices.Contains(list, int32(p)) && !slices.Contains(now[l][h], int32(p)) {
					w.t.Errorf("list %d %d held %v with pins %v, holds %v", l, h, list, pins, now[l][h])
				}
			}
		}
	}
}

// view checks a matrix.
func (w *wild) view(x *llama.Matrix, layer, kvHead int) {
	left := w.s.LeftAt(layer, kvHead)
	if x.Left != nil && !slices.Equal(x.Left, left) {
		w.t.Errorf("left %v, want %v", x.Left, left)
	}
	for i := range x.Cells {
		sum, would := 0.0, 0.0
		for j, c := range x.Codes[i*x.Cells:][:x.Cells] {
			sum += step.Uncode(c)
			gone := left[j] >= 0 && i >= int(left[j])
			if c != 0 && (j > i || gone) {
				w.t.Errorf("query %d: token %d, left at %d, has %d", i, j, left[j], c)
			}
			if x.Would == nil {
				continue
			}
			v := x.Would[i*x.Cells+j]
			would += step.Uncode(v)
			if v != 0 && (j > i || c != 0) {
				w.t.Errorf("query %d: token %d, left at %d, would have %d, has %d", i, j, left[j], v, c)
			}
		}
		if virtual := w.s.Plan().Store.Virtual; sum > 1.03 || sum < 0.97-1e-4*float64(i) && !virtual || would > 1.03 {
			w.t.Errorf("query %d of %d: %g, and %g", i, x.Cells, sum, would)
		}
	}
}

func (w *wild) restart() { w.book, w.known = nil, true }

// settle makes a session that is stale be computed again, and compares.
func (w *wild) settle(was *sight) {
	w.b.after = 0
	if w.s.Position() == 0 {
		return
	}
	c, err := w.s.Save(ctx)
	if err != nil {
		var full *cache.FullError
		if !errors.As(err, &full) {
			w.t.Error(err)
		}
		return
	}
	c.Close()
	if w.known {
		w.equal("what failed", was)
	}
}

// told is that evictions are as explained.
func (w *wild) told(evicted []llama.Eviction) {
	for _, e := range evicted {
		x, err := w.s.Explain(ctx, e.Layer, e.KVHead)
		if errors.Is(err, llama.ErrNoRecord) {
			return
		}
		if err != nil {
			w.t.Error(err)
			return
		}
		same := func(a, b float32) bool { return a == b || a != a && b != b }
		if v := x.Verdicts[e.Position]; v.Decision != e.Rule || !same(v.Score, e.Score) || !same(v.Threshold, e.Threshold) || int(v.Rank) != e.Rank {
			w.t.Errorf("%+v left, explained as %+v", e, v)
		}
	}
}

func (w *wild) check() {
	t, s := w.t, w.s
	if t.Failed() {
		return
	}
	for k, row := range w.led.Rows() {
		if row.Allocated < 0 || row.Logical < 0 || row.Logical > row.Allocated {
			t.Errorf("kind %d has %+v", k, row)
		}
	}
	if s.Stored() == 0 {
		return
	}
	g := s.Cache().Geometry()
	if b, sum := s.Budget(), 0; s.Caps() != nil && !b.Parity {
		for l, caps := range s.Caps() {
			for h, most := range caps {
				live := s.Cache().List(l, h).Live
				if sum += live; live > most+b.Reserve || live == 0 {
					t.Errorf("list %d %d holds %d, may hold %d and %d", l, h, live, most, b.Reserve)
				}
			}
		}
		if lists := g.Layers * g.KVHeads; sum > max(b.Slots, lists*(b.Tokens+b.Reserve)) {
			t.Errorf("%d tokens in %d lists of %+v", sum, lists, b)
		}
	}
	for l, lists := range held(s) {
		for h, kept := range lists {
			gone := s.Shadowed(l, h)
			for _, p := range gone {
				if _, has := slices.BinarySearch(kept, p); has {
					t.Errorf("list %d %d holds %d and its copy", l, h, p)
				}
			}
			if !slices.IsSorted(gone) || len(slices.Compact(slices.Clone(kept))) != len(kept) {
				t.Errorf("list %d %d: copies %v, holds %v", l, h, gone, kept)
			}
			e, err := s.Explain(ctx, l, h)
			if errors.Is(err, llama.ErrNoRecord) {
				continue
			}
			if err != nil {
				t.Error(err)
				continue
			}
			left := s.LeftAt(l, h)
			for p, v := range e.Verdicts {
				_, has := slices.BinarySearch(kept, int32(p))
				d := v.Decision
				stays := d <= policy.DecidedPlace || d == policy.DecidedRecall
				leaves := d >= policy.DecidedScore && d != policy.DecidedRecall
				switch {
				case has != (e.Kept[p] == 1) || has && !stays || !has && !leaves:
					t.Errorf("list %d %d: token %d is there: %v, explained %v as %+v", l, h, p, has, e.Kept[p], v)
				case has != (left[p] < 0) || !has && int(v.At) != int(left[p]):
					t.Errorf("list %d %d: token %d is there: %v, left at %d, explained as %+v", l, h, p, has, left[p], v)
				case int(v.At) > s.Position() || int(v.At) <= p:
					t.Errorf("list %d %d: token %d of %d: %+v", l, h, p, s.Position(), v)
				case v.Rank > 0 && d == policy.DecidedScore && (has && !(v.Score >= v.Threshold) || !has && v.Score > v.Threshold):
					t.Errorf("list %d %d: token %d is there: %v: %+v", l, h, p, has, v)
				}
			}
		}
	}
}

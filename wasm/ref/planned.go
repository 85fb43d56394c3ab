package ref

import (
	"math"

	"kvlens/cache/policy/stage"
	"kvlens/wasm/step"
)

// Attention of plans that change what a query sees. Keys and values are gathered in the order of their positions, and
// then the same loops run as for new rows.

// attendByRank attends to keys and queries whose positions are their ranks (StreamingLLM, Xiao et al., 2023).
func (r *run) attendByRank(pages []Pages) error {
	t, d := &r.follow.tokens, r.shape.HeadDim
	to := r.a.To
	if r.a.Stored {
		to = 0
	}
	t.clear()
	if err := r.gather(r.a, pages, to, true, true); err != nil {
		return err
	}
	r.eachBlock(r.queries(pages), func(head, first int, a *Attention) {
		a.Pages = Pages{List: &nothing, Geo: pages[head].Geo}
		a.NewK, a.NewV, a.NewStride = t.of(t.keys, head, d), t.of(t.values, head, d), d
		a.First = r.rank(&pages[head], first)
		r.b.loops.Attend(a)
	})
	return nil
}

// rank is how many tokens come before row t of the run in a list: the position that the row's query takes by rank.
func (r *run) rank(p *Pages, t int) int {
	if r.a.Stored {
		return p.List.Live - 1
	}
	return p.List.Live + r.a.From + t
}

// queries are the run's rows of Q; where a plan counts positions by rank, rotated by each row's.
func (r *run) queries(pages []Pages) []float32 {
	s := &r.shape
	width := s.Heads * s.HeadDim
	q := r.chunkRows(step.Q, width)
	if !r.follow.plan.Store.Rank {
		return q
	}
	group, out := s.Heads/s.KVHeads, r.follow.turned.data[:len(q)]
	copy(out, q)
	r.eachRow(width, func(t int) {
		for h := range s.Heads {
			x := out[t*width+h*s.HeadDim:][:s.HeadDim]
			if pos, rank := r.a.Pos+r.a.From+t, r.rank(&pages[h/group], t); rank != pos {
				r.unrotate(x, pos)
				r.rotate(x, rank)
			}
		}
	})
	return out
}

// addVirtual adds each list's compensation token to what attention found without it (RazorAttention, Tang et al., 2024,
// eq. 5). The token stands for n keys of mean k̃: its logit is q·k̃/√D + ln n.
func (r *run) addVirtual(pages []Pages) error {
	f, s, d := &r.follow, &r.shape, r.shape.HeadDim
	t := &f.tokens
	t.clear()
	for head := range pages {
		l := pages[head].List
		if l.Absorbed == 0 || l.Live == 0 || len(l.Sums) == 0 {
			continue
		}
		if !t.ready {
			to := r.a.To
			if r.a.Stored {
				to = 0
			}
			if err := r.gather(r.a, pages, to, true, false); err != nil {
				return err
			}
			if err := r.atLeast(&f.logits, "rows of attention", r.b.workers*ColumnRows*(t.room+3)); err != nil {
				return err
			}
		}
		k, v, n := pages[head].compensation()
		keys, work := t.of(t.keys, head, d), len(f.logits.data)/r.b.workers
		group, query := s.Heads/s.KVHeads, s.Heads*d
		q, out := r.chunkRows(step.Q, query), r.chunkRows(step.A, query)
		r.b.parallel(r.n*group, 1, func(worker, from, to int) {
			for i := from; i < to; i++ {
				row, at := i/group, i/group*query+(head*group+i%group)*d
				logits := f.logits.data[worker*work:][:r.rank(&pages[head], row)+1]
				r.b.loops.Dots(logits, q[at:][:d], keys, r.scale())
				p := share(logits, r.virtualLogit(q[at:][:d], k, n))
				for c := range d {
					o := &out[at+c]
					*o = float32((1-p)*float64(*o) + p*float64(v[c]))
				}
			}
		})
	}
	return nil
}

// share is the softmax probability of one more logit.
func share(logits []float32, more float64) float64 {
	top := more
	for _, l := range logits {
		top = max(top, float64(l))
	}
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - top)
	}
	p := math.Exp(more - top)
	return p / (sum + p)
}

// attendPages lets each query head of a decoded token see only the pages that could matter to it (Quest, Tang et al.,
// 2024).
func (r *run) attendPages(pages []Pages) error {
	s, d := &r.shape, r.shape.HeadDim
	t := &r.follow.tokens
	for h := range pages {
		if pages[h].Geo.Bound == 0 || pages[h].List.Live == 0 {
			return r.failed("attend to pages: the cache has no bounds of pages, or no tokens")
		}
	}
	t.clear()
	if err := r.gather(r.a, pages, 0, false, false); err != nil {
		return err
	}
	for name, to := range map[string]*scratch{"keys of a layer": &t.keys, "values of a layer": &t.values} {
		if err := r.atLeast(to, name, len(pages)*t.room*d); err != nil {
			return err
		}
	}
	group := s.Heads / s.KVHeads
	q, out := r.chunkRows(step.Q, s.Heads*d), r.chunkRows(step.A, s.Heads*d)
	r.b.parallel(len(pages), 1, func(worker, from, to int) {
		for head := from; head < to; head++ {
			p, keys, values := &pages[head], t.of(t.keys, head, d), t.of(t.values, head, d)
			slots := make([]uint32, 0, p.List.Live)
			for h := head * group; h < (head+1)*group; h++ {
				reads := r.reads(p, q[h*d:][:d])
				slots = slots[:0]
				for _, slot := range p.List.Order() {
					if reads[int(slot)/p.Geo.Bound] {
						slots = append(slots, slot)
					}
				}
				n := len(slots)
				r.b.loops.Gather(keys, p.KeyLanes(), slots)
				r.b.loops.Gather(values, p.ValueLanes(), slots)
				r.b.loops.Attend(&Attention{
					Pages: Pages{List: &nothing, Geo: p.Geo}, Rows: 1, Heads: 1, Dim: d,
					Q: q[h*d:], Out: out[h*d:], Stride: s.Heads * d, Scale: r.scale(), Work: r.workOf(worker),
					NewK: keys[:n*d], NewV: values[:n*d], NewStride: d, First: n - 1,
				})
			}
		}
	})
	return nil
}

// reads marks the pages of bounds that a query reads: that of the newest token, and those with the largest bounds.
func (e *exec) reads(p *Pages, q []float32) []bool {
	plan, order := &e.follow.plan.Store, p.List.Order()
	marked := make([]bool, len(p.List.Bounds))
	if len(order) == 0 {
		return marked
	}
	most := make([]float32, len(marked))
	for i := range most {
		stage.PageScores(most[i:i+1], q, p.bounds(i))
	}
	stage.Pages(marked, most, int(order[len(order)-1])/p.Geo.Bound, plan.Read/p.Geo.Bound, nil)
	return marked
}

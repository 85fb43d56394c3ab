package ref

import "kvlens/wasm/step"

// tokens are the tokens of one layer as plain rows: those that are stored, in the order of their positions, and then
// rows of K and V that are not stored yet.
type tokens struct {
	heads        []head  // [n_kv_heads]
	keys, values scratch // [n_kv_heads][room][head_dim], where they were asked for
	room         int
	rows         int  // rows of K and V that have joined
	ready        bool // the stored ones are there
}

// head is the tokens of one KV head.
type head struct {
	slots []uint32 // of those that are stored; the cache's own
	pos   []int32  // of all
}

func (t *tokens) clear() { t.rows, t.ready = 0, false }

// of are the rows of one head.
func (t *tokens) of(s scratch, kvHead, dim int) []float32 {
	if s.data == nil {
		return nil
	}
	return s.data[kvHead*t.room*dim:][:len(t.heads[kvHead].pos)*dim]
}

// gather makes sure that the stored tokens of a layer and the rows of K and V before to are there. Keys are as attention
// sees them: where a plan counts positions by rank, rotated by it.
func (e *exec) gather(a *step.Args, pages []Pages, to int, keys, values bool) error {
	t, d := &e.follow.tokens, e.shape.HeadDim
	if !t.ready {
		if err := e.gatherStored(a, pages, keys, values); err != nil {
			return err
		}
	}
	width, byRank := e.shape.KVHeads*d, e.follow.plan.Store.Rank
	k, v := e.named[step.K].data, e.named[step.V].data
	for h := range pages {
		hd := &t.heads[h]
		for row := t.rows; row < to; row++ {
			n := len(hd.pos)
			hd.pos = append(hd.pos, int32(a.Pos+row))
			if keys {
				key := t.of(t.keys, h, d)[n*d:]
				copy(key, k[row*width+h*d:][:d])
				if pos := a.Pos + row; byRank && pos != n {
					e.unrotate(key, pos)
					e.rotate(key, n)
				}
			}
			if values {
				copy(t.of(t.values, h, d)[n*d:], v[row*width+h*d:][:d])
			}
		}
	}
	t.rows = max(t.rows, to)
	return nil
}

// gatherStored begins with the tokens that are stored.
func (e *exec) gatherStored(a *step.Args, pages []Pages, keys, values bool) error {
	t, d := &e.follow.tokens, e.shape.HeadDim
	if t.heads == nil {
		t.heads = make([]head, len(pages))
	}
	most := 0
	for h := range pages {
		hd, l := &t.heads[h], pages[h].List
		n := l.Live + len(a.IDs)
		if cap(hd.pos) < n {
			e.count(-4 * cap(hd.pos))
			hd.pos = make([]int32, 0, n+n/8)
			e.count(4 * cap(hd.pos))
		}
		hd.slots, hd.pos = l.Order(), hd.pos[:0]
		for _, slot := range hd.slots {
			hd.pos = append(hd.pos, int32(l.At[slot]))
		}
		most = max(most, n)
	}
	if most > t.room {
		t.room = most + most/8 // decoding asks for one more each time
		for _, s := range []*scratch{&t.keys, &t.values} {
			e.b.Free(s.buf)
			*s = scratch{}
		}
	}
	for _, s := range []struct {
		on   bool
		name string
		to   *scratch
	}{{keys, "keys of a layer", &t.keys}, {values, "values of a layer", &t.values}} {
		if s.on {
			if err := e.atLeast(s.to, s.name, len(pages)*t.room*d); err != nil {
				return err
			}
		}
	}
	e.b.parallel(len(pages), 1, func(_, from, to int) {
		for h := from; h < to; h++ {
			p, slots := &pages[h], t.heads[h].slots
			if keys {
				e.b.loops.Gather(t.of(t.keys, h, d), p.KeyLanes(), slots)
				if e.follow.plan.Store.Rank {
					for i := range slots {
						e.rotate(t.of(t.keys, h, d)[i*d:][:d], i)
					}
				}
			}
			if values {
				e.b.loops.Gather(t.of(t.values, h, d), p.ValueLanes(), slots)
			}
		}
	})
	t.ready = true
	return nil
}

package ref

import (
	"slices"

	"kvlens/cache"
	"kvlens/wasm/step"
)

// store writes the run's rows of K and V, and their positions, to their slots. Rows without a slot are left out.
func (r *run) store(layer int) error {
	pages, err := r.pages(r.a, layer)
	if err != nil {
		return err
	}
	s := &r.shape
	if len(r.a.Slots) != s.KVHeads {
		return r.failed("store: slots for %d of %d KV heads", len(r.a.Slots), s.KVHeads)
	}
	for h := range pages {
		p, slots := &pages[h], r.a.Slots[h]
		if len(slots) < r.a.To {
			return r.failed("store: slots for %d of %d rows", len(slots), r.a.To)
		}
		for t := r.a.From; t < r.a.To; t++ {
			if slot := slots[t]; slot != cache.NoSlot && int(slot) >= p.List.Slots {
				return r.failed("store: slot %d of %d", slot, p.List.Slots)
			}
		}
	}
	for h := range pages {
		r.storeHead(&pages[h], h, r.a.Slots[h])
	}
	return nil
}

// storeHead writes one KV head's rows. Their accumulated attention begins at 0, and the bounds of their pages grow.
func (r *run) storeHead(p *Pages, head int, slots []uint32) {
	var bounded []int // pages of bounds
	for t := r.a.From; t < r.a.To; t++ {
		if slots[t] == cache.NoSlot {
			continue
		}
		slot := int(slots[t])
		r.packRow(p.Geo, head, t, r.a.Pos+t, p.Key(slot), p.Value(slot))
		*p.Position(slot) = uint32(r.a.Pos + t)
		if len(p.List.Scores) > 0 {
			*p.Score(slot) = 0
		}
		if p.Geo.Bound > 0 && !slices.Contains(bounded, slot/p.Geo.Bound) {
			bounded = append(bounded, slot/p.Geo.Bound)
		}
	}
	for _, page := range bounded {
		p.bound(page)
	}
}

// packRow writes row t of K and V, at position pos, as pages hold them.
func (e *exec) packRow(geo cache.Geometry, head, t, pos int, key, value []byte) {
	d := e.shape.HeadDim
	at := (t*e.shape.KVHeads + head) * d
	k := e.named[step.K].data[at:][:d]
	if e.follow.plan != nil && e.follow.plan.Store.Rank {
		k = append(e.workOf(0)[:0], k...)
		e.unrotate(k, pos)
	}
	pack(key, geo.Key, k)
	pack(value, geo.Value, e.named[step.V].data[at:][:d])
}

// Pack writes rows of K and V of one KV head as Store would, each row's key and then its value.
func (e *exec) Pack(a *step.Args, layer, kvHead int, rows []int32, dst []byte) error {
	p, err := e.list(a, layer, kvHead)
	if err != nil {
		return err
	}
	key, value := p.Geo.HeadDim*p.Geo.Key.Bytes(), p.Geo.HeadDim*p.Geo.Value.Bytes()
	if len(dst) != len(rows)*(key+value) {
		return e.failed("pack: %d rows into %d bytes", len(rows), len(dst))
	}
	for _, row := range rows {
		if row < 0 || int(row) >= min(len(a.IDs), e.rows) {
			return e.failed("pack: row %d of %d", row, len(a.IDs))
		}
		e.packRow(p.Geo, kvHead, int(row), a.Pos+int(row), dst[:key], dst[key:][:value])
		dst = dst[key+value:]
	}
	return nil
}

var _ step.Packer = (*exec)(nil)

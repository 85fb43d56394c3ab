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
	d := r.shape.HeadDim
	width := r.shape.KVHeads * d
	k, v := r.named[step.K].data, r.named[step.V].data
	byRank := r.follow.plan != nil && r.follow.plan.Store.Rank
	turned := r.workOf(0)[:d]
	var bounded []int // pages of bounds
	for t := r.a.From; t < r.a.To; t++ {
		if slots[t] == cache.NoSlot {
			continue
		}
		slot, at := int(slots[t]), t*width+head*d
		key := k[at:][:d]
		if byRank {
			key = append(turned[:0], key...)
			r.unrotate(key, r.a.Pos+t)
		}
		pack(p.Key(slot), p.Geo.Key, key)
		pack(p.Value(slot), p.Geo.Value, v[at:][:d])
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

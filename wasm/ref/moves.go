package ref

import (
	"math"

	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// Absorb adds tokens that leave to a list's compensation token: slots of stored ones, and rows of K and V.
func (e *exec) Absorb(a *step.Args, layer, kvHead int, slots []uint32, rows []int32) error {
	p, err := e.list(a, layer, kvHead)
	if err != nil {
		return err
	}
	if len(slots)+len(rows) == 0 {
		return nil
	}
	if len(p.List.Sums) == 0 {
		return e.failed("absorb: the list has no record of sums")
	}
	if err := e.checkSlots("absorb", p, slots); err != nil {
		return err
	}
	for _, row := range rows {
		if row < 0 || int(row) >= min(len(a.IDs), e.rows) {
			return e.failed("absorb: row %d of %d", row, len(a.IDs))
		}
	}
	d := e.shape.HeadDim
	sums := p.sums()
	if p.List.Absorbed == 0 {
		clear(sums)
	}
	add := func(to, x []float32) {
		for c, v := range x {
			to[c] += v
		}
	}
	x := e.workOf(0)[:d]
	for _, slot := range slots {
		unpack(x, p.Geo.Key, p.Key(int(slot)))
		add(sums[:d], x)
		unpack(x, p.Geo.Value, p.Value(int(slot)))
		add(sums[d:], x)
	}
	for _, row := range rows {
		at := (int(row)*e.shape.KVHeads + kvHead) * d
		add(sums[:d], e.named[step.K].data[at:][:d])
		add(sums[d:], e.named[step.V].data[at:][:d])
	}
	a.Cache.Absorb(layer, kvHead, len(slots)+len(rows))
	sums[2*d] = float32(p.List.Absorbed)
	return nil
}

// compensated is the mean of the keys that left a list, and their number: 0 where there is no compensation token.
func (e *exec) compensated(p *Pages) (k []float32, n float64) {
	if e.follow.plan == nil || !e.follow.plan.Store.Virtual || p.List.Absorbed == 0 {
		return nil, 0
	}
	k, _, n = p.compensation()
	return k, n
}

// virtualLogit is the logit of a compensation token for n keys of mean k.
func (e *exec) virtualLogit(q, k []float32, n float64) float64 {
	return dot64(q, k)/math.Sqrt(float64(e.shape.HeadDim)) + math.Log(n)
}

// compensation is the means of the keys and values that left a list, and how many they are.
func (p *Pages) compensation() (k, v []float32, n float64) {
	sums, d := p.sums(), p.Geo.HeadDim
	mean := make([]float32, 2*d)
	for i := range mean {
		mean[i] = sums[i] / sums[2*d]
	}
	return mean[:d], mean[d:], float64(sums[2*d])
}

// Move copies tokens from slot to slot of one list.
func (e *exec) Move(a *step.Args, layer, kvHead int, moves []cache.Move) error {
	p, err := e.list(a, layer, kvHead)
	if err != nil {
		return err
	}
	// The list is as long as it is after the moves; its pages are those of before.
	l := p.List
	room := min(len(l.Keys)*p.Geo.PageK, len(l.Values)*p.Geo.PageV, len(l.Positions)*cache.PosLanes)
	if p.Geo.Scores {
		room = min(room, len(l.Scores)*cache.PosLanes)
	}
	for _, m := range moves {
		if int64(m.From) >= int64(room) || int64(m.To) >= int64(room) {
			return e.failed("move: slot %d to %d of %d", m.From, m.To, room)
		}
	}
	for _, m := range moves {
		from, to := int(m.From), int(m.To)
		copy(p.Key(to), p.Key(from))
		copy(p.Value(to), p.Value(from))
		*p.Position(to) = *p.Position(from)
		if p.Geo.Scores {
			*p.Score(to) = *p.Score(from)
		}
	}
	if p.Geo.Bound > 0 && len(moves) > 0 {
		for page := range (l.Slots + p.Geo.Bound - 1) / p.Geo.Bound {
			p.bound(page)
		}
	}
	return nil
}

// Relocate copies whole pages within the arena, one after the other.
func (e *exec) Relocate(a *step.Args, pages []cache.PageMove) error {
	if a.Cache == nil {
		return e.failed("no cache")
	}
	arena, err := e.b.bytes(a.Arena, 0, a.Cache.Cap()&^3)
	if err != nil {
		return e.failed("arena: %v", err)
	}
	words := quant.Uint32s(arena)
	for _, m := range pages {
		if end := max(int64(m.From), int64(m.To)) + int64(m.Words); end > int64(len(words)) {
			return e.failed("relocate: %d words from %d to %d of %d", m.Words, m.From, m.To, len(words))
		}
		copy(words[m.To:], words[m.From:][:m.Words])
	}
	return nil
}

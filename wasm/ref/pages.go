package ref

import (
	"kvlens/cache"
	"kvlens/cache/policy/stage"
	"kvlens/wasm/quant"
)

// Pages finds the lanes of one list in the arena.
type Pages struct {
	Arena []byte
	List  *cache.List
	Geo   cache.Geometry
}

// Key is the lane that holds the key of a slot: Geo.HeadDim numbers in the format Geo.Key.
func (p *Pages) Key(slot int) []byte {
	size := p.Geo.HeadDim * p.Geo.Key.Bytes()
	at := int(p.List.Keys[slot/p.Geo.PageK])*4 + slot%p.Geo.PageK*size
	return p.Arena[at:][:size]
}

// Value is the lane that holds the value of a slot.
func (p *Pages) Value(slot int) []byte {
	size := p.Geo.HeadDim * p.Geo.Value.Bytes()
	at := int(p.List.Values[slot/p.Geo.PageV])*4 + slot%p.Geo.PageV*size
	return p.Arena[at:][:size]
}

// Position is the word that holds the position of a slot, cache.DeadPosition if there is no token.
func (p *Pages) Position(slot int) *uint32 {
	at := int(p.List.Positions[slot/cache.PosLanes])*4 + slot%cache.PosLanes*4
	return &quant.Uint32s(p.Arena[at:][:4])[0]
}

// unpack writes the numbers of a lane.
func unpack(dst []float32, f cache.Format, lane []byte) {
	if f == cache.F32 {
		copy(dst, quant.Float32s(lane))
		return
	}
	halves := quant.Uint16s(lane)
	dst = dst[:len(halves)]
	for i, h := range halves {
		dst[i] = quant.Half(h)
	}
}

// pack rounds numbers to the format of a lane, to nearest even.
func pack(lane []byte, f cache.Format, src []float32) {
	if f == cache.F32 {
		copy(quant.Float32s(lane), src)
		return
	}
	halves := quant.Uint16s(lane)
	src = src[:len(halves)]
	for i, v := range src {
		halves[i] = quant.ToHalf(v)
	}
}

// Lanes are the pages of one list that hold its keys, or its values.
type Lanes struct {
	Arena  []byte
	Table  []uint32 // offsets of pages in words
	Lanes  int      // of a page
	Format cache.Format
	Dim    int
}

// KeyLanes are the key pages of a list, ValueLanes its value pages.
func (p *Pages) KeyLanes() *Lanes {
	return &Lanes{p.Arena, p.List.Keys, p.Geo.PageK, p.Geo.Key, p.Geo.HeadDim}
}

// ValueLanes are the value pages of a list.
func (p *Pages) ValueLanes() *Lanes {
	return &Lanes{p.Arena, p.List.Values, p.Geo.PageV, p.Geo.Value, p.Geo.HeadDim}
}

// Lane is the lane of a slot.
func (l *Lanes) Lane(slot int) []byte {
	size := l.Dim * l.Format.Bytes()
	return l.Arena[int(l.Table[slot/l.Lanes])*4+slot%l.Lanes*size:][:size]
}

// Score is the accumulated attention of a slot.
func (p *Pages) Score(slot int) *float32 {
	return &quant.Float32s(p.Arena[4*p.scoreWord(uint32(slot)):][:4])[0]
}

// scoreWord is where it lies in the arena, in words.
func (p *Pages) scoreWord(slot uint32) int {
	return int(p.List.Scores[slot/cache.PosLanes] + slot%cache.PosLanes)
}

// sums is the record of a list's compensation token: Σk and Σv of what left, and how many they are.
func (p *Pages) sums() []float32 {
	return quant.Float32s(p.Arena[int(p.List.Sums[0])*4:][:4*(2*p.Geo.HeadDim+1)])
}

// bury writes the dead slots of a list to its position pages.
func (p *Pages) bury() {
	if p.List.Live == p.List.Slots {
		return
	}
	for slot, pos := range p.List.At {
		if pos == cache.DeadPosition {
			*p.Position(slot) = pos
		}
	}
}

// bounds are the minima and then the maxima of the keys of a page of slots, channel by channel.
func (p *Pages) bounds(page int) []float32 {
	return quant.Float32s(p.Arena[int(p.List.Bounds[page])*4:][:8*p.Geo.HeadDim])
}

// bound computes the bounds of a page from its keys; when the last of its slots gets its token, they are right.
func (p *Pages) bound(page int) {
	bounds, key := p.bounds(page), make([]float32, p.Geo.HeadDim)
	first := true
	for slot := page * p.Geo.Bound; slot < min(p.List.Slots, (page+1)*p.Geo.Bound); slot++ {
		if p.List.At[slot] == cache.DeadPosition {
			continue
		}
		unpack(key, p.Geo.Key, p.Key(slot))
		stage.Bound(bounds, key, first)
		first = false
	}
}

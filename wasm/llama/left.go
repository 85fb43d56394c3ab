package llama

import (
	"slices"

	"kvlens/cache"
	"kvlens/wasm/step"
)

// departures say since when tokens are not in lists any more: four bytes for each list and token up to the last one that
// left. Time is how many tokens the conversation had: a query at a position sees what left later than that.
type departures struct {
	led  *cache.Ledger
	at   [][]int32 // [list][position], 0 for tokens that have not left
	gaps []gap
}

// gap is when a token was not in a list that has it again.
type gap struct{ list, position, from, to int32 }

// put says that a token has left.
func (d *departures) put(list int, position, time int32) {
	at := &d.at[list]
	if n := int(position) + 1; n > len(*at) {
		had := cap(*at)
		*at = slices.Grow(*at, n-len(*at))[:n]
		d.count(cap(*at) - had)
	}
	(*at)[position] = time
}

// back says that a token that had left is there again.
func (d *departures) back(list int, position, time int32) {
	d.gaps = append(d.gaps, gap{int32(list), position, d.at[list][position], time})
	d.at[list][position] = 0
}

// any says whether a token has ever left a list.
func (d *departures) any(list int) bool {
	return slices.ContainsFunc(d.at[list], func(time int32) bool { return time > 0 }) ||
		slices.ContainsFunc(d.gaps, func(g gap) bool { return int(g.list) == list })
}

// sees says whether the query at position i sees the token at position j, which is not after it.
func (d *departures) sees(list, i, j int) bool {
	if j < len(d.at[list]) && d.at[list][j] > 0 && i >= int(d.at[list][j]) {
		return false
	}
	return !slices.ContainsFunc(d.gaps, func(g gap) bool {
		return int(g.list) == list && int(g.position) == j && i >= int(g.from) && i < int(g.to)
	})
}

// left is when each of the first n tokens left a list, −1 for those that are there.
func (d *departures) left(list, n int) []int32 {
	out := slices.Repeat([]int32{-1}, n)
	for p, time := range d.at[list] {
		if time > 0 {
			out[p] = time
		}
	}
	return out
}

func (d *departures) count(words int) { d.led.Add(cache.Aux, 4*int64(words), 4*int64(words)) }

// clear forgets everything.
func (d *departures) clear() {
	for i, at := range d.at {
		d.count(-cap(at))
		d.at[i] = nil
	}
	d.gaps = nil
}

// load makes the record that of another one.
func (d *departures) load(from *departures) {
	d.clear()
	for i, at := range from.at {
		d.at[i] = slices.Clone(at)
		d.count(cap(d.at[i]))
	}
	d.gaps = slices.Clone(from.gaps)
}

// copied is a copy that is in no ledger, and its size in bytes.
func (d *departures) copied() (out departures, bytes int64) {
	out.at = make([][]int32, len(d.at))
	for i, at := range d.at {
		out.at[i] = slices.Clone(at)
		bytes += 4 * int64(cap(out.at[i]))
	}
	out.gaps = slices.Clone(d.gaps)
	return out, bytes
}

// depart notes which tokens are about to leave a list, stored ones by their slots and rows of the turn that get none, and
// copies them if they are to have a shadow.
func (r *runner) depart(layer, h int, slots []uint32, rows []int32) error {
	s := r.s
	list, l := layer*s.geo.KVHeads+h, s.cache.List(layer, h)
	time := int32(r.args.Pos + len(r.args.IDs))
	for _, slot := range slots {
		position := int32(l.At[slot])
		s.gone.put(list, position, time)
		if s.shadow == nil {
			continue
		}
		lane := s.shadow.put(list, position)
		key, value := s.lanes(l, slot)
		size := s.geo.HeadDim * s.geo.Key.Bytes()
		if err := s.m.backend.Read(s.arena, key, lane[:size]); err != nil {
			return err
		}
		if err := s.m.backend.Read(s.arena, value, lane[size:]); err != nil {
			return err
		}
	}
	var packed []byte
	if s.shadow != nil && len(rows) > 0 {
		packed = make([]byte, len(rows)*s.shadow.lane)
		if err := s.m.exec.(step.Packer).Pack(&r.args, layer, h, rows, packed); err != nil {
			return err
		}
	}
	for i, row := range rows {
		position := int32(r.args.Pos) + row
		s.gone.put(list, position, time)
		if s.shadow != nil {
			copy(s.shadow.put(list, position), packed[i*s.shadow.lane:])
		}
	}
	return nil
}

// sweep notes what a device has let go of the tokens so far, of which some may be known to have left before.
func (s *Session) sweep(tokens int) {
	for i := range s.gone.at {
		l := s.cache.List(i/s.geo.KVHeads, i%s.geo.KVHeads)
		rank := 0
		for p := range tokens {
			switch {
			case rank < l.Live && l.At[l.Order()[rank]] == uint32(p):
				rank++
			case p >= len(s.gone.at[i]) || s.gone.at[i][p] == 0:
				s.gone.put(i, int32(p), int32(tokens))
			}
		}
	}
}

// lanes are where the key and the value of a slot lie, in bytes of the arena.
func (s *Session) lanes(l *cache.List, slot uint32) (key, value int64) {
	at := func(page uint32, lane, bytes int) int64 { return 4*int64(page) + int64(lane*s.geo.HeadDim*bytes) }
	k, v := int(slot)/s.geo.PageK, int(slot)/s.geo.PageV
	return at(l.Keys[k], int(slot)%s.geo.PageK, s.geo.Key.Bytes()), at(l.Values[v], int(slot)%s.geo.PageV, s.geo.Value.Bytes())
}

package cache

import "math"

// tables is how many page tables a list has.
const tables = 6

// table is how one kind of page of a list is made. A geometry without that kind has 0 lanes.
type table struct {
	kind  Kind
	lanes int64 // slots a page serves
	units int64 // of the arena, a page
	lane  int64 // logical bytes a live token
	whole int64 // logical bytes a page, where they are not those of tokens
}

// tables lists the tables of every list, in the order of [List.table].
func (g Geometry) tables() [tables]table {
	key, value := int64(g.HeadDim*g.Key.Bytes()), int64(g.HeadDim*g.Value.Bytes())
	t := [tables]table{
		{kind: g.Key.Kind(), lanes: int64(g.PageK), lane: key},
		{kind: g.Value.Kind(), lanes: int64(g.PageV), lane: value},
		{kind: Positions, lanes: PosLanes, lane: wordBytes},
		{kind: Scores},
		{kind: Bounds, lanes: int64(g.Bound), whole: int64(2*g.HeadDim) * wordBytes},
		{kind: Sums},
	}
	if g.Scores {
		t[3].lanes, t[3].lane = PosLanes, wordBytes
	}
	if g.Sums {
		t[5].lanes, t[5].whole = math.MaxInt64, int64(2*g.HeadDim+1)*wordBytes
	}
	for i := range t {
		t[i].units = ceilDiv(t[i].lanes*t[i].lane+t[i].whole, unit)
	}
	return t
}

// pages is the number of pages for n slots.
func (t table) pages(n int) int64 {
	if t.lanes == 0 {
		return 0
	}
	return ceilDiv(int64(n), t.lanes)
}

// table is one of a list's tables, in the order of [Geometry.tables].
func (l *List) table(i int) *[]uint32 { return l.words()[i] }

// words are all that a list keeps on the host: tables, positions and order.
func (l *List) words() [tables + 2]*[]uint32 {
	return [tables + 2]*[]uint32{&l.Keys, &l.Values, &l.Positions, &l.Scores, &l.Bounds, &l.Sums, &l.At, &l.order}
}

package cache

import (
	"sort"
)

// Move is a copy of one token from slot to slot of one list.
type Move struct{ From, To uint32 }

// PageMove is a copy of Words 4-byte words within the arena; source and destination may overlap.
type PageMove struct{ From, To, Words uint32 }

// NoSlot marks a row that is not stored.
const NoSlot = 0xFFFFFFFF

// Compact moves the last tokens of a list into its dead slots, so that slots 0…Live−1 are left. The caller copies what
// the slots hold, in any order, before anything else is put into the list, and then calls [Cache.Trim].
func (c *Cache) Compact(layer, kvHead int) []Move {
	l := c.List(layer, kvHead)
	if l.Live == l.Slots {
		return nil
	}
	var moves []Move
	from := l.Slots
	for to := l.hole; to < l.Live; to++ {
		if l.At[to] != DeadPosition {
			continue
		}
		for from--; l.At[from] == DeadPosition; from-- {
		}
		rank, _ := l.rank(l.At[from])
		l.order[rank] = uint32(to)
		l.At[to], l.At[from] = l.At[from], DeadPosition
		moves = append(moves, Move{uint32(from), uint32(to)})
	}
	l.At = l.At[:l.Live]
	l.Slots = l.Live
	c.epoch++
	return moves
}

// Trim frees the pages of a list that its slots do not need.
func (c *Cache) Trim(layer, kvHead int) {
	l := c.List(layer, kvHead)
	if l.room > l.Slots {
		c.shrink(l, l.Slots)
		l.room = l.Slots
		c.epoch++
	}
}

// Gather moves pages towards the arena's start so that all free bytes are one run. The caller copies in the order of
// the moves, before anything else is written to the arena; each goes to a lower place.
func (c *Cache) Gather() []PageMove {
	type page struct {
		at    *uint32
		units int64
	}
	var pages []page
	for i := range c.lists {
		for j, t := range c.tables {
			offsets := *c.lists[i].table(j)
			for k := range offsets {
				pages = append(pages, page{&offsets[k], t.units})
			}
		}
	}
	sort.Slice(pages, func(a, b int) bool { return *pages[a].at < *pages[b].at })
	var moves []PageMove
	var end uint32
	for _, p := range pages {
		words := uint32(p.units * (unit / wordBytes))
		if from := *p.at; from != end {
			if n := len(moves); n > 0 && moves[n-1].From+moves[n-1].Words == from {
				moves[n-1].Words += words
			} else {
				moves = append(moves, PageMove{from, end, words})
			}
			*p.at = end
		}
		end += words
	}
	c.arena.gather()
	return moves
}

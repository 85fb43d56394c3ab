package cache

import (
	"math"
	"sort"
)

// Budget is how many tokens a cap keeps.
type Budget struct {
	Tokens  int // B: of a list; on average, where lists may differ in length
	Reserve int // slots of a list beyond B, which decoding fills before it evicts
	Slots   int // of all lists together
}

// ReserveFor is the reserve of a budget of B tokens: one slot for a recipe that evicts at every step, else an eighth of
// B, at least one and at most sixteen.
func ReserveFor(tokens int, perStep bool) int {
	if perStep {
		return 1
	}
	return min(max(tokens/8, 1), 16)
}

// Budget is the largest B for which B + reserve tokens a list fit in capBytes. Lists of equal length waste part of their
// last pages equally; ragged ones, whose lengths differ by layer or head, may waste up to P − 1 lanes each in every kind
// of page, whatever their lengths, so that of pages·P slots only pages·P − lists·(P−1) can be promised. It is zero if no
// token fits beside the reserve.
func (g Geometry) Budget(capBytes int64, perStep, ragged bool) Budget {
	g = g.WithPages(capBytes)
	if g.check() != nil || capBytes < 1 {
		return Budget{}
	}
	lists := g.Layers * g.KVHeads
	slots := g.FullTokens(capBytes) * lists
	if ragged {
		slots = g.raggedSlots(capBytes)
	}
	each := slots / lists
	b := sort.Search(each, func(n int) bool { return n+1+ReserveFor(n+1, perStep) > each })
	if b == 0 {
		return Budget{}
	}
	return Budget{Tokens: b, Reserve: ReserveFor(b, perStep), Slots: slots}
}

// RaggedBytes is enough for so many slots, however they are spread over the lists.
func (g Geometry) RaggedBytes(slots int) int64 {
	if g.check() != nil || slots < 1 {
		return 0
	}
	lists := int64(g.Layers * g.KVHeads)
	var units int64
	for _, t := range g.tables() {
		pages := lists // of records of a whole list
		switch {
		case t.lanes == 0:
			pages = 0
		case t.lanes < math.MaxInt64:
			waste := lists * (t.lanes - 1)
			pages = ceilDiv(min(int64(slots), math.MaxInt64-waste)+waste, t.lanes)
		}
		units += saturate(pages, t.units)
	}
	if units > math.MaxInt64/unit {
		return math.MaxInt64
	}
	return units * unit
}

// raggedSlots is the largest number of slots whose RaggedBytes fit.
func (g Geometry) raggedSlots(capBytes int64) int {
	capBytes = min(capBytes, MaxCap)
	return sort.Search(int(capBytes), func(n int) bool { return g.RaggedBytes(n+1) > capBytes })
}

// Share is a share of what a full cache of so many tokens allocates, rounded up to whole pages of every list. What
// recipes keep beside keys, values and positions is not part of Full, so that one share is one cap for all of them.
func (g Geometry) Share(tokens int, share float64) int64 {
	g.Scores, g.Bound, g.Sums = false, 0, false
	full := g.full(tokens)
	if !(share > 0) || full == 0 {
		return 0
	}
	if share >= 1 {
		return full
	}
	part := int64(math.Ceil(share*float64(full) - dust))
	fit := g.WithPages(part)
	if n := fit.FullTokens(part); fit.FullBytes(n) < part {
		part = fit.FullBytes(n + 1)
	}
	if wide := g.WithPages(part); wide != fit { // rounding up has bought just enough slots for wide pages
		part = wide.FullBytes(fewSlots)
	}
	return part
}

// dust is what a share in floating point may be above a whole number of bytes.
const dust = 1e-3

// full is what a full cache of so many tokens allocates, in the pages that suit its size.
func (g Geometry) full(tokens int) int64 {
	wide := g
	if wide.PageK == 0 {
		wide.PageK = widePage
	}
	if wide.PageV == 0 {
		wide.PageV = widePage
	}
	return g.WithPages(wide.FullBytes(tokens)).FullBytes(tokens)
}

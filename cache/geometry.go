package cache

import (
	"fmt"
	"math"
	"math/bits"
	"sort"
)

// Format is how a key or value page stores its numbers.
type Format uint8

// The page formats. Quantised formats join here with their recipes.
const (
	F32 Format = iota
	F16
	formats
)

// Bytes is the size of one number.
func (f Format) Bytes() int {
	if f == F16 {
		return 2
	}
	return 4
}

// Kind is the ledger's line for pages of this format.
func (f Format) Kind() Kind {
	if f == F16 {
		return KVF16
	}
	return KVF32
}

// DeadPosition marks a slot that holds no token.
const DeadPosition = 0xFFFFFFFF

const (
	// PosLanes is the number of lanes of a page of positions or scores, wordBytes the size of one of them.
	PosLanes  = 8
	wordBytes = 4

	// MaxPage is the largest number of lanes of a key or value page.
	MaxPage = 32

	// Pages have widePage lanes, unless the cap buys so few slots a list that whole pages would waste much of it.
	widePage, narrowPage, fewSlots = 8, 2, 64

	// MaxCap is the largest arena in bytes: page tables count 4-byte words in 32 bits.
	MaxCap = 4 << 32

	// Bounds of a model's shape, far above any real one, that keep the arithmetic of sizes within 64 bits.
	maxLists, maxHeadDim, maxBound = 1 << 20, 1 << 16, 1 << 16
)

// Geometry is what the cache must know of a model and of its pages.
type Geometry struct {
	Layers, KVHeads, HeadDim int
	Key, Value               Format
	PageK, PageV             int // lanes per page, P_k and P_v; 0 lets New choose by the cap

	// What some recipes keep beside every list, in pages of the arena too.
	Scores bool // accumulated attention: one f32 a slot, PosLanes a page
	Bound  int  // Quest: slots of which one page holds minima and maxima, 2·head_dim f32; 0 is none
	Sums   bool // RazorAttention: one record of 2·head_dim+1 f32 a list, from its first slot on
}

func (g Geometry) check() error {
	switch {
	case g.Layers < 1 || g.KVHeads < 1 || g.Layers > maxLists || g.KVHeads > maxLists/g.Layers:
		return fmt.Errorf("cache: geometry: %d layers × %d KV heads: want 1…%d lists", g.Layers, g.KVHeads, maxLists)
	case g.HeadDim < 1 || g.HeadDim > maxHeadDim:
		return fmt.Errorf("cache: geometry: head dimension %d: want 1…%d", g.HeadDim, maxHeadDim)
	case g.Key >= formats || g.Value >= formats:
		return fmt.Errorf("cache: geometry: page formats %d, %d: unknown", g.Key, g.Value)
	case g.PageK < 1 || g.PageK > MaxPage || g.PageV < 1 || g.PageV > MaxPage:
		return fmt.Errorf("cache: geometry: pages of %d and %d lanes: want 1…%d", g.PageK, g.PageV, MaxPage)
	case g.Bound < 0 || g.Bound > maxBound:
		return fmt.Errorf("cache: geometry: bounds of %d slots: want 0…%d", g.Bound, maxBound)
	}
	return nil
}

// WithPages sets the page sizes that are still 0 to what suits a cap: 8 lanes, or 2 when the cap buys fewer than 64
// slots a list.
func (g Geometry) WithPages(capBytes int64) Geometry {
	wide := g
	wide.PageK, wide.PageV = widePage, widePage
	lanes := widePage
	if wide.FullTokens(capBytes) < fewSlots {
		lanes = narrowPage
	}
	if g.PageK == 0 {
		g.PageK = lanes
	}
	if g.PageV == 0 {
		g.PageV = lanes
	}
	return g
}

// FullBytes is what the lists of a full cache of n tokens allocate, all kinds of pages together, in whole pages.
// It is 0 for an invalid geometry or n < 1, and math.MaxInt64 where the size does not fit.
func (g Geometry) FullBytes(n int) int64 {
	if g.check() != nil || n < 1 {
		return 0
	}
	hi, units := bits.Mul64(uint64(g.listUnits(n)), uint64(g.Layers*g.KVHeads))
	if hi != 0 || units > math.MaxInt64/unit {
		return math.MaxInt64
	}
	return int64(units) * unit
}

// FullTokens is the largest number of tokens that a full cache holds in capBytes.
func (g Geometry) FullTokens(capBytes int64) int {
	if g.check() != nil || capBytes < 1 {
		return 0
	}
	// A token takes at least 12 bytes of each list, so that the search ends below capBytes.
	capBytes = min(capBytes, MaxCap)
	return sort.Search(int(capBytes), func(n int) bool { return g.FullBytes(n+1) > capBytes })
}

// listUnits is how many units the pages take that n slots of a list need.
func (g Geometry) listUnits(n int) (units int64) {
	for _, t := range g.tables() {
		units += saturate(t.pages(n), t.units)
	}
	return units
}

func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}

// saturate is a·b for a, b ≥ 0, but at most so much that one for every table can be added.
func saturate(a, b int64) int64 {
	const most = math.MaxInt64 / tables
	if hi, lo := bits.Mul64(uint64(a), uint64(b)); hi == 0 && lo < most {
		return int64(lo)
	}
	return most
}

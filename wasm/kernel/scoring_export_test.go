package kernel

import (
	"kvlens/cache"
	"kvlens/shaders"
	"kvlens/wasm/gpu"
	"kvlens/wasm/step"
)

// What the tests of single kernels need: the session buffer of one layer's lists, and a variant's pipeline.

// ScoringSession is the words of a session buffer with room for slots slots a list. The ring's first row has the slot of
// each list's newest token and the number of slots; pos is the position of row from, and rows how many there are.
func ScoringSession(c *cache.Cache, pos, from, rows, valuesAt, slots int) []uint32 {
	geo := c.Geometry()
	lists := geo.Layers * geo.KVHeads
	words := make([]uint32, wordIDs+ringSteps*lists*2)
	for at, n := range map[int]int{
		wordPos: pos, wordFrom: from, wordRows: rows, wordValuesAt: valuesAt, wordLists: lists, wordLast: anyLast,
		wordPageK: geo.PageK, wordPageV: geo.PageV, wordRingAt: wordIDs, wordCapacity: slots,
	} {
		words[at] = uint32(n)
	}
	tables := []struct {
		word int
		of   func(l *cache.List) []uint32
	}{
		{wordKeysAt, func(l *cache.List) []uint32 { return l.Keys }},
		{wordValuePagesAt, func(l *cache.List) []uint32 { return l.Values }},
		{wordPositionsAt, func(l *cache.List) []uint32 { return l.Positions }},
		{wordScoresAt, func(l *cache.List) []uint32 { return l.Scores }},
		{wordBoundsAt, func(l *cache.List) []uint32 { return l.Bounds }},
	}
	for _, t := range tables {
		words[t.word] = uint32(len(words))
		for page := range slots {
			for i := range lists {
				at := uint32(0)
				if table := t.of(c.List(i/geo.KVHeads, i%geo.KVHeads)); page < len(table) {
					at = table[page]
				}
				words = append(words, at)
			}
		}
	}
	for i := range lists {
		l := c.List(i/geo.KVHeads, i%geo.KVHeads)
		newest := uint32(0)
		if order := l.Order(); len(order) > 0 {
			newest = order[len(order)-1]
		}
		words[wordIDs+2*i], words[wordIDs+2*i+1] = newest, uint32(l.Slots)
	}
	return words
}

// Words of the session buffer that tests set.
const (
	WordQuery = wordQuery
	WordHalt  = wordHalt
	Lowest    = lowest
)

// Pipeline is a compiled variant and its bindings.
func (l *Library) Pipeline(v shaders.Variant) (gpu.Pipeline, []shaders.Binding, error) {
	p, err := l.get(v)
	if err != nil {
		return 0, nil, err
	}
	return p.id, p.bindings, nil
}

// Bound finds the weights that a stage reads, by the names of the shaders' variables.
func (s *Stage) Bound(name string) (gpu.Binding, bool) {
	b, ok := map[string]gpu.Binding{"codes": s.codes, "scales": s.scales}[name]
	return b, ok
}

// Attend is the kernel of attention in a prompt, on pages of the geometry's formats.
func (l *Library) Attend(s *step.Shape, geo *cache.Geometry, layer int, left string) Stage {
	n := l.attend(s, left)
	return Stage{
		Variant: n.choose(&session{geo: *geo}, 1),
		Params:  looks(s, layer),
		threads: func(c *Candidates) int { return n.threads(c.Queries) },
	}
}

// Logits is the first half of a decoded token's attention where positions are what they are.
func (l *Library) Logits(s *step.Shape, geo *cache.Geometry, layer int) Stage {
	n := node{variant: shaders.Variant{Kernel: "score", Includes: map[string]string{"reads": "all"}}, pages: true}
	return Stage{Variant: n.choose(&session{geo: *geo}, 1), Params: looks(s, layer), groups: [2]int{plainSplits, s.Heads}}
}

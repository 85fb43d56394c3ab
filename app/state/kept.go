package state

import (
	"math/bits"
	"slices"

	"kvlens/wasm/proto"
)

// Kept is which tokens the cache holds, list by list: layer after layer, and in each its KV heads.
type Kept struct {
	Tokens            int // positions below it have been stored
	Layers, Heads     int
	All               bool       // nothing ever leaves
	Bits              [][]uint64 // by list: bit p mod 64 of word p div 64 is position p
	Reasons           [][]uint8  // by list: proto.Keeps of the tokens of the last report
	Caps              []uint32   // by list: tokens that it may hold after a prompt; nil if unknown
	Budget, Reserve   int
	Window, Published int
	Recipe            string
	Left              int // lists that a token has left, with the last steps
	Pins              []uint32
	Shadow            [][]uint64 // as Bits: what has left and lies in the shadow; nil without one
}

// Scope is what the story shows: all layers, one layer, or one KV head of a layer. −1 is all.
type Scope struct{ Layer, Head int }

// Everywhere is the scope of all lists.
var Everywhere = Scope{-1, -1}

// within is the scope cut down to what a model has.
func (s Scope) within(layers, heads int) Scope {
	if s.Layer < 0 || s.Layer >= layers {
		return Everywhere
	}
	if s.Head < 0 || s.Head >= heads {
		s.Head = -1
	}
	return s
}

// keptOf takes over a report. One whose columns do not fit is that of a cache of which nothing is known to be gone.
func keptOf(e proto.Kept) Kept {
	k := Kept{
		Tokens: int(e.Tokens), Layers: int(e.Layers), Heads: int(e.KVHeads), Recipe: e.Recipe, Caps: e.Caps,
		Budget: int(e.Budget), Reserve: int(e.Reserve), Window: int(e.Window), Published: int(e.Published),
	}
	for _, p := range e.Pins {
		if p < e.Tokens {
			k.Pins = append(k.Pins, p)
		}
	}
	lists, row := k.Layers*k.Heads, (k.Tokens+7)/8
	if k.Budget == 0 || len(e.Bits) != lists*row || len(e.Reasons) != lists*k.Tokens {
		k.All = true
		return k
	}
	if len(k.Caps) != lists {
		k.Caps = nil
	}
	for i := range lists {
		k.Bits = append(k.Bits, wordsOf(e.Bits[i*row:(i+1)*row]))
		if len(e.Shadowed) == len(e.Bits) {
			k.Shadow = append(k.Shadow, wordsOf(e.Shadowed[i*row:(i+1)*row]))
		}
		k.Reasons = append(k.Reasons, e.Reasons[i*k.Tokens:(i+1)*k.Tokens])
	}
	return k
}

// wordsOf is a row of a bitset in words.
func wordsOf(row []uint8) []uint64 {
	words := make([]uint64, (len(row)+7)/8)
	for j, b := range row {
		words[j/8] |= uint64(b) << (j % 8 * 8)
	}
	return words
}

// Pinned reports whether one of N tokens is pinned.
func (k Kept) Pinned(at, n int) bool {
	for _, p := range k.Pins {
		if int(p) >= at && int(p) < at+n {
			return true
		}
	}
	return false
}

// InShadow reports whether some list that a token has left has a copy of it.
func (k Kept) InShadow(p int) bool {
	for _, words := range k.Shadow {
		if p >= 0 && p/64 < len(words) && words[p/64]>>(p%64)&1 == 1 {
			return true
		}
	}
	return false
}

// in is Has for a list that may not be there.
func (k Kept) in(list, p int) bool {
	return list >= 0 && list < k.Layers*k.Heads && k.Has(list, p)
}

// after is what the cache holds after some steps: the token before each is in every list, but for what left.
func (k Kept) after(steps []proto.Step) Kept {
	k.Left = 0
	if k.Layers == 0 {
		return k
	}
	if !k.All {
		k.Bits = slices.Clone(k.Bits)
		for i := range k.Bits {
			k.Bits[i] = slices.Clone(k.Bits[i])
		}
	}
	for _, s := range steps {
		for ; k.Tokens < int(s.Position); k.Tokens++ {
			for i := range k.Bits {
				if k.Tokens/64 == len(k.Bits[i]) {
					k.Bits[i] = append(k.Bits[i], 0)
				}
				k.Bits[i][k.Tokens/64] |= 1 << (k.Tokens % 64)
			}
		}
		e := s.Evictions
		for i := range min(len(e.Layer), len(e.Head), len(e.Position)) {
			list, p := int(e.Layer[i])*k.Heads+int(e.Head[i]), int(e.Position[i])
			if int(e.Head[i]) < k.Heads && list < len(k.Bits) && p < k.Tokens {
				k.Bits[list][p/64] &^= 1 << (p % 64)
				k.Left++
			}
		}
	}
	return k
}

// reason says why a list has a token that it has.
func (k Kept) reason(list, p int) proto.Keeps {
	switch {
	case k.Pinned(p, 1):
		return proto.KeptPin
	case k.All:
		return proto.KeptAll
	}
	return k.unpinnedReason(list, p)
}

// unpinnedReason is the reason if nothing were pinned, of a cache that may let tokens go.
func (k Kept) unpinnedReason(list, p int) proto.Keeps {
	if reasons := k.Reasons[list]; p < len(reasons) {
		return proto.Keeps(min(reasons[p], uint8(proto.KeptPin)))
	}
	return proto.KeptRecent // written since the last report
}

// lists is the range of lists in a scope.
func (k Kept) lists(s Scope) (first, last int) {
	switch s = s.within(k.Layers, k.Heads); {
	case s.Layer < 0:
		return 0, k.Layers * k.Heads
	case s.Head < 0:
		return s.Layer * k.Heads, (s.Layer + 1) * k.Heads
	}
	return s.Layer*k.Heads + s.Head, s.Layer*k.Heads + s.Head + 1
}

// Has reports whether a list holds the token at a position.
func (k Kept) Has(list, p int) bool {
	if p < 0 || p >= k.Tokens {
		return false
	}
	return k.All || k.Bits[list][p/64]>>(p%64)&1 == 1
}

// Held is how many tokens a list holds.
func (k Kept) Held(list int) int {
	if k.All {
		return k.Tokens
	}
	n := 0
	for _, w := range k.Bits[list] {
		n += bits.OnesCount64(w)
	}
	return n
}

// Count is how many of a scope's places are filled, of how many there would be.
func (k Kept) Count(s Scope) (held, of int) {
	first, last := k.lists(s)
	for i := first; i < last; i++ {
		held += k.Held(i)
	}
	return held, (last - first) * k.Tokens
}

// Uneven reports whether lists may hold, or hold, different numbers of tokens.
func (k Kept) Uneven() bool {
	for i := range k.Bits {
		if k.Held(i) != k.Held(0) || len(k.Caps) > 0 && k.Caps[i] != k.Caps[0] {
			return true
		}
	}
	return false
}

// Columns is what became of each token in a scope, whose tokens they are asked of all at once.
type Columns struct {
	lists  int
	tokens []column
}

// column is in how many of a scope's lists a token is, by reason.
type column [proto.KeptPin + 1]uint16

// Columns looks through the lists of a scope.
func (k Kept) Columns(s Scope) Columns {
	c := k.unpinned(s)
	for _, p := range k.Pins { // whatever else would have kept them
		n := uint16(0)
		for _, v := range c.tokens[p] {
			n += v
		}
		c.tokens[p] = column{proto.KeptPin: n}
	}
	return c
}

// unpinned is Columns as if nothing were pinned.
func (k Kept) unpinned(s Scope) Columns {
	first, last := k.lists(s)
	c := Columns{last - first, make([]column, k.Tokens)}
	if k.All {
		for p := range c.tokens {
			c.tokens[p][proto.KeptAll] = uint16(c.lists)
		}
		return c
	}
	for list := first; list < last; list++ {
		for w, word := range k.Bits[list] {
			for ; word != 0; word &= word - 1 {
				p := 64*w + bits.TrailingZeros64(word)
				if p >= k.Tokens {
					break
				}
				c.tokens[p][k.unpinnedReason(list, p)]++
			}
		}
	}
	return c
}

// Fate is in how many of a scope's places some tokens are, of how many, and why they mostly stay. Of none that were
// stored it is zero.
func (c Columns) Fate(at, n int) (held, of int, why proto.Keeps) {
	var votes [proto.KeptPin + 1]int
	for p := at; p < min(at+n, len(c.tokens)); p++ {
		of += c.lists
		for i, v := range c.tokens[p] {
			held += int(v)
			votes[i] += int(v)
		}
	}
	for i, v := range votes {
		if v > votes[why] {
			why = proto.Keeps(i)
		}
	}
	return held, of, why
}

// Whys are the reasons that occur, in their order, and whether any token has left every list.
func (c Columns) Whys() (whys []proto.Keeps, gone bool) {
	var sums [proto.KeptPin + 1]int
	for _, t := range c.tokens {
		gone = gone || t == column{}
		for i, v := range t {
			sums[i] += int(v)
		}
	}
	for w, n := range sums {
		if n > 0 {
			whys = append(whys, proto.Keeps(w))
		}
	}
	return whys, gone
}

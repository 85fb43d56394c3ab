package tokenizer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
)

// merges finds what a pair of neighbours merges into. Pairs are grouped by their left token and sorted by the right one
// in each group, so that a search is a bisection of one group whatever the file holds.
type merges struct {
	start []uint32 // [vocabulary + 1] first pair of each left token
	pairs []pair
}

// pair is a merge without its left token.
type pair struct{ right, rank, into int32 }

// find returns rank and result of merging left and right; false if they do not merge.
func (m *merges) find(left, right int32) (pair, bool) {
	group := m.pairs[m.start[left]:m.start[left+1]]
	i, ok := slices.BinarySearchFunc(group, right, func(p pair, right int32) int { return cmp.Compare(p.right, right) })
	if !ok {
		return pair{}, false
	}
	return group[i], true
}

// newMerges reads merges of the form "left right", best first. Both sides and what they merge into must be tokens. Of
// equal merges the first counts.
func newMerges(texts []string, vocab int, find func([]byte) int32) (merges, error) {
	if len(texts) > math.MaxInt32 {
		return merges{}, &FormatError{keyMerges, fmt.Sprintf("%d merges", len(texts))}
	}
	left := make([]int32, len(texts))
	pairs := make([]pair, len(texts))
	m := merges{start: make([]uint32, vocab+1), pairs: make([]pair, len(texts))}
	var buf []byte
	for rank, s := range texts {
		bad := func(why string) (merges, error) {
			return merges{}, &FormatError{keyMerges, fmt.Sprintf("merge %d: %s", rank, why)}
		}
		// A side is never empty, so a space in front belongs to the left side.
		cut := 1 + strings.IndexByte(s[min(1, len(s)):], ' ')
		if cut == 0 || cut+1 == len(s) {
			return bad("not two tokens")
		}
		var ok bool
		if buf, ok = appendBytes(buf[:0], s[:cut]); !ok {
			return bad("left token unknown")
		}
		l, n := find(buf), len(buf)
		if buf, ok = appendBytes(buf, s[cut+1:]); !ok {
			return bad("right token unknown")
		}
		r, into := find(buf[n:]), find(buf)
		if l < 0 || r < 0 || into < 0 {
			return bad("refers to a token that is not in the vocabulary")
		}
		left[rank], pairs[rank] = l, pair{right: r, rank: int32(rank), into: into}
		m.start[l+1]++
	}
	for i := range vocab {
		m.start[i+1] += m.start[i]
	}
	// Fill the groups; start[l] moves to the end of group l, which is the start of the next one.
	for rank, l := range left {
		m.pairs[m.start[l]] = pairs[rank]
		m.start[l]++
	}
	copy(m.start[1:], m.start)
	m.start[0] = 0
	for l := range vocab {
		group := m.pairs[m.start[l]:m.start[l+1]]
		sort.Slice(group, func(a, b int) bool {
			return group[a].right < group[b].right || group[a].right == group[b].right && group[a].rank < group[b].rank
		})
	}
	return m, nil
}

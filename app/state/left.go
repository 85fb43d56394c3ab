package state

import (
	"math/bits"
	"reflect"
	"slices"

	"kvlens/wasm/proto"
)

// Leaving is one event of tokens leaving the cache.
type Leaving struct {
	Kind   LeavingKind
	Tokens int    // so many the conversation had then
	Back   int    // Undo goes back to so many; −1: to undo it is not Undo's business
	Serial uint32 // of the turn
	Notes  int    // left in all: a token in two lists is two notes
	Lists  int    // that lost some
	Words  []int  // positions of the tokens that left some list, in order, at most mostWords
	Of     int    // how many such tokens there are
}

// LeavingKind says on what occasion tokens left.
type LeavingKind uint8

// The occasions.
const (
	LeftPrompt LeavingKind = iota // with a prompt
	LeftToken                     // for a token of the answer
	LeftChange                    // for other settings of the cache
)

// mostWords is how many tokens an event names.
const mostWords = 6

// mostLeavings is how many events are remembered: those of a long answer under a rule that acts at every token are many.
const mostLeavings = 2048

// departed is what some lists no longer hold of what they held and of what has come since.
func departed(before, after Kept) Leaving {
	var l Leaving
	if after.All {
		return l
	}
	gone := make([]uint64, (after.Tokens+63)/64)
	for i := range after.Bits {
		n := 0
		for w := range gone {
			had := ^uint64(0)
			if i < len(before.Bits) && w < len(before.Bits[i]) {
				had = before.Bits[i][w]
				if past := before.Tokens - 64*w; past < 64 {
					had |= ^uint64(0) << max(0, past)
				}
			}
			if past := after.Tokens - 64*w; past < 64 {
				had &= 1<<past - 1
			}
			had &^= after.Bits[i][w]
			gone[w] |= had
			n += bits.OnesCount64(had)
		}
		if l.Notes += n; n > 0 {
			l.Lists++
		}
	}
	for w, word := range gone {
		l.Of += bits.OnesCount64(word)
		for ; word != 0 && len(l.Words) < mostWords; word &= word - 1 {
			l.Words = append(l.Words, 64*w+bits.TrailingZeros64(word))
		}
	}
	return l
}

// reported takes over what the engine says of the cache, and remembers what left.
func (m Model) reported(e proto.Kept) Model {
	before := m.Kept
	m.Kept = keptOf(e)
	m.Scope = m.Scope.within(m.Kept.Layers, m.Kept.Heads)
	m.epoch++
	t, live := m.Live()
	switch {
	case m.Phase == Changing && m.task == taskSettings:
		if !reflect.DeepEqual(m.was.Recipe, m.Policy.Recipe) { // the conversation was computed again: what is gone now counts
			m.Left, before = nil, Kept{}
		}
		l := departed(before, m.Kept)
		l.Kind, l.Tokens, l.Back, l.Serial = LeftChange, m.Kept.Tokens, -1, t.Serial
		return m.left(l)
	case m.Phase == Changing && m.task == taskUndo && m.reread: // as if the pins had been there from the start
		m.Left = nil
		l := departed(Kept{}, m.Kept)
		l.Kind, l.Tokens, l.Back, l.Serial = LeftPrompt, m.Kept.Tokens, int(t.First), t.Serial
		return m.left(l)
	case !m.Running() || !live:
		return m
	case len(t.Answer) == 0: // a prompt may come in parts: what left with all of them is one event
		m.Left = slices.DeleteFunc(slices.Clone(m.Left), func(l Leaving) bool { return l.Serial == t.Serial && l.Kind == LeftPrompt })
		l := departed(m.atTurn, m.Kept)
		l.Kind, l.Tokens, l.Back, l.Serial = LeftPrompt, m.Kept.Tokens, int(t.First), t.Serial
		return m.left(l)
	}
	l := departed(before, m.Kept)
	l.Kind, l.Tokens, l.Back, l.Serial = LeftToken, m.Kept.Tokens, m.Kept.Tokens-1, t.Serial
	return m.left(l)
}

// left remembers an event, if anything left.
func (m Model) left(l Leaving) Model {
	if l.Notes == 0 {
		return m
	}
	all := m.Left[:len(m.Left):len(m.Left)]
	if len(all) == mostLeavings {
		all = all[1:]
	}
	m.Left = append(all[:len(all):len(all)], l)
	return m
}

// leftWith remembers what left for the token before a step, of the lists that there are.
func (m Model) leftWith(s proto.Step) Model {
	t, _ := m.Live()
	l := Leaving{Kind: LeftToken, Tokens: int(s.Position), Back: int(s.Position) - 1, Serial: t.Serial}
	if l.Back < t.end() { // the token before is the prompt's
		l.Kind, l.Back = LeftPrompt, int(t.First)
	}
	var lists, words []int
	e := s.Evictions
	for i := range min(len(e.Layer), len(e.Head), len(e.Position)) {
		if int(e.Layer[i]) >= m.Kept.Layers || int(e.Head[i]) >= m.Kept.Heads || e.Position[i] >= s.Position {
			continue
		}
		l.Notes++
		if list := int(e.Layer[i])*m.Kept.Heads + int(e.Head[i]); !slices.Contains(lists, list) {
			lists = append(lists, list)
		}
		if p := int(e.Position[i]); !slices.Contains(words, p) {
			words = append(words, p)
		}
	}
	slices.Sort(words)
	l.Lists, l.Of, l.Words = len(lists), len(words), words[:min(len(words), mostWords)]
	return m.left(l)
}

// end is the position after a turn's prompt.
func (t Turn) end() int {
	if n := len(t.Pieces); n > 0 {
		p := t.Pieces[n-1]
		return int(p.At) + len(p.IDs)
	}
	return int(t.First)
}

// LeftWith is the event with which the token at a position left, if only one of them can be it: what is known without a
// record. An event names few of its tokens, so one that has more can be that of any token.
func (m Model) LeftWith(p int) (found Leaving, ok bool) {
	for _, l := range m.Left {
		if p < l.Tokens && (l.Of > len(l.Words) || slices.Contains(l.Words, p)) {
			if ok {
				return Leaving{}, false
			}
			found, ok = l, true
		}
	}
	return found, ok
}

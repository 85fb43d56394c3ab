package state

import (
	"math"
	"slices"

	"kvlens/wasm/proto"
)

// Why is the token that the reader asks about, and the list that the answer is about.
type Why struct {
	On     bool
	Serial uint32     // of its turn
	Answer bool       // it is of the answer, not of the prompt
	Index  int        // which piece or token
	At, N  int        // its positions
	List   int        // −1: the page chooses
	Failed proto.Code // the engine has no explanation; 0: it was not asked, or has one
}

// Explained is what the engine says about the tokens of one list. Columns have a value for each of Tokens.
type Explained struct {
	Tokens           int
	Kept             []uint8
	Stage            []uint8
	At, Rank         []uint32
	Score, Threshold []float32
	Ranked           int // tokens that were compared when the last of these was: the largest rank
	Voters           []uint32
	Votes            []uint8 // [voters][Tokens]
	Bytes            uint64
}

// explainedOf checks what the engine says; nothing comes of columns that do not fit.
func explainedOf(e proto.Explained) *Explained {
	n := int(e.Tokens)
	if len(e.Kept) != n || len(e.Stage) != n || len(e.At) != n || len(e.Rank) != n || len(e.Score) != n || len(e.Threshold) != n ||
		uint64(len(e.Votes)) != uint64(len(e.Voters))*uint64(n) {
		return nil
	}
	x := &Explained{n, e.Kept, e.Stage, e.At, e.Rank, e.Score, e.Threshold, 0, e.Voters, e.Votes, e.Bytes}
	for _, r := range e.Rank {
		x.Ranked = max(x.Ranked, int(r))
	}
	return x
}

// Verdict is what is known about one token in one list.
type Verdict struct {
	Known            bool // the engine has explained it
	Kept             bool
	Stage            proto.Decision
	At               int     // tokens that the conversation had when it was decided
	Score, Threshold float64 // NaN where there is none
	Rank, Of         int     // 0 where there is none
	Voters           []Voter
}

// Voter is a query head and whether a token is among its best.
type Voter struct {
	Head  int
	Voted bool
}

// Voted reports whether anybody voted.
func (v Verdict) Voted() bool {
	return slices.ContainsFunc(v.Voters, func(v Voter) bool { return v.Voted })
}

// Verdict is what is known about the token at a position in a list.
func (m Model) Verdict(list, p int) Verdict {
	v := Verdict{Kept: m.Kept.in(list, p), Score: math.NaN(), Threshold: math.NaN()}
	x := m.explained(list)
	if x == nil || p < 0 || p >= x.Tokens {
		return v
	}
	v.Known, v.Kept = true, x.Kept[p] == 1
	v.Stage, v.At = proto.Decision(x.Stage[p]), int(x.At[p])
	v.Score, v.Threshold = float64(x.Score[p]), float64(x.Threshold[p])
	if r := int(x.Rank[p]); r > 0 {
		v.Rank = r
		for q, at := range x.At { // those that were compared at that time
			if at == x.At[p] {
				v.Of = max(v.Of, int(x.Rank[q]))
			}
		}
	}
	for i, h := range x.Voters {
		v.Voters = append(v.Voters, Voter{int(h), x.Votes[i*x.Tokens+p] == 1})
	}
	return v
}

func (m Model) explained(list int) *Explained {
	if list < 0 || list >= len(m.Explained) {
		return nil
	}
	return m.Explained[list]
}

// selected is the model with another token to ask about; the same token again puts the question away.
func selected(m Model, e Select) Model {
	at, n, ok := m.token(e.Serial, e.Answer, e.Index)
	if !ok {
		return m
	}
	if w := m.Why; w.On && w.Serial == e.Serial && w.Answer == e.Answer && w.Index == e.Index && !e.Stay {
		m.Why = Why{}
		return m
	}
	list := -1
	if m.Why.On {
		list = m.Why.List
	}
	m.Why = Why{On: true, Serial: e.Serial, Answer: e.Answer, Index: e.Index, At: at, N: n, List: list, Failed: m.Why.Failed}
	return m
}

// token finds where a token of the texts stands.
func (m Model) token(serial uint32, answer bool, index int) (at, n int, ok bool) {
	for _, t := range m.Turns {
		switch {
		case t.Serial != serial || index < 0:
		case answer && index < len(t.Answer):
			return int(t.Answer[index].Position), 1, true
		case !answer && index < len(t.Pieces):
			return int(t.Pieces[index].At), len(t.Pieces[index].IDs), true
		}
	}
	return 0, 0, false
}

// look puts the question away if its token is gone.
func (m Model) look() Model {
	if m.Why.On {
		if at, _, ok := m.token(m.Why.Serial, m.Why.Answer, m.Why.Index); !ok || at != m.Why.At {
			m.Why = Why{}
		}
	}
	return m
}

// WhyList is the list that the answer is about: the one that the reader chose if it is in scope, else the first of the scope
// that the token has left, else the first.
func (m Model) WhyList() int {
	first, last := m.Kept.lists(m.Scope)
	if m.Why.List >= first && m.Why.List < last {
		return m.Why.List
	}
	for list := first; list < last; list++ {
		for p := m.Why.At; p < m.Why.At+m.Why.N; p++ {
			if p < m.Kept.Tokens && !m.Kept.Has(list, p) {
				return list
			}
		}
	}
	return first
}

// curious asks the engine for what the page needs to answer the reader, once, when the engine has time.
func (m Model) curious(effects []Effect) (Model, []Effect) {
	if m.Phase != Idle || !m.Why.On || m.Kept.All || m.Kept.Layers == 0 || !m.Records.Explain {
		return m, effects
	}
	if m.epoch != m.known { // what was said was about another cache
		m.Explained, m.known, m.asked, m.Why.Failed = make([]*Explained, m.Kept.Layers*m.Kept.Heads), m.epoch, -1, 0
	}
	list := m.WhyList()
	if m.Why.Failed != 0 || list >= len(m.Explained) {
		return m, effects
	}
	if m.explained(list) != nil || m.asked == list {
		return m, effects
	}
	m.asked = list
	ask := Explain{proto.Explain{Layer: uint32(list / m.Kept.Heads), KVHead: uint32(list % m.Kept.Heads)}, m.epoch}
	return m, append(effects[:len(effects):len(effects)], ask)
}

// explains takes over an answer, unless the cache has changed since.
func explains(m Model, e Explains) Model {
	list := int(e.Layer)*m.Kept.Heads + int(e.KVHead)
	if e.Epoch != m.epoch || m.epoch != m.known || list >= len(m.Explained) || int(e.KVHead) >= m.Kept.Heads || int(e.Tokens) > m.Kept.Tokens {
		return m
	}
	x := explainedOf(e.Explained)
	if x == nil {
		m.Why.Failed = proto.CodeInternal
		return m
	}
	m.Explained = append([]*Explained(nil), m.Explained...)
	m.Explained[list], m.asked = x, -1
	return m
}

// unexplained notes why there is no answer.
func unexplained(m Model, e Unexplained) Model {
	if e.Epoch == m.epoch && m.Why.On {
		m.Why.Failed, m.asked = e.Code, -1
	}
	return m
}

// Place is whether a list holds the tokens that the reader asks about.
type Place struct {
	Held int // how many of them
	Why  proto.Keeps
}

// Places are all lists' places of some tokens, and the first list of the scope.
func (m Model) Places(at, n int) (places []Place, first int) {
	first, _ = m.Kept.lists(m.Scope)
	for list := range m.Kept.Layers * m.Kept.Heads {
		var place Place
		for p := max(0, at); p < at+n && p < m.Kept.Tokens; p++ {
			if m.Kept.Has(list, p) {
				place.Held++
				place.Why = m.Kept.reason(list, p)
			}
		}
		places = append(places, place)
	}
	return places, first
}

// InScope is how many lists the scope has.
func (m Model) InScope() int {
	first, last := m.Kept.lists(m.Scope)
	return last - first
}

package state

import (
	"slices"

	"kvlens/wasm/proto"
)

// Going back, holding on to tokens, and going on. Each is a change of the cache like another policy is: nothing else runs
// meanwhile, and if it fails or is stopped all is as before.

// task says what a change of the cache is about.
type task uint8

const (
	taskSettings task = iota
	taskUndo
	taskPin
	taskRecall
)

// refused are the notices for tasks that the engine cannot do with these numbers.
var refused = [...]string{taskUndo: "notice.undo", taskPin: "notice.pin", taskRecall: "notice.recall"}

// Records are what a session keeps so that one can ask about it later.
type Records struct{ Explain, Shadow, Undo bool }

// within sets what is to be kept in the cache's settings.
func (r Records) within(m proto.Memory) proto.Memory {
	m.Explain, m.Shadow, m.Undo = r.Explain, r.Shadow, r.Undo
	return m
}

// record has other things kept.
func record(m Model, r Records) (Model, []Effect) {
	if m.Occupied() || r == m.Records {
		return m, nil
	}
	was := m.Records
	m.Records, m.chose = r, true
	if m.Phase != Idle {
		return m, nil
	}
	m = m.change(taskSettings)
	m.wasRecords = was
	return m, []Effect{Remake{r.within(m.Policy.memory())}}
}

// change begins a change of the cache that leaves the policy alone.
func (m Model) change(t task) Model {
	m.was, m.wasRecords, m.Problem = m.Policy, m.Records, nil
	if t != taskSettings {
		m.Notices = nil
	}
	m.Phase, m.Work, m.task, m.reread = Changing, Work{Stage: proto.StagePrefill}, t, false
	return m
}

// undo asks for the conversation of the first tokens.
func undo(m Model, tokens int) (Model, []Effect) {
	t, _ := m.Live()
	length := t.end() // with the last token, which the cache does not hold yet
	if n := len(t.Answer); n > 0 {
		length = int(t.Answer[n-1].Position) + 1
	}
	if m.Phase != Idle || !m.Follows() || tokens < 0 || tokens >= length {
		return m, nil
	}
	m = m.change(taskUndo)
	m.back = tokens
	return m, []Effect{Undo{uint32(tokens)}}
}

// undone is the model after the engine has gone back: what came later is gone from the page, too.
func (m Model) undone() Model {
	var turns []Turn
	for _, t := range m.Turns {
		if int(t.First) >= m.back && len(t.Pieces) > 0 { // with it go all after it
			m.Draft.Question = t.Asked
			if m.Mode == proto.Chat && m.Draft.Message == "" {
				m.Draft.Message = t.Asked
			}
			break
		}
		n := slices.IndexFunc(t.Answer, func(k Token) bool { return int(k.Position) >= m.back })
		if n >= 0 {
			t.Answer, t.Reason, t.Undone = t.Answer[:n:n], proto.ReasonNone, true
		}
		turns = append(turns, t)
	}
	m.Turns = turns
	m.Left = slices.DeleteFunc(slices.Clone(m.Left), func(l Leaving) bool { return l.Tokens > m.back })
	if len(turns) == 0 {
		m.Kept = Kept{Pins: m.Kept.Pins}
	}
	return m.look()
}

// Resumes reports whether the last answer can go on where it stands.
func (m Model) Resumes() bool {
	t, ok := m.Live()
	if !ok || !t.Ended || t.Failed || t.Lost {
		return false
	}
	return t.Undone || t.Reason == proto.ReasonMax || t.Reason == proto.ReasonStopped
}

// resume goes on with the last answer, by one token or up to the limit.
func resume(m Model, e Resume) (Model, []Effect) {
	if m.Phase != Idle || !m.Resumes() {
		return m, nil
	}
	t, _ := m.Live()
	g := proto.Generate{Mode: m.Mode, Max: m.Max, Sampling: m.Sampling, Continue: true, Resume: true, Rows: m.Attention.On}
	if n := uint32(len(t.Answer)); n < m.Max {
		g.Max -= n
	}
	if e.Once {
		g.Pause = 1
	}
	m.Problem, m.Notices = nil, nil
	m.Phase, m.resumed, m.Work = Answering, true, Work{Stage: proto.StagePrefill, News: e.Now}
	m = m.withTurn(func(t *Turn) { t.Ended, t.Undone = false, false })
	return m, []Effect{Generate{g}}
}

// pin holds on to some tokens, or lets go of them.
func pin(m Model, e SetPin) (Model, []Effect) {
	if m.Phase != Idle || e.N < 1 || e.At < 0 || e.At+e.N > int(m.Memory.Position) {
		return m, nil
	}
	var pins []uint32
	for _, p := range m.Kept.Pins {
		if int(p) < e.At || int(p) >= e.At+e.N {
			pins = append(pins, p)
		}
	}
	if e.On {
		for p := e.At; p < e.At+e.N; p++ {
			pins = append(pins, uint32(p))
		}
		slices.Sort(pins)
	}
	m = m.change(taskPin)
	m.back = -1
	if t, ok := m.Live(); ok && e.Again {
		m.back = t.end()
	}
	return m, []Effect{Pin{proto.Pin{Positions: pins, Again: e.Again}}}
}

// recall brings a token back from the shadow.
func recall(m Model, position int) (Model, []Effect) {
	if m.Phase != Idle || !m.Kept.InShadow(position) {
		return m, nil
	}
	return m.change(taskRecall), []Effect{Recall{uint32(position)}}
}

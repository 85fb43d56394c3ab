package state

import (
	"strings"

	"kvlens/wasm/proto"
)

// engineEvent handles what the engine said. Events that do not fit the phase are late and are dropped.
func engineEvent(m Model, e Event) (Model, []Effect) {
	switch e := e.(type) {
	case Progressed:
		return progressed(m, e), nil
	case Opened:
		return opened(m, e)
	case Prompted:
		if m.Phase == Comparing {
			return comparing(m, e), nil
		}
		return prompted(m, e), nil
	case Stepped:
		return stepped(m, e), nil
	case Measured:
		m.Memory = m.Memory.withState(e.State)
		if n := len(m.Turns); n > 0 && e.DecodeRate+e.PrefillRate > 0 && m.Phase != Comparing {
			m = m.withTurn(func(t *Turn) { t.Rates = Rates{e.PrefillRate, e.DecodeRate} })
		}
	case Keeps:
		return m.reported(e.Kept), nil
	case Explains:
		return explains(m, e), nil
	case Unexplained:
		return unexplained(m, e), nil
	case Comparisons, Strays, Contrasted:
		return comparing(m, e), nil
	case Moved:
		return moved(m, e), nil
	case Listed:
		return listed(m, e), nil
	case Ended:
		before := m.Policy
		m, effects := ended(m, e)
		m, address := m.addressed(before)
		return m, append(effects, address...)
	case Failed:
		return failed(m, e).addressed(m.Policy)
	case Gone:
		if m.Problem == nil {
			m.Problem = m.problem(proto.Failure{Code: proto.CodeDead})
		}
		return m.lost(), nil
	}
	return m, nil
}

// addressed puts the policy into the address if it is another than before: a change of it was stopped, or failed.
func (m Model) addressed(before Policy) (Model, []Effect) {
	if m.Policy.Fragment() != before.Fragment() {
		return m, []Effect{Address{m.fragment()}}
	}
	return m, nil
}

// withTurn changes the last turn in a copy of the list.
func (m Model) withTurn(change func(*Turn)) Model {
	if len(m.Turns) == 0 {
		return m
	}
	turns := append([]Turn(nil), m.Turns...)
	change(&turns[len(turns)-1])
	m.Turns = turns
	return m
}

func progressed(m Model, e Progressed) Model {
	if !m.Busy() {
		if e.Stage >= proto.StagePrefill {
			return m
		}
		if m.HasOpened { // the engine died between two turns, and the client started it again
			if m.Follows() {
				m.Problem = m.problem(proto.Failure{Code: proto.CodeDead})
			}
			m = m.lost()
		}
		m.Phase = Opening
	}
	m.Work = Work{Stage: e.Stage, Done: e.Done, Total: e.Total, Resumed: e.Resumed, Refetched: e.Refetched, Heard: true, News: e.Now}
	return m
}

func opened(m Model, e Opened) (Model, []Effect) {
	m.Phase, m.Opened, m.HasOpened = Idle, e.Opened, true
	m.Work = Work{News: e.Now}
	m.Memory = Memory{TokenBytes: e.TokenBytes, Default: e.State.Cap}.withState(e.State)
	o, _ := m.Offer(m.Current)
	m.Attention = m.Attention.introduced(o.BuiltIn)
	if !m.chose && e.Backend == "webgpu" { // what is recorded is decided on the CPU, and the model stays where it is quicker
		m.Records.Explain = false
	}
	switch p := m.Problem; {
	case p != nil && p.opening:
		m.Problem = nil
	case p != nil && p.Code == proto.CodeDead: // it was started again: nothing is left to be done
		m.Problem, m.Notices = nil, []Notice{{Key: "notice.restarted"}}
	}
	mode := m.Mode
	if !hasMode(e.Modes, mode) && len(e.Modes) > 0 {
		mode = proto.PromptMode(e.Modes[0])
	}
	// A model that can chat is there to chat, a story model to read stories.
	for _, want := range []proto.PromptMode{proto.Chat, proto.Story} {
		if hasMode(e.Modes, want) {
			mode = want
			break
		}
	}
	m.Mode = mode
	if !m.Touched {
		m = m.withDefaults(mode)
	}
	effects := []Effect{m.list()}
	want := m.able(m.Policy)
	m.Policy = fullCache()
	m, remake := m.remade(want)
	return m, append(effects, remake...)
}

func hasMode(modes []uint8, mode proto.PromptMode) bool {
	for _, x := range modes {
		if proto.PromptMode(x) == mode {
			return true
		}
	}
	return false
}

// moved tells the reader that the backend was lost, and what the model runs on now.
func moved(m Model, e Moved) Model {
	if !m.HasOpened {
		return m
	}
	m.Opened.Backend, m.Opened.BackendDetail, m.Opened.BackendWhy = e.Backend, e.BackendDetail, e.BackendWhy
	m.Work = Work{News: e.Now}
	if !e.Recipe { // the reader knows of that
		m.Notices = []Notice{{Key: "notice.moved"}}
	}
	return m
}

func prompted(m Model, e Prompted) Model {
	if !m.Running() {
		return m
	}
	m.Work.News = e.Now
	return m.withTurn(func(t *Turn) {
		t.First, t.Pieces = e.First, pieces(e.Prompt)
	})
}

// pieces cuts the prompt's tokens by their display pieces; whatever does not add up is left out.
func pieces(p proto.Prompt) []Piece {
	out := make([]Piece, 0, len(p.Text))
	at := uint32(0)
	for i, text := range p.Text {
		if i >= len(p.PieceEnd) {
			break
		}
		end := p.PieceEnd[i]
		if end < at || int(end) > len(p.IDs) {
			break
		}
		out = append(out, Piece{Text: text, At: p.First + at, IDs: p.IDs[at:end]})
		at = end
	}
	return out
}

func stepped(m Model, e Stepped) Model {
	if !m.Running() || len(e.Steps) == 0 {
		return m
	}
	if m.Phase == Prefill {
		m.Phase = Answering
	}
	m.Work.News = e.Now
	last := e.Steps[len(e.Steps)-1]
	m.Memory = m.Memory.withLedger(last.Ledger)
	m.Memory.Position = last.Position + 1
	m.Kept = m.Kept.after(e.Steps)
	m.epoch++
	for _, s := range e.Steps {
		m = m.leftWith(s)
	}
	m = m.gazed(e.Steps)
	return m.withTurn(func(t *Turn) {
		answer := t.Answer[:len(t.Answer):len(t.Answer)]
		for _, s := range e.Steps {
			answer = append(answer, token(s))
		}
		t.Answer = answer
	})
}

func token(s proto.Step) Token {
	t := Token{Text: s.Text, Position: s.Position, ID: s.Token, Prob: s.Prob, Millis: s.Millis}
	t.Used = Memory{Rows: rowsOf(s.Ledger)}.Used()
	for i, id := range s.TopIDs {
		if i < len(s.TopProbs) && i < len(s.TopTexts) {
			t.Top = append(t.Top, Candidate{ID: id, Prob: s.TopProbs[i], Text: s.TopTexts[i]})
		}
	}
	return t
}

func listed(m Model, e Listed) Model {
	offers := append([]Offer(nil), m.Offers...)
	for i := range offers {
		for j, name := range e.Manifest {
			if name != offers[i].Manifest || j >= len(e.Size) || j >= len(e.Stored) {
				continue
			}
			offers[i].Stored = e.Stored[j]
			if offers[i].Size == 0 {
				offers[i].Size = e.Size[j]
			}
		}
	}
	m.Offers = offers
	m.Storage = Storage{OPFS: e.OPFS, Known: true, Quota: e.Quota, Usage: e.Usage}
	return m
}

func ended(m Model, e Ended) (Model, []Effect) {
	if m.Phase == Changing {
		m.Phase = Idle
		switch {
		case e.Reason == proto.ReasonStopped:
			m.Policy, m.Records = m.was, m.wasRecords
		case m.task == taskUndo:
			return m.undone(), nil
		case m.task == taskPin && m.back >= 0: // read again: the answer that was given without the pin goes
			m, effects := undo(m, m.back)
			m.reread = true
			return m, effects
		}
		return m, nil
	}
	if m.Phase == Comparing {
		return m.compared(e.Reason == proto.ReasonStopped, false), nil
	}
	if !m.Running() {
		if m.Phase == Opening && e.Reason == proto.ReasonStopped {
			m.Phase, m.Work = Broken, Work{} // the reader stopped the opening: the models are there to choose from
			m.Problem = &Problem{Action: ActRetry, opening: true, manifest: m.Current}
		}
		return m, nil
	}
	m.Phase = Idle
	m = m.withTurn(func(t *Turn) { t.Ended, t.Reason = true, e.Reason })
	if t, _ := m.Live(); t.Reason == proto.ReasonStopped && len(t.Answer) == 0 && !m.resumed {
		return m.takenBack(), nil // stopped while reading: the engine rolled the turn back
	}
	m.Draft.Question = m.next()
	return m, nil
}

// takenBack is the model without its last turn, of which no word was answered. Its question can be asked again.
func (m Model) takenBack() Model {
	t, _ := m.Live()
	m.Turns = m.Turns[: len(m.Turns)-1 : len(m.Turns)-1]
	if m.Mode == proto.Chat && m.Draft.Message == "" {
		m.Draft.Message = t.Asked
	}
	return m
}

// next is what the question field holds after a turn: a question about the story that has not been asked, unless the
// reader has begun to write one.
func (m Model) next() string {
	t, _ := m.Live()
	if strings.TrimSpace(m.Draft.Question) != t.Asked {
		return m.Draft.Question
	}
	for _, q := range m.Draft.More {
		if !m.Asked(q) {
			return q
		}
	}
	return ""
}

func failed(m Model, e Failed) Model {
	if m.Phase == Changing && m.task != taskSettings && (e.Code == proto.CodeBadRequest || e.Code == proto.CodeNoRecord) {
		m.Phase, m.Notices = Idle, []Notice{{Key: refused[m.task]}}
		return m
	}
	m.Problem = m.problem(e.Failure)
	if m.Phase == Comparing {
		m = m.compared(false, true)
	}
	switch {
	case e.Code == proto.CodeVersion:
		m.Phase = Broken
	case m.Phase == Opening:
		m.Phase, m.Work = Broken, Work{}
	case m.Phase == Changing:
		m.Phase, m.Policy, m.Records = Idle, m.was, m.wasRecords
	case m.Running():
		m.Phase = Idle
		m = m.withTurn(func(t *Turn) { t.Ended, t.Failed, t.Undone = true, !m.resumed, m.resumed })
		if t, _ := m.Live(); len(t.Answer) == 0 && !m.resumed {
			m = m.takenBack()
		}
	}
	if e.Code == proto.CodeDead {
		m = m.lost()
		m.Phase = Opening // the client has started another engine with the same model; else Gone follows
	}
	return m
}

// lost is the model without its engine: what was said stays on the page, the cache behind it is gone.
func (m Model) lost() Model {
	turns := append([]Turn(nil), m.Turns...)
	if m.Phase == Comparing {
		m = m.compared(false, true)
	}
	m.Work = Work{}
	for i := range turns {
		turns[i].Failed = turns[i].Failed || !turns[i].Ended
		turns[i].Ended, turns[i].Lost = true, true
	}
	m.Turns, m.HasOpened, m.Phase = turns, false, Broken
	return m.blank()
}

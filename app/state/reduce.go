package state

import (
	"strings"

	"kvlens/wasm/proto"
)

// Watchdog is how long, in milliseconds, a stage may be silent before the page says so.
const Watchdog = 10_000

// Keys of the saved settings.
const (
	KeyLang  = "kvlens.lang"
	KeyTheme = "kvlens.theme"
)

// New is the model before the first event.
func New() Model {
	return Model{
		Theme: "auto", Lang: Languages[0], Seed: DefaultSeed, Mode: proto.Story, Policy: fullCache(), Scope: Everywhere,
		Compare: Compare{Side: [2]Policy{fullCache(), rival()}}, Attention: attentive,
	}.withDefaults(proto.Story)
}

// Reduce is the next model and what has to be done. It changes neither its arguments nor what they point to.
func Reduce(m Model, e Event) (Model, []Effect) {
	m, effects := reduce(m, e)
	m, effects = m.curious(effects)
	return m.looking(effects)
}

func reduce(m Model, e Event) (Model, []Effect) {
	switch e := e.(type) {
	case Start:
		return start(m, e)
	case Tick:
		return tick(m, e), nil
	case Choose:
		return choose(m, e.Manifest)
	case Forget:
		if m.Busy() {
			return m, nil
		}
		return m, []Effect{Delete(e)}
	case Edit:
		return edit(m, e), nil
	case Preset:
		return preset(m, e)
	case SetMode:
		return setMode(m, e.Mode)
	case Run:
		return run(m, e)
	case Halt:
		return halt(m)
	case StartOver:
		return startOver(m)
	case SetSampling:
		return m.withKnob(e.Knob, e.Value), nil
	case SetCap, SetShare, SetMethod, SetWrap, SetKnob, ResetKnobs, SetLater:
		return adjust(m, e)
	case Follow:
		return follow(m, e.Fragment)
	case SetScope:
		m.Scope = e.within(m.Kept.Layers, m.Kept.Heads)
		m.Why.List = -1
		return m, nil
	case Select:
		return selected(m, e), nil
	case SelectList:
		m.Why.List = e.List
		return m, nil
	case Deselect:
		m.Why = Why{}
		return m, nil
	case SetRecord:
		return record(m, e.Records)
	case GoBack:
		return undo(m, e.Tokens)
	case SetPin:
		return pin(m, e)
	case CallBack:
		return recall(m, e.Position)
	case Resume:
		return resume(m, e)
	case OpenCompare:
		m.Compare.Open = e.Open
		if b := &m.Compare.Side[1].Recipe; e.Open && !m.Compare.Begun && b.Method == rival().Recipe.Method && b.Method == m.Policy.Recipe.Method {
			b.Method = "h2o" // a policy beside itself teaches little
		}
		return m, []Effect{Address{m.fragment()}}
	case SetSide:
		m = sided(m, e)
		return m, []Effect{Address{m.fragment()}}
	case Match:
		m = matched(m, e.Index)
		return m, []Effect{Address{m.fragment()}}
	case StartCompare:
		return compare(m, e.Now)
	case SetLang:
		if !contains(Languages, e.Lang) || e.Lang == m.Lang {
			return m, nil
		}
		return m, []Effect{Fetch(e)}
	case LangReady:
		m.Lang = e.Lang
		return m, []Effect{Save{KeyLang, e.Lang}}
	case LangMissed:
		m.Notices = []Notice{{Key: "notice.words"}}
		return m, nil
	case SetTheme:
		m.Theme = theme(e.Theme)
		return m, []Effect{Save{KeyTheme, m.Theme}}
	case Act:
		return act(m, e.Now)
	case Dismiss:
		m.Problem, m.Notices = nil, nil
		return m, nil
	default:
		if m, ok := attend(m, e); ok {
			return m, nil
		}
		return engineEvent(m, e)
	}
}

func start(m Model, e Start) (Model, []Effect) {
	if e.Lang != "" {
		m.Lang = e.Lang
	}
	m.Theme = theme(e.Theme)
	m.Backend, m.Seed, m.Notices = e.Backend, e.Seed, e.Notices
	if e.Policy.Recipe.Method != "" {
		m.Policy = e.Policy
	}
	if e.Rival.Recipe.Method != "" {
		m.Compare.Open, m.Compare.Side[1] = true, e.Rival
	}
	m.Sampling.Seed = e.Seed
	m.Offers = e.Offers
	if len(e.Offers) == 0 {
		m.Phase = Broken
		m.Problem = &Problem{Code: proto.CodeNetwork, Action: ActReload}
		return m, nil
	}
	return open(m, e.Offers[0].Manifest)
}

func theme(t string) string {
	if t == "light" || t == "dark" {
		return t
	}
	return "auto"
}

// tick notices a stage that says nothing.
func tick(m Model, e Tick) Model {
	m.Work.Quiet, m.Work.Long = 0, m.Phase == Changing || m.Phase == Comparing
	if m.Work.News == 0 {
		m.Work.News = e.Now
	}
	if m.Busy() && e.Now-m.Work.News >= Watchdog {
		m.Work.Quiet = e.Now - m.Work.News
	}
	return m
}

func choose(m Model, manifest string) (Model, []Effect) {
	if _, ok := m.Offer(manifest); !ok || (manifest == m.Current && m.HasOpened && m.Phase != Broken) {
		return m, nil
	}
	return open(m, manifest)
}

// open asks for a model in a fresh engine: the conversation ends. The engine begins with a full cache; what the reader
// wants of it comes after that, when it is known what the model can do.
func open(m Model, manifest string) (Model, []Effect) {
	m.Phase, m.Current, m.HasOpened = Opening, manifest, false
	m.Opened, m.Turns, m.Problem = proto.Opened{}, nil, nil
	m.Work, m.Memory = Work{}, Memory{}
	m.Compare = Compare{Open: m.Compare.Open, Own: m.Compare.Own, Side: m.Compare.Side}
	m = m.blank()
	if o, ok := m.Offer(manifest); ok && !m.chose {
		m.Records = Records{Explain: o.BuiltIn} // with a small model it costs next to nothing
	}
	return m, []Effect{OpenModel{proto.Open{Manifest: manifest, Backend: m.Backend, Memory: m.Records.within(proto.Memory{})}}}
}

// blank is the model without anything that is about a cache which is gone.
func (m Model) blank() Model {
	m.Kept, m.atTurn, m.Left, m.Why = Kept{}, Kept{}, nil, Why{}
	m.Attention.Gazes, m.Attention.Row = nil, Newest
	m.epoch++
	return m
}

// list asks what is stored of the offers; the engine answers between two long requests.
func (m Model) list() Effect {
	manifests := make([]string, len(m.Offers))
	for i, o := range m.Offers {
		manifests[i] = o.Manifest
	}
	return List{manifests}
}

func edit(m Model, e Edit) Model {
	d := &m.Draft
	switch e.Field {
	case Story:
		d.Story, d.Preset, d.More, d.Answers = e.Text, "", nil, nil
	case Question:
		d.Question = e.Text
	case System:
		d.System = e.Text
	case Message:
		d.Message = e.Text
	case RawText:
		d.Raw = e.Text
	}
	return m
}

func preset(m Model, e Preset) (Model, []Effect) {
	if m.Occupied() {
		return m, nil
	}
	was := m.Draft
	m.Draft = e.Draft
	m.Draft.System, m.Draft.Message, m.Draft.Raw = was.System, was.Message, was.Raw
	return startOver(m)
}

func setMode(m Model, mode proto.PromptMode) (Model, []Effect) {
	if m.Occupied() || mode == m.Mode {
		return m, nil
	}
	m.Mode = mode
	if !m.Touched {
		m = m.withDefaults(mode)
	}
	return startOver(m)
}

// startOver ends the conversation; the draft stays.
func startOver(m Model) (Model, []Effect) {
	if m.Occupied() {
		return m, nil
	}
	had := len(m.Turns) > 0
	m.Turns, m.Problem = nil, nil
	m = m.blank()
	if !had || !m.HasOpened {
		return m, nil
	}
	return m, []Effect{Empty{}}
}

func run(m Model, e Run) (Model, []Effect) {
	if m.Phase != Idle {
		return m, nil
	}
	if e.Question != "" {
		m.Draft.Question = e.Question
	}
	g := proto.Generate{
		Mode: m.Mode, Max: m.Max, Sampling: m.Sampling,
		Continue: m.Follows(), Rows: m.Attention.On,
	}
	if e.Once {
		g.Pause = 1
	}
	if m.Mode == proto.Story && m.Policy.Later {
		g.Later, g.Continue = true, false
	}
	var asked, empty string
	switch m.Mode {
	case proto.Story:
		g.Text, g.Question = strings.TrimSpace(m.Draft.Story), strings.TrimSpace(m.Draft.Question)
		asked, empty = g.Question, "question"
		if g.Text == "" && !g.Continue {
			asked, empty = "", "story"
		}
	case proto.Chat:
		g.Text, g.System = strings.TrimSpace(m.Draft.Message), m.Draft.System
		asked, empty = g.Text, "message"
	default:
		g.Text = m.Draft.Raw
		asked, empty = strings.TrimSpace(g.Text), "raw"
	}
	if asked == "" {
		m.Problem = m.problem(proto.Failure{Code: proto.CodeEmpty})
		m.Problem.field = empty
		return m, []Effect{Focus{empty}}
	}
	if g.Continue && m.Mode == proto.Story {
		g.Text = ""
	}
	m.Problem, m.Notices = nil, nil
	m.Phase = Prefill
	m.Work = Work{Stage: proto.StagePrefill, News: e.Now}
	if !g.Continue {
		m.Turns = nil
		m = m.blank()
	}
	m.atTurn, m.resumed = m.Kept, false
	m.Turns = append(m.Turns[:len(m.Turns):len(m.Turns)], Turn{Serial: m.serial + 1, Asked: asked})
	m.serial++
	if m.Mode == proto.Chat {
		m.Draft.Message = ""
	}
	return m, []Effect{Generate{g}}
}

func halt(m Model) (Model, []Effect) {
	switch {
	case m.Phase == Prefill || m.Phase == Answering:
		m.Phase = Stopping
		return m, []Effect{Cancel{}}
	case m.Phase == Opening || m.Phase == Changing || m.Phase == Comparing:
		return m, []Effect{Cancel{}}
	}
	return m, nil
}

// act does what the problem offers.
func act(m Model, now float64) (Model, []Effect) {
	p := m.Problem
	if p == nil {
		return m, nil
	}
	m.Problem = nil
	switch p.Action {
	case ActReload:
		return m, []Effect{Reload{}}
	case ActBuiltIn:
		for _, o := range m.Offers {
			if o.BuiltIn {
				return open(m, o.Manifest)
			}
		}
		return m, []Effect{Reload{}}
	case ActAuto:
		m.Backend = ""
		return open(m, m.Current)
	case ActRestart:
		return open(m, m.Current)
	case ActRetry:
		if p.opening {
			return open(m, p.manifest)
		}
		return run(m, Run{Now: now})
	case ActModels:
		return m, []Effect{Focus{"models"}}
	case ActWhole:
		return adjust(m, SetShare{100})
	case ActFull:
		return adjust(m, SetMethod{Full})
	case ActStop:
		return m, []Effect{Cancel{}}
	case ActReset:
		m.Touched = false
		return m.withDefaults(m.Mode), nil
	default: // ActEdit, ActAnew
		if p.field != "" {
			return m, []Effect{Focus{p.field}}
		}
		m, eff := startOver(m)
		return m, append(eff, Focus{EditorOf(m.Mode)})
	}
}

// EditorOf names the control that holds a mode's text.
func EditorOf(mode proto.PromptMode) string {
	switch mode {
	case proto.Story:
		return "story"
	case proto.Chat:
		return "message"
	default:
		return "raw"
	}
}

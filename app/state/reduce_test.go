package state

import (
	"reflect"
	"testing"

	"kvlens/wasm/proto"
)

var offers = []Offer{
	{Manifest: "/web/models/teach.json", ID: "teach", Size: 1000, BuiltIn: true},
	{Manifest: "/web/models/big/manifest.json", ID: "big", Size: 5000},
}

// play reduces events in order and gathers the effects of the last one.
func play(t *testing.T, m Model, events ...Event) (Model, []Effect) {
	t.Helper()
	var effects []Effect
	for _, e := range events {
		m, effects = Reduce(m, e)
	}
	return m, effects
}

func started(t *testing.T) Model {
	m, _ := play(t, New(), Start{Options: Options{Seed: 7, Lang: "en"}, Offers: offers})
	return m
}

var storyModel = proto.Opened{
	Name: "teach", Layers: 4, Heads: 6, KVHeads: 2, HeadDim: 32, TokenBytes: 1024, Backend: "cpu",
	Modes: []uint8{uint8(proto.Story), uint8(proto.Raw)},
	State: proto.State{Cap: 2 << 20, Room: 2048, Context: 2048},
}

// ready is a page with the built-in model, a story and two questions.
func ready(t *testing.T) Model {
	m, _ := play(t, started(t), Opened{Opened: storyModel}, Preset{Draft{
		Preset: "p", Story: " The cup is here. ", Question: "Where is the cup?", More: []string{"Where is the cup?", "What is here?"},
	}})
	return m
}

func step(position, id uint32, text string) proto.Step {
	return proto.Step{
		Position: position, Token: id, Text: text, Prob: 0.5, Millis: 2,
		TopIDs: []uint32{id, 9}, TopProbs: []float32{0.5, 0.25}, TopTexts: []string{text, "x"},
		Ledger: []proto.LedgerRow{{Kind: uint8(KVF16), Logical: 10, Allocated: 64, Peak: 64}, {Kind: uint8(Free), Allocated: 100}, {Kind: 200}},
	}
}

// answered is ready after one whole turn.
func answered(t *testing.T) Model {
	m, _ := play(t, ready(t), Run{Now: 1}, Prompted{Prompt: prompt}, Stepped{Steps: []proto.Step{step(3, 5, " here"), step(4, 6, ".")}},
		Measured{proto.State{Stored: 5, Position: 5, Cap: 2 << 20, PrefillRate: 100, DecodeRate: 50}}, Ended{proto.Done{Reason: proto.ReasonStopText, Tokens: 2}})
	return m
}

var prompt = proto.Prompt{First: 0, IDs: []uint32{1, 2, 3}, PieceEnd: []uint32{1, 3}, Text: []string{"a", "字"}}

func TestStartOpensTheFirstModel(t *testing.T) {
	m, effects := play(t, New(), Start{Options: Options{Seed: 11, Backend: "cpu", Lang: "zh"}, Theme: "dark", Offers: offers})
	if m.Phase != Opening || m.Current != offers[0].Manifest || m.Lang != "zh" || m.Theme != "dark" || m.Sampling.Seed != 11 {
		t.Errorf("model: %+v", m)
	}
	open, ok := effects[0].(OpenModel)
	if !ok || open.Manifest != offers[0].Manifest || open.Backend != "cpu" || !reflect.DeepEqual(open.Memory, proto.Memory{Explain: true}) {
		t.Errorf("effects: %+v", effects)
	}
	m, effects = play(t, New(), Start{Theme: "pink"})
	if m.Phase != Broken || m.Problem == nil || m.Problem.Action != ActReload || len(effects) != 0 || m.Theme != "auto" {
		t.Errorf("without models: %+v, effects %v", m, effects)
	}
}

func TestOpeningAModelSetsItsModeAndAsksWhatIsStored(t *testing.T) {
	m, effects := play(t, started(t), Opened{Opened: storyModel})
	if m.Phase != Idle || m.Mode != proto.Story || m.Memory.Default != 2<<20 || m.Memory.TokenBytes != 1024 {
		t.Errorf("model: %+v", m)
	}
	if want := []Effect{List{[]string{offers[0].Manifest, offers[1].Manifest}}}; !reflect.DeepEqual(effects, want) {
		t.Errorf("effects %+v, want %+v", effects, want)
	}
	chat := storyModel
	chat.Modes = []uint8{uint8(proto.Raw), uint8(proto.Chat)}
	m, _ = play(t, m, Choose{offers[1].Manifest}, Opened{Opened: chat})
	if m.Mode != proto.Chat || m.Max <= 48 || m.Sampling.Repeat <= 1 {
		t.Errorf("a chat model opened in mode %v with %+v", m.Mode, m.Sampling)
	}
	// What the reader set stays.
	m, _ = play(t, ready(t), SetSampling{Temperature, 0.5}, Choose{offers[1].Manifest}, Opened{Opened: chat})
	if m.Sampling.Temperature != 0.5 || m.Sampling.Repeat != 1 {
		t.Errorf("sampling %+v", m.Sampling)
	}
}

func TestABackendThatWasLostIsTold(t *testing.T) {
	m, _ := play(t, ready(t), Run{Now: 5}, Moved{proto.Moved{Backend: "webgpu", BackendDetail: "a", BackendWhy: proto.WhyTested}, 6})
	if m.Opened.Backend != "webgpu" || m.Opened.BackendWhy != proto.WhyTested || m.Phase != Prefill || len(m.Turns) != 1 {
		t.Errorf("model: %+v", m)
	}
	if want := []Notice{{Key: "notice.moved"}}; !reflect.DeepEqual(m.Notices, want) {
		t.Errorf("notices %+v, want %+v", m.Notices, want)
	}
	if m, _ = play(t, New(), Moved{}); len(m.Notices) != 0 {
		t.Error("a page without a model is told of its backend")
	}
}

func TestATurnOfAStory(t *testing.T) {
	m, effects := play(t, ready(t), Run{Now: 5})
	g, ok := effects[0].(Generate)
	if !ok || g.Text != "The cup is here." || g.Question != "Where is the cup?" || g.Continue || g.Mode != proto.Story || g.Max != 48 {
		t.Fatalf("effects: %+v", effects)
	}
	if m.Phase != Prefill || len(m.Turns) != 1 || m.Turns[0].Asked != "Where is the cup?" {
		t.Errorf("model: %+v", m)
	}
	m = answered(t)
	turn := m.Turns[0]
	if m.Phase != Idle || turn.Text() != " here." || turn.Reason != proto.ReasonStopText || turn.Rates != (Rates{100, 50}) {
		t.Errorf("turn: %+v", turn)
	}
	want := []Piece{{"a", 0, []uint32{1}}, {"字", 1, []uint32{2, 3}}}
	if !reflect.DeepEqual(turn.Pieces, want) {
		t.Errorf("pieces %+v, want %+v", turn.Pieces, want)
	}
	if k := turn.Answer[0]; k.Used != 64 || k.Position != 3 || !reflect.DeepEqual(k.Top, []Candidate{{5, 0.5, " here"}, {9, 0.25, "x"}}) {
		t.Errorf("token: %+v", k)
	}
	if m.Memory.Used() != 64 || len(m.Memory.Rows) != 2 {
		t.Errorf("memory: %+v", m.Memory)
	}
	if m.Draft.Question != "What is here?" {
		t.Errorf("next question: %q", m.Draft.Question)
	}
}

func TestALaterTurnContinuesTheCache(t *testing.T) {
	m, effects := play(t, answered(t), Run{Question: "What is here?"})
	if g := effects[0].(Generate); !g.Continue || g.Text != "" || g.Question != "What is here?" {
		t.Errorf("second turn: %+v", g)
	}
	if len(m.Turns) != 2 || m.Turns[1].Serial != m.Turns[0].Serial+1 {
		t.Errorf("turns: %+v", m.Turns)
	}
	m, effects = play(t, answered(t), StartOver{})
	if len(m.Turns) != 0 || !reflect.DeepEqual(effects, []Effect{Empty{}}) {
		t.Errorf("start over: %v, %v", m.Turns, effects)
	}
	if _, effects = play(t, m, Run{}); effects[0].(Generate).Continue {
		t.Error("the first turn after starting over continues an empty cache")
	}
}

// A turn that the engine rolled back is no part of the conversation, whether it was stopped or failed.
func TestATurnWithoutAnAnswerLeavesNoTrace(t *testing.T) {
	for name, end := range map[string]Event{
		"stopped": Ended{proto.Done{Reason: proto.ReasonStopped}},
		"failed":  Failed{proto.Failure{Code: proto.CodeNumbers}},
	} {
		before := answered(t)
		m, effects := play(t, before, Run{Question: "x"}, Halt{})
		if m.Phase != Stopping || !reflect.DeepEqual(effects, []Effect{Cancel{}}) {
			t.Errorf("%s: halt: %v, %v", name, m.Phase, effects)
		}
		m, _ = play(t, m, end)
		if m.Phase != Idle || !reflect.DeepEqual(m.Turns, before.Turns) {
			t.Errorf("%s: phase %v, turns %+v", name, m.Phase, m.Turns)
		}
	}
	// A chat message goes back into its field.
	m := ready(t)
	m.Mode = proto.Chat
	m, _ = play(t, m, Edit{Message, "hello"}, Run{})
	if m.Draft.Message != "" {
		t.Errorf("while it runs the field holds %q", m.Draft.Message)
	}
	if m, _ = play(t, m, Halt{}, Ended{proto.Done{Reason: proto.ReasonStopped}}); m.Draft.Message != "hello" {
		t.Errorf("afterwards it holds %q", m.Draft.Message)
	}
}

func TestEmptyTextsAreNotSent(t *testing.T) {
	for name, c := range map[string]struct {
		change Event
		mode   proto.PromptMode
		focus  string
	}{
		"story":    {Edit{Story, " "}, proto.Story, "story"},
		"question": {Edit{Question, ""}, proto.Story, "question"},
		"message":  {Edit{Message, "\n"}, proto.Chat, "message"},
		"raw":      {Edit{RawText, ""}, proto.Raw, "raw"},
	} {
		m := ready(t)
		m.Mode = c.mode
		m, effects := play(t, m, c.change, Run{})
		if m.Phase != Idle || m.Problem == nil || m.Problem.Code != proto.CodeEmpty || !reflect.DeepEqual(effects, []Effect{Focus{c.focus}}) {
			t.Errorf("%s: phase %v, problem %+v, effects %v", name, m.Phase, m.Problem, effects)
		}
	}
}

func TestADeadEngineKeepsWhatWasSaid(t *testing.T) {
	m, _ := play(t, answered(t), Run{Question: "x"}, Stepped{Steps: []proto.Step{step(8, 1, "so")}}, Failed{proto.Failure{Code: proto.CodeDead}})
	if m.Phase != Opening || len(m.Turns) != 2 || m.Turns[1].Text() != "so" || m.Problem.Action != ActRestart {
		t.Fatalf("model: %+v", m)
	}
	m, _ = play(t, m, Opened{Opened: storyModel})
	if m.Phase != Idle || m.Follows() || len(m.Turns) != 2 {
		t.Errorf("after the restart: phase %v, follows %v, %d turns", m.Phase, m.Follows(), len(m.Turns))
	}
	m, effects := play(t, m, Run{Question: "y"})
	if g := effects[0].(Generate); g.Continue || len(m.Turns) != 1 {
		t.Errorf("the next turn continues a cache that is gone: %+v", g)
	}
	m, _ = play(t, answered(t), Gone{})
	if m.Phase != Broken || m.Problem == nil || m.HasOpened {
		t.Errorf("gone for good: %+v", m)
	}
	if m, effects = play(t, m, Act{}); m.Phase != Opening || effects[0].(OpenModel).Manifest != offers[0].Manifest {
		t.Errorf("restart: %v, %v", m.Phase, effects)
	}
}

func TestProblemsOfferWhatHelps(t *testing.T) {
	fail := func(m Model, c proto.Code) Model {
		m, _ = Reduce(m, Failed{proto.Failure{Code: c, Args: []string{"9", "5", "4096"}}})
		return m
	}
	running, _ := play(t, ready(t), Run{})
	lowered, _ := play(t, ready(t), SetCap{4096}, Ended{}, Run{})
	big, _ := play(t, ready(t), Choose{offers[1].Manifest})
	for name, c := range map[string]struct {
		m    Model
		code proto.Code
		want Action
		does Effect
	}{
		"too long, cap lowered":  {lowered, proto.CodeTooLong, ActWhole, Remake{memory(Full)}},
		"too long":               {running, proto.CodeTooLong, ActEdit, Focus{"story"}},
		"network":                {big, proto.CodeNetwork, ActRetry, OpenModel{proto.Open{Manifest: offers[1].Manifest}}},
		"format":                 {big, proto.CodeFormat, ActBuiltIn, OpenModel{proto.Open{Manifest: offers[0].Manifest, Memory: proto.Memory{Explain: true}}}},
		"format of the built-in": {started(t), proto.CodeFormat, ActReload, Reload{}},
		"version":                {running, proto.CodeVersion, ActReload, Reload{}},
		"quota":                  {big, proto.CodeQuota, ActModels, Focus{"models"}},
		"busy":                   {ready(t), proto.CodeBusy, ActStop, Cancel{}},
	} {
		m := fail(c.m, c.code)
		if m.Problem == nil || m.Problem.Action != c.want || m.Problem.Arg(1) != 5 || m.Problem.Arg(7) != 0 {
			t.Errorf("%s: problem %+v, want action %v", name, m.Problem, c.want)
			continue
		}
		m, effects := Reduce(m, Act{})
		if m.Problem != nil || len(effects) == 0 || !reflect.DeepEqual(effects[len(effects)-1], c.does) {
			t.Errorf("%s: effects %+v, want %+v", name, effects, c.does)
		}
	}
	backend := started(t)
	backend.Backend = "webgpu"
	m, effects := play(t, fail(backend, proto.CodeBackend), Act{})
	if m.Backend != "" || effects[0].(OpenModel).Backend != "" {
		t.Errorf("backend: %+v", effects)
	}
	m, _ = play(t, fail(ready(t).withKnob(Temperature, 1), proto.CodeBadRequest), Act{})
	if m.Sampling.Temperature != 0 {
		t.Errorf("reset: %+v", m.Sampling)
	}
	for _, c := range Codes() {
		if _, ok := actions[c]; !ok && c != stopped {
			t.Errorf("code %v offers nothing", CodeName(c))
		}
	}
	if CodeName(999) != "internal" {
		t.Error("an unknown code has no sentence")
	}
}

func TestNothingSpinsUnnamed(t *testing.T) {
	m, _ := play(t, started(t), Progressed{proto.Progress{Stage: proto.StageFetch, Done: 1, Total: 2}, 1000}, Tick{10_999})
	if m.Work.Quiet != 0 {
		t.Errorf("quiet after %v ms", m.Work.Quiet)
	}
	if m, _ = play(t, m, Tick{11_000}); m.Work.Quiet != 10_000 || m.Work.Stage != proto.StageFetch {
		t.Errorf("after ten seconds: %+v", m.Work)
	}
	if m, _ = play(t, m, Progressed{proto.Progress{Stage: proto.StageFetch, Done: 2, Total: 2}, 11_500}); m.Work.Quiet != 0 {
		t.Error("news did not end the silence")
	}
	// An engine that never says anything is noticed, too.
	if m, _ := play(t, started(t), Tick{5000}, Tick{15_000}); m.Work.Quiet != 10_000 || m.Work.Heard {
		t.Errorf("a silent start: %+v", m.Work)
	}
	m, _ = play(t, m, Halt{}, Ended{proto.Done{Reason: proto.ReasonStopped}})
	if m.Phase != Broken || CodeName(m.Problem.Code) != "stopped" || m.Problem.Action != ActRetry {
		t.Errorf("stopped opening: %v, %+v", m.Phase, m.Problem)
	}
}

func TestLateEventsAreDropped(t *testing.T) {
	m := ready(t)
	for _, e := range []Event{
		Stepped{Steps: []proto.Step{step(1, 1, "x")}},
		Prompted{Prompt: prompt},
		Ended{},
		Halt{},
		Act{},
		Progressed{proto.Progress{Stage: proto.StagePrefill}, 1},
		SetLang{"xx"},
		SetLang{"en"},
		Choose{"elsewhere"},
		Choose{m.Current},
	} {
		got, effects := Reduce(m, e)
		if got.Phase != Idle || len(got.Turns) != 0 || len(effects) != 0 {
			t.Errorf("%T: phase %v, %d turns, effects %v", e, got.Phase, len(got.Turns), effects)
		}
	}
	running, _ := play(t, m, Run{})
	for _, e := range []Event{Run{}, StartOver{}, Preset{}, SetMode{proto.Raw}, Forget{offers[1].Manifest}} {
		if got, effects := Reduce(running, e); !reflect.DeepEqual(got, running) || effects != nil {
			t.Errorf("%T in the middle of a turn: effects %v", e, effects)
		}
	}
}

// Reduce must not write into what older models hold.
func TestReduceIsPure(t *testing.T) {
	m, _ := play(t, answered(t), Run{Question: "x"}, Stepped{Steps: []proto.Step{step(8, 1, "a")}})
	before := string(Snapshot(m))
	a, _ := Reduce(m, Stepped{Steps: []proto.Step{step(9, 2, "b")}})
	b, _ := Reduce(m, Stepped{Steps: []proto.Step{step(9, 3, "c")}})
	_, _ = Reduce(m, Ended{proto.Done{Reason: proto.ReasonMax}})
	_, _ = Reduce(m, Failed{proto.Failure{Code: proto.CodeDead}})
	_, _ = Reduce(m, Listed{proto.Models{Manifest: []string{offers[1].Manifest}, Size: []uint64{1}, Stored: []uint64{1}}})
	if ta, tb := a.Turns[1].Text(), b.Turns[1].Text(); ta != "ab" || tb != "ac" {
		t.Errorf("two futures of one model: %q and %q", ta, tb)
	}
	if after := string(Snapshot(m)); after != before {
		t.Errorf("the model changed:\n%s\n%s", before, after)
	}
}

func TestWhatIsStored(t *testing.T) {
	m, _ := play(t, ready(t), Listed{proto.Models{
		Manifest: []string{offers[1].Manifest, "other"}, Size: []uint64{5000, 1}, Stored: []uint64{1200, 1}, Quota: 9, Usage: 3, OPFS: true,
	}})
	if o, _ := m.Offer(offers[1].Manifest); o.Stored != 1200 || o.Size != 5000 {
		t.Errorf("offer: %+v", o)
	}
	if m.Storage != (Storage{OPFS: true, Known: true, Quota: 9, Usage: 3}) {
		t.Errorf("storage: %+v", m.Storage)
	}
	if _, effects := play(t, m, Forget{offers[1].Manifest}); !reflect.DeepEqual(effects, []Effect{Delete{offers[1].Manifest}}) {
		t.Errorf("forget: %v", effects)
	}
}

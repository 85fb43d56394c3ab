package state

import (
	"reflect"
	"testing"

	"kvlens/wasm/proto"
)

// report is a Kept event of one layer with two KV heads, whose lists hold the given positions.
func report(tokens uint32, lists ...[]int) Keeps {
	row := (int(tokens) + 7) / 8
	k := proto.Kept{Tokens: tokens, Layers: 1, KVHeads: uint32(len(lists)), Budget: 2, Reserve: 1, Recipe: "snapkv"}
	k.Bits, k.Reasons = make([]uint8, len(lists)*row), make([]uint8, len(lists)*int(tokens))
	for i, list := range lists {
		for _, p := range list {
			k.Bits[i*row+p/8] |= 1 << (p % 8)
			k.Reasons[i*int(tokens)+p] = uint8(proto.KeptScore)
		}
	}
	return Keeps{k}
}

// evicting is a step for whose token before it some places were freed: head and position by turns.
func evicting(position uint32, left ...uint32) proto.Step {
	s := step(position, 5, "x")
	for i := 0; i+1 < len(left); i += 2 {
		e := &s.Evictions
		e.Layer, e.Head, e.Position, e.Step = append(e.Layer, 0), append(e.Head, left[i]), append(e.Position, left[i+1]), append(e.Step, 0)
	}
	return s
}

// lossy is a conversation of a prompt of three tokens, of which position 0 left one list and 1 left both, and an answer of
// three tokens at 3, 4 and 5; with the one at 4, position 2 left the first list.
func lossy(t *testing.T) Model {
	m, _ := play(t, ready(t), Run{Now: 1}, Prompted{Prompt: prompt}, report(3, []int{2}, []int{0, 2}),
		Stepped{Steps: []proto.Step{step(3, 5, "a"), step(4, 6, "b"), evicting(5, 0, 2)}},
		report(5, []int{3, 4}, []int{0, 2, 3, 4}),
		Measured{proto.State{Stored: 5, Position: 5, Cap: 2 << 20}}, Ended{proto.Done{Reason: proto.ReasonMax, Tokens: 3}})
	return m
}

func TestWhatLeftIsRememberedEventByEvent(t *testing.T) {
	m := lossy(t)
	serial := m.Turns[0].Serial
	want := []Leaving{
		{Kind: LeftPrompt, Tokens: 3, Back: 0, Serial: serial, Notes: 3, Lists: 2, Words: []int{0, 1}, Of: 2},
		{Kind: LeftToken, Tokens: 5, Back: 4, Serial: serial, Notes: 1, Lists: 1, Words: []int{2}, Of: 1},
	}
	if !reflect.DeepEqual(m.Left, want) {
		t.Errorf("%+v\nwant %+v", m.Left, want)
	}
	// A prompt that comes in parts is one event, of what is gone after both.
	parts, _ := play(t, ready(t), Run{}, Prompted{Prompt: prompt}, report(2, []int{0}, []int{0, 1}), report(3, []int{0}, []int{1, 2}))
	if l := parts.Left; len(l) != 1 || l[0].Notes != 3 || l[0].Of != 3 || l[0].Tokens != 3 {
		t.Errorf("in parts: %+v", l)
	}
	// Under a lower cap more leaves; another recipe computes the conversation again, and only what is gone then counts.
	lower, _ := play(t, m, SetMethod{"snapkv"}, Ended{}, SetShare{25}, report(5, []int{4}, []int{0, 4}), Ended{})
	if n := len(lower.Left); n != 3 || lower.Left[2].Kind != LeftChange || lower.Left[2].Notes != 3 || lower.Left[2].Back != -1 {
		t.Errorf("under a lower cap: %+v", lower.Left)
	}
	other, _ := play(t, m, SetMethod{"h2o"}, report(5, []int{0, 1, 2, 3}, []int{0, 1, 2, 3, 4}), Ended{})
	if l := other.Left; len(l) != 1 || l[0].Kind != LeftChange || l[0].Notes != 1 || !reflect.DeepEqual(l[0].Words, []int{4}) {
		t.Errorf("under another recipe: %+v", l)
	}
	// What leaves for the last token of a prompt leaves with the prompt.
	if m, _ := play(t, ready(t), Run{}, Prompted{Prompt: prompt}, report(3, []int{0, 1, 2}, []int{0, 1, 2}), Stepped{Steps: []proto.Step{evicting(3, 1, 0)}}); len(m.Left) != 1 || m.Left[0].Kind != LeftPrompt || m.Left[0].Back != 0 {
		t.Errorf("with the last of the prompt: %+v", m.Left)
	}
}

func TestUndoShrinksTheConversation(t *testing.T) {
	m := lossy(t)
	busy, effects := play(t, m, GoBack{4})
	if busy.Phase != Changing || !reflect.DeepEqual(effects, []Effect{Undo{4}}) || len(busy.Turns[0].Answer) != 3 {
		t.Fatalf("phase %v, %v", busy.Phase, effects)
	}
	got, _ := play(t, busy, report(4, []int{2, 3}, []int{0, 2, 3}), Measured{proto.State{Position: 4, Stored: 4}}, Ended{})
	turn := got.Turns[0]
	if got.Phase != Idle || turn.Text() != "a" || !turn.Undone || turn.Reason != proto.ReasonNone || !turn.Ended || len(got.Left) != 1 || !got.Resumes() {
		t.Errorf("%+v\n%+v", turn, got.Left)
	}
	if !got.Kept.Has(0, 2) || got.Kept.Tokens != 4 {
		t.Errorf("kept: %+v", got.Kept)
	}
	// Stopped or refused, all is as before.
	for name, e := range map[string]Event{"stopped": Ended{proto.Done{Reason: proto.ReasonStopped}}, "refused": Failed{proto.Failure{Code: proto.CodeBadRequest, Args: []string{"tokens"}}}} {
		got, _ := play(t, busy, e)
		if got.Phase != Idle || len(got.Turns[0].Answer) != 3 || len(got.Left) != 2 || got.Problem != nil || (name == "refused") != (len(got.Notices) == 1) {
			t.Errorf("%s: %+v, %+v", name, got.Turns, got.Notices)
		}
	}
	// Before the prompt there is nothing: the question can be asked again.
	none, _ := play(t, m, GoBack{0}, report(0, nil, nil), Measured{proto.State{}}, Ended{})
	if len(none.Turns) != 0 || none.Draft.Question != "Where is the cup?" || len(none.Left) != 0 || none.Follows() {
		t.Errorf("%+v, question %q, %+v", none.Turns, none.Draft.Question, none.Left)
	}
	if _, effects := play(t, none, Run{}); effects[0].(Generate).Continue {
		t.Error("the next turn continues a conversation of nothing")
	}
	if last, effects := play(t, m, GoBack{5}); !reflect.DeepEqual(effects, []Effect{Undo{5}}) || last.Phase != Changing { // of the token that is in no list yet
		t.Errorf("a token back: %v", effects)
	}
	for _, tokens := range []int{-1, 6, 1 << 30} {
		if _, effects := play(t, m, GoBack{tokens}); effects != nil {
			t.Errorf("back to %d: %v", tokens, effects)
		}
	}
	// A later turn goes as a whole where its prompt is gone.
	two, _ := play(t, m, Run{Question: "What is here?"}, Prompted{Prompt: proto.Prompt{First: 6, IDs: []uint32{1}, PieceEnd: []uint32{1}, Text: []string{"q"}}},
		Stepped{Steps: []proto.Step{step(7, 5, "z")}}, Measured{proto.State{Position: 8}}, Ended{proto.Done{Reason: proto.ReasonMax}})
	if one, _ := play(t, two, GoBack{6}, Ended{}); len(two.Turns) != 2 || len(one.Turns) != 1 || one.Turns[0].Undone || one.Draft.Question != "What is here?" {
		t.Errorf("%d turns, then %d, question %q", len(two.Turns), len(one.Turns), one.Draft.Question)
	}
}

// What the engine said of a conversation that the reader has left behind, or says against all rules, changes nothing.
func TestLateAndOddEventsAfterUndo(t *testing.T) {
	m, _ := play(t, lossy(t), Select{Serial: 1, Answer: true, Index: 2})
	epoch := m.epoch
	m, _ = play(t, m, GoBack{4}, report(4, []int{2, 3}, []int{0, 2, 3}), Measured{proto.State{Position: 4}}, Ended{})
	if m.Why.On {
		t.Error("the page explains a token that is gone")
	}
	for name, e := range map[string]Event{
		"a step":         Stepped{Steps: []proto.Step{evicting(5, 0, 2)}},
		"a prompt":       Prompted{Prompt: prompt},
		"an end":         Ended{},
		"an explanation": Explains{explanation(6), epoch},
		"no explanation": Unexplained{proto.Failure{Code: proto.CodeNoRecord}, epoch},
		"a comparison":   Comparisons{Tokens: []proto.Compared{{}}},
		"a stray":        Strays{Tokens: []proto.Strayed{{Run: 9}}},
		"a sum":          Contrasted{proto.Contrast{Run: 7}},
	} {
		if got, effects := play(t, m, e); !reflect.DeepEqual(got, m) || effects != nil {
			t.Errorf("%s: %v, the model has changed: %v", name, effects, !reflect.DeepEqual(got, m))
		}
	}
	// Evictions out of range, in a turn that runs.
	run, _ := play(t, m, Resume{Now: 1})
	for _, e := range []proto.Evictions{
		{Layer: []uint32{9}, Head: []uint32{0}, Position: []uint32{0}},
		{Layer: []uint32{0}, Head: []uint32{7}, Position: []uint32{0}},
		{Layer: []uint32{0}, Head: []uint32{0}, Position: []uint32{1 << 31}},
		{Layer: []uint32{0, 0}, Head: []uint32{0}, Position: nil},
	} {
		s := step(4, 5, "y")
		s.Evictions = e
		if got, _ := play(t, run, Stepped{Steps: []proto.Step{s}}); len(got.Left) != len(run.Left) {
			t.Errorf("%+v: %+v", e, got.Left)
		}
	}
}

func TestAnAnswerGoesOn(t *testing.T) {
	m := lossy(t)
	run, effects := play(t, m, Resume{Once: true, Now: 1})
	g, ok := effects[0].(Generate)
	if !ok || !g.Resume || !g.Continue || g.Pause != 1 || g.Text != "" || g.Max != m.Max-3 || run.Phase != Answering || run.Turns[0].Ended {
		t.Fatalf("%+v, phase %v", effects, run.Phase)
	}
	got, _ := play(t, run, Stepped{Steps: []proto.Step{step(6, 5, "c")}}, Ended{proto.Done{Reason: proto.ReasonMax}})
	if got.Turns[0].Text() != "abxc" || !got.Resumes() || len(got.Turns) != 1 {
		t.Errorf("%+v", got.Turns)
	}
	// Stopped or failed before a token came, the answer is what it was.
	for name, e := range map[string]Event{"stopped": Ended{proto.Done{Reason: proto.ReasonStopped}}, "failed": Failed{proto.Failure{Code: proto.CodeInternal}}} {
		if got, _ := play(t, run, e); got.Phase != Idle || got.Turns[0].Text() != "abx" || !got.Resumes() || !got.Follows() {
			t.Errorf("%s: %+v", name, got.Turns)
		}
	}
	// A complete answer does not go on; a first turn can be taken token by token.
	if _, effects := play(t, answered(t), Resume{}); effects != nil {
		t.Errorf("%v", effects)
	}
	if _, effects := play(t, ready(t), Run{Once: true}); effects[0].(Generate).Pause != 1 || effects[0].(Generate).Max != 48 {
		t.Errorf("%+v", effects)
	}
}

func TestPinsAndRecalls(t *testing.T) {
	m, effects := play(t, lossy(t), SetPin{At: 1, N: 2, On: true})
	if !reflect.DeepEqual(effects, []Effect{Pin{proto.Pin{Positions: []uint32{1, 2}}}}) || m.Phase != Changing {
		t.Fatalf("%v", effects)
	}
	r := report(5, []int{2, 4}, []int{1, 2, 3, 4})
	r.Pins, r.Shadowed = []uint32{1, 2, 77}, []uint8{0b1011, 0b1}
	m, _ = play(t, m, r, Ended{})
	if !m.Kept.Pinned(1, 1) || !m.Kept.Pinned(0, 2) || m.Kept.Pinned(3, 40) || !m.Kept.InShadow(3) || m.Kept.InShadow(2) || m.Kept.InShadow(-1) || m.Kept.InShadow(1<<20) {
		t.Errorf("pins %v, shadow %v", m.Kept.Pins, m.Kept.Shadow)
	}
	if held, of, why := m.Kept.Columns(Everywhere).Fate(2, 1); held != 2 || of != 2 || why != proto.KeptPin {
		t.Errorf("a pinned token: %d of %d, %v", held, of, why)
	}
	if _, effects := play(t, m, SetPin{At: 1, N: 1}); !reflect.DeepEqual(effects, []Effect{Pin{proto.Pin{Positions: []uint32{2}}}}) {
		t.Errorf("%v", effects)
	}
	if _, effects := play(t, m, CallBack{3}); !reflect.DeepEqual(effects, []Effect{Recall{3}}) {
		t.Errorf("%v", effects)
	}
	for _, e := range []Event{CallBack{2}, CallBack{-5}, SetPin{At: -1, N: 1, On: true}, SetPin{At: 5, N: 2, On: true}, SetPin{On: true}} {
		if _, effects := play(t, m, e); effects != nil {
			t.Errorf("%+v: %v", e, effects)
		}
	}
	// Read again with the pin, what was answered without it goes.
	read, effects := play(t, m, SetPin{At: 3, N: 1, On: true, Again: true})
	if !reflect.DeepEqual(effects, []Effect{Pin{proto.Pin{Positions: []uint32{1, 2, 3}, Again: true}}}) {
		t.Errorf("%v", effects)
	}
	if read, effects = play(t, read, r, Ended{}); !reflect.DeepEqual(effects, []Effect{Undo{3}}) || read.Phase != Changing {
		t.Errorf("phase %v, %v", read.Phase, effects)
	}
	if read, _ = play(t, read, report(3, []int{1, 2}, []int{1}), Ended{}); len(read.Left) != 1 || read.Left[0].Kind != LeftPrompt || read.Left[0].Notes != 3 || read.Left[0].Back != 0 {
		t.Errorf("what left before the answer: %+v", read.Left)
	}
	if read.Turns[0].Text() != "" || !read.Resumes() || read.Phase != Idle {
		t.Errorf("%+v", read.Turns)
	}
	// Too many pins are refused with a sentence of their own.
	if m, _ = play(t, m, SetPin{At: 0, N: 1, On: true}, Failed{proto.Failure{Code: proto.CodeBadRequest, Args: []string{"positions"}}}); m.Phase != Idle || m.Problem != nil || len(m.Notices) != 1 || m.Notices[0].Key != "notice.pin" {
		t.Errorf("%+v, %+v", m.Problem, m.Notices)
	}
}

func TestWhatIsRecordedCanBeChosen(t *testing.T) {
	m, effects := play(t, lossy(t), SetRecord{Records{Explain: true, Shadow: true}})
	want := memory(Full)
	want.Shadow = true
	if !reflect.DeepEqual(remakes(effects), []proto.Memory{want}) || m.Phase != Changing {
		t.Errorf("%+v", effects)
	}
	if m, _ := play(t, m, Ended{proto.Done{Reason: proto.ReasonStopped}}); m.Records.Shadow || m.Phase != Idle {
		t.Errorf("stopped: %+v", m.Records)
	}
	m, _ = play(t, m, report(5, []int{3, 4}, []int{0, 2, 3, 4}), Ended{})
	if !m.Records.Shadow || len(m.Left) != 2 {
		t.Errorf("%+v, %+v", m.Records, m.Left)
	}
	// What a reader chose stays with another model; else only the built-in one is recorded.
	if _, effects := play(t, m, Choose{offers[1].Manifest}); !effects[0].(OpenModel).Memory.Shadow {
		t.Errorf("%+v", effects)
	}
	if _, effects := play(t, ready(t), Choose{offers[1].Manifest}); effects[0].(OpenModel).Memory.Explain {
		t.Errorf("%+v", effects)
	}
	// On WebGPU nothing is, unless a reader chose it: policies would leave for the CPU.
	device := Opened{Opened: storyModel}
	device.Backend = "webgpu"
	if was := ready(t); !was.Records.Explain {
		t.Errorf("%+v", was.Records)
	} else if m, _ := play(t, was, device); m.Records.Explain {
		t.Errorf("%+v", m.Records)
	}
	if m, _ := play(t, ready(t), SetRecord{Records{Explain: true, Undo: true}}, Ended{}, device); !m.Records.Explain {
		t.Errorf("%+v", m.Records)
	}
}

// Without a record it is known when a token left if only one event can have been it.
func TestWhatATokenLeftWith(t *testing.T) {
	m := Model{Left: []Leaving{
		{Tokens: 9, Words: []int{1, 2}, Of: 2},
		{Tokens: 10, Words: []int{2, 3}, Of: 2}, // the second from other lists than before
		{Tokens: 11, Words: []int{4}, Of: 8},    // and seven more
		{Tokens: 20, Words: []int{15}, Of: 1},
	}}
	for p, want := range map[int]int{1: 0, 2: 0, 4: 11, 5: 11, 10: 11, 12: 0, 15: 20} {
		if l, ok := m.LeftWith(p); l.Tokens != want || ok != (want > 0) {
			t.Errorf("token %d: %+v, %v, want the event of %d tokens", p, l, ok, want)
		}
	}
}

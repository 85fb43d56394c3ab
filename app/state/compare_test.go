package state

import (
	"math"
	"reflect"
	"testing"

	"kvlens/wasm/proto"
)

func compared(index uint32, text string) proto.Compared {
	return proto.Compared{
		Index: index, Text: text, Prob: []float32{0.5, 0.25, 0.125}, KL: []float32{0.5, 1.5}, Agree: []uint8{1, 0},
		Top: []uint32{1, 2}, TopTexts: []string{text, "other"}, Margin: []float32{3, 2, -1},
	}
}

// knowing is a page whose story knows its answers.
func knowing(t *testing.T) Model {
	m, _ := play(t, ready(t), Preset{Draft{
		Preset: "p", Story: "The cup is here.", Question: "Where is the cup?",
		More: []string{"Where is the cup?", "What is here?"}, Answers: []string{"here", "the cup"},
	}})
	return m
}

func TestAComparison(t *testing.T) {
	m, effects := play(t, knowing(t), SetSide{Side: 1, Method: "h2o"}, SetSide{Side: 1, Share: 50}, StartCompare{5})
	c, ok := effects[0].(RunCompare)
	if !ok || c.Text != "The cup is here." || c.Question != "Where is the cup?" || c.Gold != "here" || c.Other != "the cup" || c.Max != 48 || c.Mode != proto.Story {
		t.Fatalf("%+v", effects)
	}
	if c.A.Recipe.Method.Name != Full || c.B.Recipe.Method.Name != "h2o" || c.B.Share != 0.5 || c.A.Explain {
		t.Errorf("%+v, %+v", c.A, c.B)
	}
	if m.Phase != Comparing || !m.Busy() || m.Running() || !m.Occupied() {
		t.Errorf("phase %v", m.Phase)
	}
	for _, e := range []Event{Run{}, SetShare{25}, SetSide{Side: 1, Method: "tova"}, Match{1}, Preset{}, StartOver{}, GoBack{0}} {
		if got, effects := play(t, m, e); got.Phase != Comparing || len(remakes(effects)) != 0 || got.SideOf(1).Recipe.Method != "h2o" {
			t.Errorf("%+v while it runs: %v", e, effects)
		}
	}
	sum := report(3, []int{2}, []int{0, 2})
	m, _ = play(t, m, Prompted{Prompt: prompt}, Comparisons{Tokens: []proto.Compared{compared(0, "a"), compared(1, "b")}, Now: 6},
		Strays{Tokens: []proto.Strayed{{Run: 0, Index: 0, Text: "a", Same: true}, {Run: 1, Index: 0, Text: "x"}, {Run: 1, Index: 1, Text: "y"}}},
		Contrasted{proto.Contrast{Run: 1, Kept: sum.Kept, Retained: make([]float32, 24), Tokens: 2}}, Measured{proto.State{DecodeRate: 5, PrefillRate: 5}}, Ended{})
	x := m.Compare
	if m.Phase != Idle || !x.Ended || len(x.Pieces) != 2 || len(x.Tokens) != 2 || len(x.Free[0]) != 1 || len(x.Free[1]) != 2 || x.Strays != [2]int{-1, 0} {
		t.Errorf("%+v", x)
	}
	if agree, kl := x.Agreed(1); agree != 0 || kl != 1.5 {
		t.Errorf("%d agree, KL %v", agree, kl)
	}
	if x.Sums[0] != nil || len(x.Sums[1].Retained) != 4 || len(x.Sums[1].Retained[0]) != 6 {
		t.Errorf("%+v", x.Sums[1])
	}
	if len(m.Turns) != 0 || m.Kept.Tokens != 0 {
		t.Error("the conversation has changed")
	}
	if _, ok := x.Both(Everywhere, 0, 1); ok {
		t.Error("half a comparison says what both keep")
	}
	x.Sums[0] = x.Sums[1]
	for p, want := range []bool{true, false, true} { // position 0 is in one of two lists
		if kept, ok := x.Both(Everywhere, p, 1); !ok || kept != [2]bool{want, want} {
			t.Errorf("position %d: %v, %v", p, kept, ok)
		}
	}
	// A question that has been asked is compared as it was asked.
	_, effects = play(t, answered(t), StartCompare{})
	if c := effects[0].(RunCompare); c.Question != "Where is the cup?" || c.Gold != "" || c.Other != "" {
		t.Errorf("%+v", c)
	}
	if got, effects := play(t, ready(t), Edit{Question, " "}, StartCompare{}); got.Phase != Idle || got.Problem == nil || got.Problem.Code != proto.CodeEmpty {
		t.Errorf("%v, %v", got.Phase, effects)
	}
}

func TestAComparisonThatEndsEarly(t *testing.T) {
	run, _ := play(t, answered(t), StartCompare{5}, Comparisons{Tokens: []proto.Compared{compared(0, "a")}})
	if _, effects := play(t, run, Halt{}); !reflect.DeepEqual(effects, []Effect{Cancel{}}) {
		t.Errorf("%v", effects)
	}
	for name, c := range map[string]struct {
		e     Event
		phase Phase
	}{
		"stopped": {Ended{proto.Done{Reason: proto.ReasonStopped}}, Idle},
		"failed":  {Failed{proto.Failure{Code: proto.CodeSmall}}, Idle},
		"died":    {Failed{proto.Failure{Code: proto.CodeDead}}, Opening},
		"gone":    {Gone{}, Broken},
	} {
		m, _ := play(t, run, c.e)
		if m.Phase != c.phase || !m.Compare.Ended || len(m.Compare.Tokens) != 1 || m.Compare.Stopped != (name == "stopped") || m.Compare.Failed == (name == "stopped") {
			t.Errorf("%s: phase %v, %+v", name, m.Phase, m.Compare)
		}
		if len(m.Turns) != 1 || m.Turns[0].Text() != " here." || m.Turns[0].Failed {
			t.Errorf("%s: the conversation has changed: %+v", name, m.Turns)
		}
	}
	if m, _ := play(t, run, Choose{offers[1].Manifest}); m.Compare.Begun || m.Phase != Opening {
		t.Errorf("with another model: %+v", m.Compare)
	}
}

func TestComparisonsThatDoNotFit(t *testing.T) {
	run, _ := play(t, ready(t), StartCompare{5})
	odd := compared(0, "a")
	odd.Prob, odd.KL, odd.Agree, odd.TopTexts, odd.Margin = nil, []float32{1}, []uint8{1, 1, 1}, nil, []float32{1, 2}
	m, _ := play(t, run, Comparisons{Tokens: []proto.Compared{odd, {Index: 7}, {Index: 0}}},
		Strays{Tokens: []proto.Strayed{{Run: 2}, {Run: 1, Index: 1 << 31}}},
		Contrasted{proto.Contrast{Run: 1 << 31}}, Contrasted{proto.Contrast{Run: 0, Retained: make([]float32, 5), Kept: proto.Kept{Tokens: 9, Layers: 4, KVHeads: 2, Budget: 1, Bits: make([]uint8, 3)}}})
	x := m.Compare
	if len(x.Tokens) != 1 || !math.IsNaN(x.Tokens[0].Prob[0]) || !math.IsNaN(x.Tokens[0].KL[1]) || !math.IsNaN(x.Tokens[0].Margin[2]) || x.Tokens[0].Agree[0] || x.Tokens[0].Top[1] != "" {
		t.Errorf("%+v", x.Tokens)
	}
	if len(x.Free[0])+len(x.Free[1]) != 0 || x.Sums[0].Retained != nil || x.Sums[1] != nil || !x.Sums[0].Kept.All {
		t.Errorf("%+v", x)
	}
	if kept, ok := (Compare{Sums: [2]*Contrast{x.Sums[0], x.Sums[0]}}).Both(Scope{99, 99}, -4, 1<<10); !ok || kept[0] {
		t.Errorf("%v, %v", kept, ok)
	}
}

func TestSidesOfAComparison(t *testing.T) {
	m, _ := play(t, ready(t), SetMethod{"snapkv"}, Ended{}, SetShare{50}, Ended{})
	if a := m.SideOf(0); a.Recipe.Method != "snapkv" || a.Share != 50 {
		t.Errorf("A is not the page's policy: %+v", a)
	}
	own, _ := play(t, m, SetSide{Side: 0, Method: "tova"})
	if a := own.SideOf(0); a.Recipe.Method != "tova" || a.Share != 50 || own.Policy.Recipe.Method != "snapkv" {
		t.Errorf("%+v", a)
	}
	if again, _ := play(t, own, SetSide{Side: 0}); again.SideOf(0).Recipe.Method != "snapkv" {
		t.Error("A does not follow the page again")
	}
	full, _ := play(t, m, SetSide{Side: 1, Method: Full})
	if b := full.SideOf(1); b.Share != 100 {
		t.Errorf("the full cache under a cap: %+v", b)
	}
	if b, _ := play(t, full, SetSide{Side: 1, Method: "h2o"}); b.SideOf(1).Share != matchShare {
		t.Errorf("after the full cache: %+v", b.SideOf(1))
	}
	match, _ := play(t, m, Match{0})
	if a, b := match.SideOf(0), match.SideOf(1); a.Recipe.Method != "streamingllm" || b.Recipe.Method != "h2o" || a.Share != 50 || b.Share != 50 {
		t.Errorf("%+v, %+v", a, b)
	}
	// Methods that need measured heads, unknown ones, wrappers and sides of nothing change nothing.
	for _, e := range []Event{SetSide{Side: 1, Method: "headkv"}, SetSide{Side: 1, Method: "?"}, SetSide{Side: 1, Method: "adakv"}, SetSide{Side: 2, Share: 12}, SetSide{Side: -1}, Match{1}, Match{-1}, Match{99}} {
		if got, _ := play(t, m, e); !reflect.DeepEqual(got, m) {
			t.Errorf("%+v: %+v", e, got.Compare)
		}
	}
}

func TestTheRivalOfAnAddress(t *testing.T) {
	for fragment, want := range map[string]struct {
		method  string
		share   int
		notices int
	}{
		"#b=h2o&bcap=50": {"h2o", 50, 0}, "#b=h2o": {"h2o", 100, 0}, "#b=full&bcap=12": {Full, 100, 0}, "#bcap=50": {"", 0, 0},
		"#b=h2o&bcap=-7": {"h2o", 12, 1}, "#b=h2o&bcap=x": {"h2o", 100, 1}, "#b=adakv": {"", 0, 1}, "#b=%00": {"", 0, 1}, "#pol=snapkv": {"", 0, 0},
	} {
		o := ParseAddress("", fragment)
		if o.Rival.Recipe.Method != want.method || o.Rival.Share != want.share || len(o.Notices) != want.notices {
			t.Errorf("%s: %+v, %v", fragment, o.Rival, o.Notices)
		}
	}
	m, _ := play(t, New(), Start{Options: ParseAddress("", "#pol=snapkv&cap=25&b=h2o&bcap=50"), Offers: offers})
	if !m.Compare.Open || m.fragment() != "cap=25&pol=snapkv&b=h2o&bcap=50" {
		t.Errorf("%+v, %q", m.Compare, m.fragment())
	}
	if m, _ := play(t, ready(t), Follow{"#b=tova"}); !m.Compare.Open || m.SideOf(1).Recipe.Method != "tova" {
		t.Errorf("%+v", m.Compare)
	}
	alike := ready(t)
	alike.Policy.Recipe.Method = rival().Recipe.Method
	if m, _ := play(t, alike, OpenCompare{true}); m.SideOf(0).Recipe.Method == m.SideOf(1).Recipe.Method {
		t.Errorf("to begin with, %s is compared with itself", m.SideOf(0).Recipe.Method)
	}
	if _, effects := play(t, ready(t), OpenCompare{true}); !reflect.DeepEqual(effects, []Effect{Address{"b=streamingllm&bcap=25"}}) {
		t.Errorf("%v", effects)
	}
}

package state

import (
	"reflect"
	"testing"

	"kvlens/wasm/proto"
)

// What the reader wrote outlives a turn that was stopped while it was read.
func TestAQuestionStoppedWhileItIsReadCanBeAskedAgain(t *testing.T) {
	for name, asked := range map[string]string{"of the story": "Where is the cup?", "the reader's own": " Why? "} {
		m, _ := play(t, ready(t), Edit{Question, asked}, Run{Now: 1}, Halt{}, Ended{proto.Done{Reason: proto.ReasonStopped}})
		if len(m.Turns) != 0 || m.Draft.Question != asked {
			t.Errorf("%s: %d turns, question %q", name, len(m.Turns), m.Draft.Question)
		}
	}
	// After an answer the next question comes, though the field had blanks around the one that was asked.
	m, _ := play(t, ready(t), Edit{Question, " Where is the cup? "}, Run{Now: 1}, Stepped{Steps: []proto.Step{step(3, 5, "x")}}, Ended{proto.Done{}})
	if m.Draft.Question != "What is here?" {
		t.Errorf("next question %q", m.Draft.Question)
	}
}

func TestAStoryKeepsWhatWasWrittenElsewhere(t *testing.T) {
	m, _ := play(t, ready(t), Edit{Message, "m"}, Edit{System, "s"}, Edit{RawText, "r"}, Preset{Draft{Story: "Another.", Question: "Which?"}})
	if d := m.Draft; d.Message != "m" || d.System != "s" || d.Raw != "r" || d.Story != "Another." || d.Question != "Which?" {
		t.Errorf("draft: %+v", d)
	}
}

// The action of an empty field goes to that field and leaves the conversation alone.
func TestAnEmptyQuestionCostsNoConversation(t *testing.T) {
	m, _ := play(t, answered(t), Edit{Question, " "}, Run{})
	m, effects := play(t, m, Act{})
	if len(m.Turns) != 1 || !reflect.DeepEqual(effects, []Effect{Focus{"question"}}) {
		t.Errorf("%d turns, effects %v", len(m.Turns), effects)
	}
}

// A conversation that no longer fits is begun anew, and the button says so.
func TestAFullConversationStartsOver(t *testing.T) {
	m, _ := play(t, answered(t), Run{Question: "x"}, Failed{proto.Failure{Code: proto.CodeTooLong}})
	if m.Problem.Action != ActAnew || len(m.Turns) != 1 {
		t.Fatalf("action %v, %d turns", m.Problem.Action, len(m.Turns))
	}
	m, effects := play(t, m, Act{})
	if len(m.Turns) != 0 || !reflect.DeepEqual(effects, []Effect{Empty{}, Focus{"story"}}) {
		t.Errorf("%d turns, effects %v", len(m.Turns), effects)
	}
}

// An engine that dies between two turns is started again by its client, without a failure: the cache is gone all the same.
func TestAnEngineThatDiesBetweenTurns(t *testing.T) {
	m, _ := play(t, answered(t), Progressed{proto.Progress{Stage: proto.StageStore}, 5})
	if m.Phase != Opening || m.Problem == nil || m.Problem.Code != proto.CodeDead || m.Turns[0].Failed {
		t.Errorf("phase %v, problem %+v, turns %+v", m.Phase, m.Problem, m.Turns)
	}
	m, _ = play(t, m, Opened{Opened: storyModel})
	if m.Problem != nil || len(m.Notices) != 1 || m.Notices[0].Key != "notice.restarted" {
		t.Errorf("once it runs again: problem %+v, notices %v", m.Problem, m.Notices)
	}
	m, effects := play(t, m, Run{Question: "y"})
	if g := effects[0].(Generate); g.Continue || g.Text == "" || len(m.Turns) != 1 {
		t.Errorf("the next turn continues a cache that is gone: %+v, %d turns", g, len(m.Turns))
	}
	if m, _ = play(t, ready(t), Progressed{proto.Progress{Stage: proto.StageStore}, 5}); m.Phase != Opening || m.Problem != nil {
		t.Errorf("with nothing lost: phase %v, problem %+v", m.Phase, m.Problem)
	}
}

// What a stopped opening was doing is over, and so is the silence about it.
func TestAStoppedOpeningIsNotSilent(t *testing.T) {
	quiet, _ := play(t, started(t), Tick{1}, Tick{Watchdog + 1})
	for name, e := range map[string]Event{"stopped": Ended{proto.Done{Reason: proto.ReasonStopped}}, "failed": Failed{proto.Failure{Code: proto.CodeNetwork}}, "gone": Gone{}} {
		if m, _ := play(t, quiet, e); quiet.Work.Quiet == 0 || m.Work.Quiet != 0 || m.Phase != Broken {
			t.Errorf("%s: quiet %v, then %v, phase %v", name, quiet.Work.Quiet, m.Work.Quiet, m.Phase)
		}
	}
}

func TestALanguageThatCannotBeFetchedIsSaid(t *testing.T) {
	m, _ := play(t, ready(t), SetLang{"zh"}, LangMissed{})
	if m.Lang != "en" || len(m.Notices) != 1 || m.Notices[0].Key != "notice.words" {
		t.Errorf("language %q, notices %v", m.Lang, m.Notices)
	}
}

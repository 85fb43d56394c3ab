package state

import (
	"math"
	"reflect"
	"testing"

	"kvlens/wasm/proto"
)

// explanation tells of list 0 of lossy: position 2 was the best of three in the prompt and left for the token at 4.
func explanation(tokens uint32) proto.Explained {
	nan := float32(math.NaN())
	e := proto.Explained{
		Tokens: tokens, Kept: []uint8{0, 0, 0, 1, 1, 1}, Stage: []uint8{6, 6, 9, 1, 1, 1}, At: []uint32{3, 3, 5, 4, 5, 6},
		Score: []float32{0.25, 0.125, 0.5, nan, nan, nan}, Threshold: []float32{0.5, 0.5, 0.75, nan, nan, nan},
		Rank: []uint32{2, 3, 1, 0, 0, 0}, Voters: []uint32{0, 1}, Votes: []uint8{0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0}, Bytes: 100,
	}
	n := min(int(tokens), 6)
	e.Kept, e.Stage, e.At, e.Score, e.Threshold, e.Rank = e.Kept[:n], e.Stage[:n], e.At[:n], e.Score[:n], e.Threshold[:n], e.Rank[:n]
	e.Votes = append(append([]uint8(nil), e.Votes[:n]...), e.Votes[6:6+n]...)
	return e
}

// asked gives what an event asks the engine to explain.
func asked(effects []Effect) (out []Explain) {
	for _, e := range effects {
		if x, ok := e.(Explain); ok {
			out = append(out, x)
		}
	}
	return out
}

func TestWhyIsAskedOnceAndOfTheListThatDroppedTheToken(t *testing.T) {
	m := lossy(t)
	serial := m.Turns[0].Serial
	m, effects := play(t, m, Select{Serial: serial, Answer: false, Index: 0})
	if a := asked(effects); len(a) != 1 || a[0].Layer != 0 || a[0].KVHead != 0 || m.Why.At != 0 || m.Why.N != 1 {
		t.Fatalf("%+v, %+v", effects, m.Why)
	}
	if _, effects := play(t, m, Select{Serial: serial, Answer: true, Index: 0, Stay: true}); len(effects) != 0 {
		t.Errorf("asked twice: %v", effects)
	}
	epoch := asked(effects)[0].Epoch
	m, _ = play(t, m, Explains{explanation(5), epoch})
	v := m.Verdict(0, 1)
	if !v.Known || v.Kept || v.Stage != proto.DecidedScore || v.At != 3 || v.Score != 0.125 || v.Threshold != 0.5 || v.Rank != 3 || v.Of != 3 {
		t.Errorf("%+v", v)
	}
	if want := []Voter{{0, false}, {1, true}}; !reflect.DeepEqual(m.Verdict(0, 0).Voters, want) {
		t.Errorf("%+v, want %+v", m.Verdict(0, 0).Voters, want)
	}
	if v := m.Verdict(0, 4); !v.Kept || v.Rank != 0 || !math.IsNaN(v.Score) {
		t.Errorf("%+v", v)
	}
	// A list that nobody asked about, and positions of nothing.
	for _, at := range [][2]int{{1, 2}, {0, 99}, {-1, 0}, {8, 1}} {
		if v := m.Verdict(at[0], at[1]); v.Known || v.Rank != 0 {
			t.Errorf("%v: %+v", at, v)
		}
	}
	// The list that the reader chooses is asked about; the same token again puts the card away.
	if _, effects := play(t, m, SelectList{1}); len(asked(effects)) != 1 || asked(effects)[0].KVHead != 1 {
		t.Errorf("%v", effects)
	}
	if _, effects := play(t, m, SelectList{77}); len(asked(effects)) != 0 {
		t.Errorf("%v", effects)
	}
	if m, _ := play(t, m, Select{Serial: serial, Index: 0}); m.Why.On {
		t.Errorf("%+v", m.Why)
	}
	// Another cache is another question, asked when the turn is over.
	run, effects := play(t, m, Resume{}, Stepped{Steps: []proto.Step{step(6, 1, "y")}})
	if len(asked(effects)) != 0 {
		t.Errorf("asked while a turn runs: %v", effects)
	}
	if _, effects = play(t, run, Ended{proto.Done{Reason: proto.ReasonMax}}); len(asked(effects)) != 1 || asked(effects)[0].Epoch == epoch {
		t.Errorf("%v", effects)
	}
}

func TestExplanationsThatDoNotFit(t *testing.T) {
	m, effects := play(t, lossy(t), Select{Serial: 1, Index: 0})
	epoch := asked(effects)[0].Epoch
	for name, spoil := range map[string]func(*proto.Explained){
		"a short column":     func(e *proto.Explained) { e.Rank = e.Rank[:2] },
		"no columns":         func(e *proto.Explained) { *e = proto.Explained{Tokens: 5} },
		"votes of nobody":    func(e *proto.Explained) { e.Voters = nil },
		"too few votes":      func(e *proto.Explained) { e.Votes = e.Votes[:3] },
		"a list of no model": func(e *proto.Explained) { e.Layer = 1 << 31 },
		"a head of no model": func(e *proto.Explained) { e.KVHead = 2 },
		"more tokens":        func(e *proto.Explained) { *e = explanation(6) },
	} {
		e := explanation(5)
		spoil(&e)
		if got, _ := play(t, m, Explains{e, epoch}); got.Verdict(0, 1).Known || got.Verdict(1, 1).Known {
			t.Errorf("%s was believed", name)
		}
	}
	// No answer is not asked for again, until the cache changes.
	m, _ = play(t, m, Unexplained{proto.Failure{Code: proto.CodeNoRecord}, epoch})
	if _, effects := play(t, m, SelectList{1}); m.Why.Failed != proto.CodeNoRecord || len(asked(effects)) != 0 || m.Problem != nil {
		t.Errorf("%+v, %v", m.Why, effects)
	}
}

func TestSelectingNothing(t *testing.T) {
	for _, s := range []Select{{Serial: 9}, {Serial: 1, Index: -1}, {Serial: 1, Index: 99}, {Serial: 1, Answer: true, Index: 3}} {
		if m, effects := play(t, lossy(t), s); m.Why.On || effects != nil {
			t.Errorf("%+v: %+v", s, m.Why)
		}
	}
	if m, _ := play(t, New(), Select{}, SelectList{3}, Deselect{}, GoBack{0}, SetPin{On: true, N: 1}, CallBack{}, Resume{}, StartCompare{}); m.Phase != Starting {
		t.Errorf("phase %v", m.Phase)
	}
}

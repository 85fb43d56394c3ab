package state

import (
	"math"
	"slices"
	"testing"

	"kvlens/wasm/proto"
)

const testHeads = 4 * 6 // of storyModel

// watched is a step over so many tokens in so many cells a head, all of one code.
func watched(tokens, cells int, code uint8) proto.Step {
	s := step(uint32(tokens), 5, "x")
	s.RowTokens, s.Rows = uint32(tokens), slices.Repeat([]uint8{code}, testHeads*cells)
	column := func(v float32) []float32 { return slices.Repeat([]float32{v}, testHeads) }
	s.Heads = proto.HeadSummaries{Sink: column(0.1), Local: column(0.2), Entropy: column(0.3), Top1: column(0.4)}
	return s
}

// asking is ready in the middle of an answer.
func asking(t *testing.T) Model {
	m, effects := play(t, ready(t), Run{Now: 1})
	if g := effects[0].(Generate); !g.Rows {
		t.Error("the built-in model is not watched")
	}
	m, _ = play(t, m, Prompted{Prompt: prompt})
	return m
}

func TestRowsAreRememberedWithinBounds(t *testing.T) {
	m := asking(t)
	for n := 100; n < 150; n++ {
		m, _ = Reduce(m, Stepped{Steps: []proto.Step{watched(n, n, 1)}})
	}
	g := m.Attention.Gazes
	if len(g) != 32 || g[0].Tokens != 118 || g[31].Tokens != 149 {
		t.Fatalf("%d rows, the first over %d tokens, the last over %d", len(g), g[0].Tokens, g[len(g)-1].Tokens)
	}
	if got, want := len(g[31].Head(testHeads-1)), 149; got != want || g[31].Head(testHeads) != nil || g[31].Head(-1) != nil {
		t.Errorf("the last head has %d codes, want %d", got, want)
	}
	// A row of 960,000 bytes: four of them are the most within 4 MiB.
	for n := range 9 {
		m, _ = Reduce(m, Stepped{Steps: []proto.Step{watched(40_000+n, 40_000, 1)}})
	}
	if n, bytes := len(m.Attention.Gazes), m.Attention.Bytes(); n != 4 || bytes > 5<<20 {
		t.Errorf("%d large rows in %d bytes", n, bytes)
	}
	m, _ = Reduce(m, Stepped{Steps: []proto.Step{watched(300_000, 300_000, 1)}})
	if n := len(m.Attention.Gazes); n != 1 {
		t.Errorf("of a row that is too large by itself there are %d", n)
	}
	m, _ = play(t, m, Ended{proto.Done{Reason: proto.ReasonMax}}, StartOver{})
	if len(m.Attention.Gazes) != 0 || m.Attention.Bytes() != 0 {
		t.Error("rows outlive their conversation")
	}
}

// After going back, rows of what is gone are gone once the answer goes on.
func TestRowsFollowEachOther(t *testing.T) {
	m, _ := play(t, asking(t), Stepped{Steps: []proto.Step{watched(5, 5, 1), watched(6, 6, 2), watched(7, 7, 3)}}, Stepped{Steps: []proto.Step{watched(6, 6, 4)}})
	var got []int
	for _, g := range m.Attention.Gazes {
		got = append(got, g.Tokens)
	}
	if !slices.Equal(got, []int{5, 6}) || m.Attention.Gazes[1].Codes[0] != 4 {
		t.Errorf("rows over %v", got)
	}
	s, ok := m.Shown(Head{1, 2})
	if !ok || !s.Live || s.First != 4 || s.Queries() != 2 || s.Tokens != 6 || m.Query(s) != 5 {
		t.Errorf("shown: %+v", s)
	}
	// A row that does not follow, and one of other cells, end the picture.
	m, _ = play(t, m, Stepped{Steps: []proto.Step{watched(9, 9, 1), watched(10, 5, 1)}})
	if s, _ := m.Shown(Head{0, 0}); s.Queries() != 1 || s.Pool != 2 || s.First != 9 {
		t.Errorf("shown: %+v", s)
	}
}

// Packets whose numbers do not fit show nothing.
func TestRowsThatDoNotFit(t *testing.T) {
	for name, spoil := range map[string]func(*proto.Step){
		"one byte too many": func(s *proto.Step) { s.Rows = append(s.Rows, 1) },
		"less than a head":  func(s *proto.Step) { s.Rows = s.Rows[:3] },
		"no tokens":         func(s *proto.Step) { s.RowTokens = 0 },
		"fewer tokens":      func(s *proto.Step) { s.RowTokens = 4 },
		"far more tokens":   func(s *proto.Step) { s.RowTokens = math.MaxUint32 },
	} {
		s := watched(5, 5, 1)
		spoil(&s)
		if m, _ := play(t, asking(t), Stepped{Steps: []proto.Step{s}}); len(m.Attention.Gazes) != 0 {
			t.Errorf("%s: %+v", name, m.Attention.Gazes)
		}
	}
	s := watched(5, 5, 1)
	s.Heads.Local = s.Heads.Local[1:]
	m, _ := play(t, asking(t), Stepped{Steps: []proto.Step{s}})
	if len(m.Attention.Gazes) != 1 || m.Means(BySink) != nil || m.Habits() != nil {
		t.Errorf("numbers of heads that do not fit: %+v", m.Attention.Gazes)
	}
	for _, o := range []proto.Opened{
		{}, {Layers: 2, Heads: 7, KVHeads: 2}, {Layers: 2, Heads: 2, KVHeads: 4}, {Layers: 1 << 31, Heads: 1 << 31, KVHeads: 1}, {Layers: 2, Heads: 4},
	} {
		m := asking(t)
		m.Opened = o
		m, _ = play(t, m, Stepped{Steps: []proto.Step{watched(5, 5, 1)}}, PickHead{Head{0, 0}})
		if l, _, _ := m.Shape(); l != 0 || len(m.Attention.Gazes) != 0 || m.Attention.Picked != NoHead || len(m.Means(ByKept)) != 0 {
			t.Errorf("a model of %d × %d/%d heads is shown", o.Layers, o.Heads, o.KVHeads)
		}
	}
}

func view(layer, head uint32, n, pool int) proto.Matrix {
	cells := (n + pool - 1) / pool
	x := proto.Matrix{Layer: layer, Head: head, Tokens: uint32(n), Pool: uint32(pool), Cells: uint32(cells), Codes: make([]uint8, cells*cells)}
	for i := range x.Codes {
		x.Codes[i] = uint8(i + 1)
	}
	return x
}

func looks(effects []Effect) (look []Look, unlook int) {
	for _, e := range effects {
		switch e := e.(type) {
		case Look:
			look = append(look, e)
		case Unlook:
			unlook++
		}
	}
	return look, unlook
}

func TestAHeadIsLookedAtWhenThereIsTime(t *testing.T) {
	m, effects := play(t, answered(t), PickHead{Head{2, 4}})
	look, _ := looks(effects)
	if len(look) != 1 || look[0].Layer != 2 || look[0].Head != 4 || m.Scope != (Scope{2, 1}) || !m.Attention.Wanted {
		t.Fatalf("picked: %+v, %+v, scope %v", effects, m.Attention, m.Scope)
	}
	if _, effects = play(t, m, SetBare{true}); len(effects) != 0 {
		t.Errorf("it is asked for twice: %+v", effects)
	}
	// Another head instead; what comes of the first one is late.
	m, effects = play(t, m, PickHead{Head{0, 0}})
	second, _ := looks(effects)
	if len(second) != 1 || second[0].Layer != 0 {
		t.Fatalf("another head: %+v", effects)
	}
	m, _ = play(t, m, Viewed{view(2, 4, 5, 1), look[0].Epoch}, Overlooked{View: look[0].View, Epoch: look[0].Epoch})
	if m.Attention.Matrix.Tokens != 0 || !m.Attention.Wanted {
		t.Errorf("a late matrix: %+v", m.Attention)
	}
	m, effects = play(t, m, Viewed{view(0, 0, 5, 1), second[0].Epoch}, Overlooked{View: second[0].View, Epoch: second[0].Epoch})
	s, ok := m.Shown(Head{0, 0})
	if !ok || s.Live || s.Queries() != 5 || m.Attention.Wanted || len(effects) != 0 {
		t.Fatalf("shown: %+v, effects %+v", s, effects)
	}
	// A turn takes the engine; the matrix is of another cache then, and asked for again after it.
	m, effects = play(t, m, Run{Question: "What is here?", Now: 2})
	if look, unlook := looks(effects); len(look) != 0 || unlook != 0 {
		t.Errorf("while a turn begins: %+v", effects)
	}
	m, _ = play(t, m, Stepped{Steps: []proto.Step{step(9, 7, "x")}})
	if _, ok := m.Shown(Head{0, 0}); ok {
		t.Error("an old matrix is shown")
	}
	m, effects = play(t, m, Ended{proto.Done{Reason: proto.ReasonMax}})
	if look, _ := looks(effects); len(look) != 1 || look[0].Epoch == second[0].Epoch {
		t.Fatalf("after the turn: %+v", effects)
	}
	// A turn that begins while it is computed stops it.
	_, effects = play(t, m, Run{Question: "Why?", Now: 3})
	if _, unlook := looks(effects); unlook != 1 {
		t.Errorf("a turn begins: %+v", effects)
	}
	m, effects = play(t, m, PickHead{NoHead})
	if _, unlook := looks(effects); unlook != 1 || m.Scope != Everywhere || m.Attention.Picked != NoHead {
		t.Errorf("let go: %+v, scope %v", effects, m.Scope)
	}
}

func TestAMatrixThatCannotBeHadIsNotAskedForAgain(t *testing.T) {
	m, effects := play(t, answered(t), PickHead{Head{2, 4}})
	look, _ := looks(effects)
	m, effects = play(t, m, Overlooked{look[0].View, look[0].Epoch, true})
	if again, _ := looks(effects); len(again) != 0 || m.Attention.Wanted {
		t.Errorf("%+v", effects)
	}
	if _, effects = play(t, m, PickHead{Head{9, 9}}); m.Attention.Picked != (Head{2, 4}) || len(effects) != 0 {
		t.Errorf("a head that is not there: %+v", effects)
	}
	if _, effects := play(t, ready(t), PickHead{Head{1, 1}}); len(effects) != 0 {
		t.Errorf("before anything was read: %+v", effects)
	}
}

func TestMatricesThatDoNotFit(t *testing.T) {
	m, _ := play(t, answered(t), PickHead{Head{1, 3}})
	for name, spoil := range map[string]func(*proto.Matrix){
		"layer":          func(x *proto.Matrix) { x.Layer = 4 },
		"head":           func(x *proto.Matrix) { x.Head = math.MaxUint32 },
		"first":          func(x *proto.Matrix) { x.First = 1 },
		"no tokens":      func(x *proto.Matrix) { x.Tokens = 0 },
		"many tokens":    func(x *proto.Matrix) { x.Tokens = math.MaxUint32 },
		"no pool":        func(x *proto.Matrix) { x.Pool = 0 },
		"pool":           func(x *proto.Matrix) { x.Pool = math.MaxUint32 },
		"cells":          func(x *proto.Matrix) { x.Cells++ },
		"fewer codes":    func(x *proto.Matrix) { x.Codes = x.Codes[1:] },
		"too many cells": func(x *proto.Matrix) { *x = view(1, 3, 1025, 1) },
	} {
		x := view(1, 3, 5, 2)
		spoil(&x)
		if got, _ := play(t, m, Viewed{x, m.epoch}); got.Attention.Matrix.Tokens != 0 {
			t.Errorf("%s: taken", name)
		}
	}
	x := view(1, 3, 5, 2)
	x.Left, x.Would = make([]uint32, 4), make([]uint8, 3)
	got, _ := play(t, m, Viewed{x, m.epoch})
	s, ok := got.Shown(Head{1, 3})
	if !ok || s.Left != nil || s.Would != nil || got.Attention.Matrix.Evicted() != 0 || s.WouldRow(2) != nil {
		t.Errorf("columns that do not fit: %+v", s)
	}
	for q := -2; q < 9; q++ { // no query makes it fail
		s.Top(q, 20)
	}
}

// Of what is shown: pooled rows, what is looked at most, what has left.
func TestTop(t *testing.T) {
	m, _ := play(t, answered(t), PickHead{Head{1, 3}})
	x := view(1, 3, 5, 2) // 3 × 3 cells with the codes 1…9
	x.Codes[7], x.Codes[8] = 200, 0
	x.Left = []uint32{proto.Stays, proto.Stays, 4, 3, proto.Stays}
	m, _ = play(t, m, Viewed{x, m.epoch}, PickRow{4})
	s, _ := m.Shown(Head{1, 3})
	if got, want := s.Top(m.Query(s), 9), []Seen{{2, 2, 200, 3}, {0, 2, 7, proto.Stays}}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := s.Top(1, 1); len(got) != 1 || got[0].At != 4 || got[0].N != 1 || got[0].Code != 3 {
		t.Errorf("of the second query: %+v", got)
	}
	if m.Gone(Head{1, 3}, s) != 2 || m.Attention.Matrix.Evicted() != 2 {
		t.Errorf("%d have left, want 2", m.Gone(Head{1, 3}, s))
	}
	m, _ = play(t, m, PickRow{99})
	if q := m.Query(s); q != 4 {
		t.Errorf("a row that is not there is query %d", q)
	}
}

// Without the first tokens the rest of a row adds up to one, in the order it had.
func TestBare(t *testing.T) {
	row := []uint8{250, 9, 9, 9, 100, 0, 180, 120}
	got := bare([][]uint8{row, {200, 3}, make([]uint8, 8)}, 1)
	sum := 0.0
	for i, c := range got[0] {
		sum += Weight(c)
		if i < 4 && c != 0 || row[i] == 0 && c != 0 {
			t.Errorf("cell %d is %d", i, c)
		}
	}
	if math.Abs(sum-1) > 0.04 { // codes are 3.7 % apart
		t.Errorf("the rest adds up to %.3f", sum)
	}
	if !(got[0][6] > got[0][7] && got[0][7] > got[0][4]) {
		t.Errorf("the order is another: %v", got[0])
	}
	if slices.Max(got[1]) != 0 || slices.Max(got[2]) != 0 {
		t.Errorf("of nothing there is %v", got[1:])
	}
}

// The letters of heads need more than evenness would give.
func TestHabits(t *testing.T) {
	for _, c := range []struct {
		tokens           int
		sink, local, top float32
		want             Habit
	}{
		{128, 0.9, 0.05, 0.8, AtSink},
		{128, 0.5, 0.4, 0.4, Mixed},
		{128, 0.1, 0.7, 0.2, AtLocal},    // even: 32/128; half of the way to 1 is 0.625
		{128, 0.1, 0.6, 0.2, Mixed},      // less than that
		{1024, 0.1, 0.6, 0.2, AtLocal},   // even: 1/32; 0.516
		{128, 0.1, 0.2, 0.6, AtFar},      // more than half to one token in between
		{128, 0.1, 0.2, 0.4, Mixed},      // spread over many in between
		{36, 0.05, 0.95, 0.9, Mixed},     // there is nothing but first and last tokens
		{36, 0.9, 0.1, 0.9, AtSink},      //
		{4, 1, 0, 1, Mixed},              // only first tokens
		{40, 0.05, 0.85, 0.2, Mixed},     // even: 0.8; 0.9
		{40, 0.05, 0.93, 0.2, AtLocal},   //
		{128, 0.516, 0.484, 0.2, AtSink}, // even: 1/32; 0.5156
	} {
		s := watched(c.tokens, 1, 1)
		column := func(v float32) []float32 { return slices.Repeat([]float32{v}, testHeads) }
		s.Heads = proto.HeadSummaries{Sink: column(c.sink), Local: column(c.local), Entropy: column(0), Top1: column(c.top)}
		m, _ := play(t, asking(t), Stepped{Steps: []proto.Step{s}})
		if got := m.Habits(); len(got) != testHeads || got[0] != c.want || got[testHeads-1] != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestMeans(t *testing.T) {
	one, two := watched(100, 100, 1), watched(101, 101, 1)
	one.Heads.Entropy[3], two.Heads.Entropy[3] = float32(math.Log(100)), 0
	one.Heads.Sink[3], two.Heads.Sink[3] = 0.2, 0.4
	m, _ := play(t, asking(t), Stepped{Steps: []proto.Step{one, two}})
	for x, want := range map[Measure]float64{BySink: 0.3, ByEntropy: 0.5, ByLocal: 0.2, ByTop1: 0.4} {
		if got := m.Means(x)[3]; math.Abs(float64(got)-want) > 1e-6 {
			t.Errorf("%v: %g, want %g", x, got, want)
		}
	}
	if m.Means(ByKept) != nil {
		t.Error("something is said of a cache that is not known")
	}
}

// Models other than the built-in one are watched when the reader says so, and the reader's word stays.
func TestWatching(t *testing.T) {
	m, _ := play(t, started(t), Opened{Opened: storyModel})
	if !m.Attention.On {
		t.Error("the built-in model is not watched")
	}
	m, _ = play(t, m, Choose{offers[1].Manifest}, Opened{Opened: storyModel})
	if m.Attention.On {
		t.Error("a model that came over the network is watched")
	}
	m, _ = play(t, m, Watch{true}, Choose{offers[0].Manifest}, Opened{Opened: storyModel}, Choose{offers[1].Manifest}, Opened{Opened: storyModel})
	if !m.Attention.On {
		t.Error("what the reader switched on is off")
	}
	if m, _ = play(t, m, SetBy{200}); m.Attention.By >= Measures {
		t.Errorf("measure %d", m.Attention.By)
	}
}

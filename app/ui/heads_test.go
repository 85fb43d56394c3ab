//go:build !js

package ui

import (
	"strconv"
	"strings"
	"testing"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
	"kvlens/wasm/proto"
)

// Names that join a prefix to a key must all have their message.
func TestEveryMeasureAndHabitHasWords(t *testing.T) {
	for _, lang := range state.Languages {
		c := words(t, lang)
		for x := range state.Measures {
			if !c.Has("heads.by." + x.String()) {
				t.Errorf("%s lacks the words of %s", lang, x)
			}
		}
		seen := map[string]bool{}
		for _, x := range letters {
			if !c.Has("heads.habit."+x.name) || seen[x.letter] || seen[x.name[:1]] {
				t.Errorf("%s: %s lacks words, or a letter of its own", lang, x.name)
			}
			seen[x.letter], seen[x.name[:1]] = true, true
		}
		for _, p := range []string{"story", "heads", "matrix", "memory"} {
			if !c.Has("jump." + p) {
				t.Errorf("%s lacks the words of %s", lang, p)
			}
		}
	}
}

// grid is the page's grid of heads for a model of some shape.
func grid(t *testing.T, layers, queryHeads, kv uint32, wide bool) string {
	t.Helper()
	ctl := newController(words(t, "en"), noHost{})
	opened := proto.Opened{Layers: layers, Heads: queryHeads, KVHeads: kv, Modes: []uint8{uint8(proto.Story)}}
	step := proto.Step{Position: 2, RowTokens: 2, Rows: make([]uint8, layers*queryHeads)}
	for _, e := range []state.Event{
		state.Start{Offers: []state.Offer{{Manifest: "a.json", BuiltIn: true}}},
		state.Opened{Opened: opened},
		state.Run{Question: "?", Now: 1},
		state.Stepped{Steps: []proto.Step{step}},
		state.PickHead{Head: state.Head{Layer: 1, Head: 2}},
	} {
		ctl.reduce(e)
	}
	h, ok := ctl.heads().(*heads)
	if !ok {
		t.Fatal("no heads are shown")
	}
	h.wide = wide
	return app.HTMLString(h)
}

// A grid is one stop of the Tab key, with a cell for every head, in rows of layers or of heads, and one that is chosen.
func TestGrid(t *testing.T) {
	for _, c := range []struct {
		layers, heads, kv      uint32
		wide                   bool
		rows, cells, brackets  int
		canvases, first, third int // number of the head in the first and in the third cell
	}{
		{5, 6, 2, false, 5, 30, 2, 30, 0, 2},
		{30, 9, 3, false, 30, 270, 3, 1, 0, 2},
		{30, 9, 3, true, 9, 270, 0, 1, 0, 18}, // rows are heads: the third cell is the third layer's
	} {
		s := grid(t, c.layers, c.heads, c.kv, c.wide)
		count := func(what string) int { return strings.Count(s, what) }
		if count(`role="rowheader"`) != c.rows || count(`role="gridcell"`) != c.cells || count(`class="bracket"`) != c.brackets || count("<canvas") != c.canvases {
			t.Errorf("%+v: %d rows, %d cells, %d brackets, %d canvases", c, count(`role="rowheader"`), count(`role="gridcell"`), count(`class="bracket"`), count("<canvas"))
		}
		chosen := count(`aria-selected`) - count(`aria-selected="false"`)
		if count(`tabindex="0"`) != 1 || chosen != 1 || count(`aria-label="Layer 2, head 3"`) != 1 {
			t.Errorf("%+v: %d stops, %d chosen", c, count(`tabindex="0"`), chosen)
		}
		var order []string
		for rest := s; ; {
			_, after, ok := strings.Cut(rest, `data-i="`)
			if !ok {
				break
			}
			i, _, _ := strings.Cut(after, `"`)
			order, rest = append(order, i), after
		}
		if order[0] != strconv.Itoa(c.first) || order[2] != strconv.Itoa(c.third) {
			t.Errorf("%+v: the cells are in the order %v…", c, order[:3])
		}
	}
}

// The profile of a row is as wide as the picture: a bar for each cell that is not next to nothing, as high as its colour says.
func TestProfile(t *testing.T) {
	s := state.Shown{Tokens: 4, Pool: 1}
	if got, want := profile([]uint8{255, 0, 51}, s, false), "M25.0 100v-100h200.0V100zM525.0 100v-20h200.0V100z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := profile([]uint8{255, 200, 51}, s, true), "M25.0 100v-100h200.0V100zM275.0 100v-14h200.0V100z"; got != want { // 10^(4·200/255 − 4) = 0.137
		t.Errorf("linear: got %s, want %s", got, want)
	}
	for _, row := range [][]uint8{nil, {}, {0, 0}} {
		if got := profile(row, s, false); got != "M0 0" {
			t.Errorf("of nothing: %s", got)
		}
	}
	long := make([]uint8, 1000)
	long[777] = 255
	if got := profile(long, state.Shown{Tokens: 1000, Pool: 1}, false); strings.Count(got, "M") != 1 || !strings.HasPrefix(got, "M775.") {
		t.Errorf("a needle in a long row: %s", got)
	}
	if got := profile(long, state.Shown{}, false); got != "M0 0" {
		t.Errorf("a row over no tokens: %s", got)
	}
}

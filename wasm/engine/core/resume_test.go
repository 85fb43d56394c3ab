//go:build !js

package core

import (
	"reflect"
	"slices"
	"testing"

	"kvlens/wasm/proto"
)

// An answer that pauses after every token, or is stopped, and goes on is the answer in one go: tokens by chance, text,
// evictions and the turn after it.
func TestResume(t *testing.T) {
	for _, c := range []struct {
		method string
		share  float32
		max    uint32
		forced []uint32
	}{
		{"full", 1, 12, nil},
		{"h2o", 0.5, 30, nil},
		{"snapkv", 0.4, 9, []uint32{881, 1773, 1557}},
	} {
		p, q := opened(t, hooks{}), opened(t, hooks{})
		g := ask(evening)
		g.Mode, g.Text, g.Max, g.Forced = proto.Raw, story, c.max, c.forced
		g.Sampling = proto.Sampling{Temperature: 2, Seed: 5}
		for _, p := range []*page{p, q} {
			p.ask(under(c.method, c.share)).ok()
		}
		whole := p.ask(g).ok()
		g.Pause = 1
		steps := q.ask(g).ok().steps
		for g.Resume = true; len(steps) < len(whole.steps); {
			g.Max = c.max - uint32(len(steps))
			g.Forced = c.forced[min(len(steps), len(c.forced)):]
			o := q.ask(g).ok()
			if len(o.steps) != 1 || o.done.Reason != proto.ReasonMax || len(o.prompt.IDs) != 0 || len(o.kept) != 1 {
				t.Fatalf("%s: %d steps, %+v, a prompt of %d, %d reports", c.method, len(o.steps), o.done, len(o.prompt.IDs), len(o.kept))
			}
			steps = append(steps, o.steps...)
		}
		for i, want := range whole.steps {
			got := steps[i]
			if got.Token != want.Token || got.Position != want.Position || got.Text != want.Text || !slices.Equal(got.Evictions.Position, want.Evictions.Position) {
				t.Errorf("%s, step %d: token %d at %d, %d evictions, want %d at %d, %d", c.method, i,
					got.Token, got.Position, len(got.Evictions.Position), want.Token, want.Position, len(want.Evictions.Position))
			}
		}
		if !alike(&outcome{steps: steps}, whole) {
			t.Errorf("%s: other probabilities", c.method)
		}
		next := askOn(morning)
		next.Mode, next.Text = proto.Raw, " and then"
		if a, b := p.ask(next).ok(), q.ask(next).ok(); !alike(a, b) || !reflect.DeepEqual(a.kept, b.kept) || a.prompt.First != b.prompt.First {
			t.Errorf("%s: the next turn is %q, want %q", c.method, b.text(), a.text())
		}
		// Settings that are changed read the whole of it again.
		for _, p := range []*page{p, q} {
			p.ask(under("tova", 0.5)).ok()
		}
		if a, b := p.ask(next).ok(), q.ask(next).ok(); !alike(a, b) || !reflect.DeepEqual(a.kept, b.kept) {
			t.Errorf("%s: under another recipe %q, want %q", c.method, b.text(), a.text())
		}
	}
}

// What the text waited for when it paused comes when it goes on.
func TestResumeInTheMiddleOfWords(t *testing.T) {
	p := opened(t, hooks{})
	p.ask(proto.Generate{Resume: true, Max: 3}).fails(proto.CodeEmpty)
	g := ask(evening)
	g.Pause = 2
	first := p.ask(g).ok()
	g.Pause, g.Resume = 0, true
	if o := p.ask(g).ok(); first.text()+o.text() != " a sandwich." || o.done != (proto.Done{Reason: proto.ReasonStopText, Tokens: 1}) {
		t.Errorf("%q and then %q, %+v", first.text(), o.text(), o.done)
	}
	if o := p.ask(g).ok(); o.done.Tokens == 0 { // beyond the stop, if one insists
		t.Errorf("%q, %+v", o.text(), o.done)
	}
	p.ask(proto.Reset{}).ok()
	p.ask(g).fails(proto.CodeEmpty)

	// A character of three bytes, which are three tokens here.
	pieces := p.ask(proto.Generate{Text: "龘", Max: 1}).ok().prompt
	ids := pieces.IDs[len(pieces.IDs)-3:]
	text := ""
	for i := range ids {
		o := p.ask(proto.Generate{Text: "x", Max: 1, Forced: ids[i : i+1], Resume: i > 0}).ok()
		text += o.text()
	}
	if text != "龘" {
		t.Errorf("%d give %q", ids, text)
	}
}

// A device that is lost while an answer goes on takes nothing along.
func TestResumeLost(t *testing.T) {
	g := proto.Generate{Text: story, Mode: proto.Raw, Max: 30}
	p := opened(t, hooks{})
	want := p.ask(g).ok().tokens()
	for _, after := range []int{1, 30, 100} {
		p := newPage(t, hooks{choose: breaking("", 31*5*3+after)})
		p.ask(proto.Open{Manifest: builtIn, Backend: "webgpu"}).ok()
		g := g
		g.Pause = 10
		got := p.ask(g).ok()
		g.Pause, g.Resume, g.Max = 0, true, 20
		o := p.ask(g).ok()
		if ids := append(got.tokens(), o.tokens()...); !slices.Equal(ids, want) || len(got.moved)+len(o.moved) != 1 || len(o.moved) != 1 {
			t.Errorf("lost after %d more: %d, want %d; moved %+v, %+v", after, ids, want, got.moved, o.moved)
		}
	}
}

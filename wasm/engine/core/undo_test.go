//go:build !js

package core

import (
	"reflect"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/proto"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
)

// last is the latest report of what is kept.
func (o *outcome) last() proto.Kept { return o.kept[len(o.kept)-1] }

// Back to any moment: what the cache held then, and the same answer from there, with checkpoints and without; the cache
// is not touched when only that setting changes.
func TestUndo(t *testing.T) {
	for _, c := range []struct {
		method string
		share  float32
	}{{"full", 1}, {"h2o", 0.4}, {"snapkv", 0.4}} {
		for _, keep := range []bool{false, true} {
			p := opened(t, hooks{})
			m := under(c.method, c.share)
			m.Memory.Undo = keep
			p.ask(m).ok()
			g := ask(evening)
			g.Sampling = proto.Sampling{Temperature: 3, Seed: 8}
			g.Mode, g.Text, g.Max = proto.Raw, story, 12
			one := p.ask(g).ok()
			prompt := uint32(len(one.prompt.IDs))
			more := g
			more.Continue, more.Text = true, " and then"
			two := p.ask(more).ok()

			o := p.ask(proto.Undo{Tokens: two.prompt.First}).ok() // before the second prompt
			if o.state.Position != two.prompt.First-1 || !reflect.DeepEqual(o.last(), one.last()) {
				t.Errorf("%s: %+v, %+v, want %+v", c.method, o.state, o.last(), one.last())
			}
			if got := p.ask(more).ok(); !alike(got, two) || !reflect.DeepEqual(got.last(), two.last()) {
				t.Errorf("%s: the second turn again is %q, want %q", c.method, got.text(), two.text())
			}
			o = p.ask(proto.Undo{Tokens: prompt}).ok()
			if o.state.Position != prompt || !reflect.DeepEqual(o.last(), one.kept[0]) {
				t.Errorf("%s: after the prompt: %+v, want %+v", c.method, o.last(), one.kept[0])
			}
			g.Resume = true
			if got := p.ask(g).ok(); !alike(got, one) || !reflect.DeepEqual(got.last(), one.last()) {
				t.Errorf("%s: the answer again is %q, want %q", c.method, got.text(), one.text())
			}
			p.ask(proto.Undo{Tokens: prompt + 5}).ok()
			g.Max -= 5
			got := p.ask(g).ok()
			got.steps = append(one.steps[:5:5], got.steps...)
			if !alike(got, one) || !reflect.DeepEqual(got.last(), one.last()) {
				t.Errorf("%s: from the sixth token on it is %q, want %q", c.method, got.text(), one.text())
			}
			if kept := p.ask(proto.SetMemory{Memory: under(c.method, c.share).Memory}).ok(); !reflect.DeepEqual(kept.last(), one.last()) {
				t.Errorf("%s: another setting of undo changes what is kept", c.method)
			}
			if again := p.ask(more).ok(); !alike(again, two) {
				t.Errorf("%s: the second turn is %q, want %q", c.method, again.text(), two.text())
			}
			if o = p.ask(proto.Undo{}).ok(); o.state.Position != 0 || o.state.Stored != 0 {
				t.Errorf("%s: back to nothing: %+v", c.method, o.state)
			}
			g.Resume = true
			p.ask(g).fails(proto.CodeEmpty)
		}
	}
}

func TestUndoRefuses(t *testing.T) {
	p := newPage(t, hooks{})
	p.ask(proto.Undo{}).fails(proto.CodeBadRequest, "model")
	p = opened(t, hooks{})
	p.ask(proto.Undo{Tokens: 1}).fails(proto.CodeBadRequest, "tokens")
	o := p.ask(ask(evening)).ok()
	for _, n := range []uint32{1, 61, 66, 1 << 31, 1<<32 - 1} {
		p.ask(proto.Undo{Tokens: n}).fails(proto.CodeBadRequest, "tokens")
	}
	if got := p.ask(proto.Undo{Tokens: 65}).ok(); got.state.Position != o.state.Position { // where it is
		t.Errorf("%+v", got.state)
	}
	if got := p.ask(askOn(morning)).ok(); got.text() != " bread." {
		t.Errorf("afterwards: %q", got.text())
	}
}

// A way back that is stopped leaves the conversation where it was; one on which the device is lost comes to its end.
func TestUndoStoppedAndLost(t *testing.T) {
	stop, want := opened(t, hooks{}), opened(t, hooks{})
	for _, p := range []*page{stop, want} {
		p.ask(under("h2o", 0.4)).ok()
		p.ask(ask(evening)).ok()
		p.ask(askOn(morning)).ok()
	}
	stop.last++
	id := stop.last
	stop.send(id, proto.Undo{Tokens: 64})
	o := stop.wait(id, func(e event) {
		if _, ok := e.msg.(proto.Progress); ok && stop.last == id {
			stop.last++
			stop.send(stop.last, proto.Stop{Target: id})
		}
	}).ok()
	a := stop.ask(askOn(evening)).ok()
	if b := want.ask(askOn(evening)).ok(); o.done.Reason == proto.ReasonStopped && (!alike(a, b) || a.prompt.First != b.prompt.First) {
		t.Errorf("%+v; the next turn is %q at %d, want %q at %d", o.done, a.text(), a.prompt.First, b.text(), b.prompt.First)
	}

	p := opened(t, hooks{})
	p.ask(ask(evening)).ok()
	p.ask(askOn(morning)).ok()
	wanted := p.ask(proto.Undo{Tokens: 64}).ok()
	var made []*fragile
	q := newPage(t, hooks{choose: func(_ Wish, led *cache.Ledger) (step.Backend, string, error) {
		made = append(made, &fragile{Backend: ref.New(led), left: -1})
		return made[len(made)-1], proto.WhyTested, nil
	}})
	q.ask(proto.Open{Manifest: builtIn, Backend: "webgpu"}).ok()
	q.ask(ask(evening)).ok()
	q.ask(askOn(morning)).ok()
	made[0].gone = true
	back := q.ask(proto.Undo{Tokens: 64}).ok()
	if len(back.moved) != 1 || back.state.Position != wanted.state.Position {
		t.Errorf("moved %+v, %+v", back.moved, back.state)
	}
	if got := q.ask(askOn(morning)).ok(); got.text() != " bread." {
		t.Errorf("the next turn is %q", got.text())
	}
}

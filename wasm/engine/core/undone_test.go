//go:build !js

package core

import (
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/proto"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
)

// Stop that is heard while the results of a prompt are waited for, as they are on a GPU for most of the time that a prompt
// takes: the page takes a turn back that has no answer, and so does the engine.
func TestStopWhileResultsAreAwaited(t *testing.T) {
	var armed atomic.Bool
	var p *page
	heard := make(chan struct{})
	p = opened(t, hooks{backend: func(b step.Backend) step.Backend {
		return &watched{Backend: b, read: func([]byte) {
			if armed.CompareAndSwap(true, false) {
				_ = p.conn.Send(proto.Encode(1<<20, proto.Stop{Target: p.last}))
				<-heard
			}
		}}
	}})
	p.ask(ask(evening)).ok()
	want := p.ask(askOn(morning)).ok()

	p.ask(ask(evening)).ok()
	armed.Store(true)
	p.last++
	p.send(p.last, askOn(morning))
	o := p.wait(p.last, func(e event) {
		if e.id == 1<<20 {
			close(heard)
		}
	}).ok()
	if o.done.Reason != proto.ReasonStopped || len(o.steps) != 0 || o.state.Position >= want.prompt.First {
		t.Errorf("ended with %+v, %d steps, position %d; the turn begins at %d", o.done, len(o.steps), o.state.Position, want.prompt.First)
	}
	if got := p.ask(askOn(morning)).ok(); got.prompt.First != want.prompt.First || !slices.Equal(got.tokens(), want.tokens()) {
		t.Errorf("asked again: %q at %d, want %q at %d", got.text(), got.prompt.First, want.text(), want.prompt.First)
	}
}

// A device that went while nobody asked for anything: the conversation survives whatever meets that first.
func TestNothingIsLostWhileIdle(t *testing.T) {
	var made []*fragile
	p := newPage(t, hooks{choose: func(_ Wish, led *cache.Ledger) (step.Backend, string, error) {
		made = append(made, &fragile{Backend: ref.New(led), left: -1})
		return made[len(made)-1], proto.WhyTested, nil
	}})
	p.ask(proto.Open{Manifest: builtIn, Backend: "webgpu"}).ok()
	first := p.ask(ask(evening)).ok()
	stored := first.state.Stored

	made[0].gone = true // other pages
	o := p.ask(proto.SetMemory{Memory: proto.Memory{F32: true}}).ok()
	if len(o.moved) != 1 || o.state.Stored != stored || len(made) != 2 {
		t.Errorf("other pages: the page hears %+v; %d tokens of %d are left", o.moved, o.state.Stored, stored)
	}
	p.ask(under("full", 1)).ok()
	made[1].gone = true // a first turn, whose length settles what a share is
	g := ask(evening)
	g.Max += 5
	if o := p.ask(g).ok(); len(o.moved) != 1 || !slices.Equal(o.tokens(), first.tokens()) || len(made) != 3 {
		t.Errorf("a share: the page hears %+v, and %q", o.moved, o.text())
	}
}

// A change that is stopped, on a device that goes before everything is as it was again: the conversation stays.
func TestLostWhileGoingBack(t *testing.T) {
	var made []*fragile
	var cancel func()
	p := newPage(t, hooks{choose: func(_ Wish, led *cache.Ledger) (step.Backend, string, error) {
		made = append(made, &fragile{Backend: ref.New(led), left: -1})
		return &watched{Backend: made[len(made)-1], run: func(*step.Args, int) {
			if cancel != nil {
				cancel()
			}
		}}, proto.WhyTested, nil
	}})
	p.ask(proto.Open{Manifest: builtIn, Backend: "webgpu"}).ok()
	stored := p.ask(ask(evening)).ok().state.Stored
	for _, after := range []int{5, 20, 60} { // operations: while it changes, while it goes back
		heard, calls := make(chan struct{}), 0
		cancel = func() {
			if calls++; calls == 10 {
				_ = p.conn.Send(proto.Encode(1<<20, proto.Stop{Target: p.last}))
				<-heard
			}
		}
		made[len(made)-1].left = after
		p.last++
		p.send(p.last, proto.SetMemory{Memory: proto.Memory{F32: true}})
		o := p.wait(p.last, func(e event) {
			if e.id == 1<<20 {
				close(heard)
			}
		}).ok()
		cancel = nil
		if s := p.ask(proto.GetState{}).ok().state; o.done.Reason != proto.ReasonStopped || s.Stored != stored || len(o.moved) != 1 {
			t.Errorf("lost after %d operations: ended with %+v, %d tokens of %d are left, moved %+v", after, o.done, s.Stored, stored, o.moved)
		}
	}
}

// With published triggers a prompt that is longer than the cap is read and compressed, and the answer grows until the cap
// is reached: what is held then is told.
func TestParityAtAShare(t *testing.T) {
	p := opened(t, hooks{})
	m := under("snapkv", 0.3)
	m.Memory.Parity = true
	p.ask(m).ok()
	g := ask(evening)
	g.Max = 60
	g.Forced = slices.Repeat([]uint32{57}, 59) // no stop text comes in between
	o := p.ask(g).ok()
	end := o.kept[len(o.kept)-1]
	if o.done.Reason != proto.ReasonFull || slices.Max(held(end)) != int(o.state.Stored) || o.state.Stored == 0 || o.state.Room != 0 {
		t.Errorf("%+v with %d tokens, %d stored, room %d; lists of %v", o.done, len(o.steps), o.state.Stored, o.state.Room, held(end))
	}
	m.Memory.Share = 0.1
	if f := p.ask(m).failure; f == nil || f.Code != proto.CodeTooLong {
		t.Errorf("a lower cap: %+v", f)
	}
	if o := p.ask(proto.Reset{}).ok(); o.state.Stored != 0 {
		t.Error("not empty")
	}
}

// What makes a conversation another one is told from the size of its cache.
func TestSameButCap(t *testing.T) {
	a := under("snapkv", 0.5).Memory
	a.Recipe.Wraps = []proto.Setting{{Name: "adakv", Knobs: []string{"floor"}, At: []float64{0.2}}}
	same := func(change func(m *proto.Memory)) bool {
		b := a
		b.Recipe.Wraps = []proto.Setting{{Name: "adakv", Knobs: []string{"floor"}, At: []float64{0.2}}}
		change(&b)
		return sameButCap(a, b) && sameButCap(b, a)
	}
	if !same(func(m *proto.Memory) { m.Share, m.Cap = 0, 1<<20 }) {
		t.Error("another cap")
	}
	for what, change := range map[string]func(m *proto.Memory){
		"f32":      func(m *proto.Memory) { m.F32 = true },
		"parity":   func(m *proto.Memory) { m.Parity = true },
		"method":   func(m *proto.Memory) { m.Recipe.Method.Name = "h2o" },
		"knob":     func(m *proto.Memory) { m.Recipe.Method.Knobs, m.Recipe.Method.At = []string{"window"}, []float64{3} },
		"wrappers": func(m *proto.Memory) { m.Recipe.Wraps = nil },
		"value":    func(m *proto.Memory) { m.Recipe.Wraps[0].At[0] = 0.3 },
	} {
		if same(change) {
			t.Errorf("another %s is the same", what)
		}
	}
}

// Twenty questions about one compressed story, and fifty turns of one conversation: nothing of one is in the next, and
// nothing grows.
func TestManyQuestionsAndTurns(t *testing.T) {
	p := opened(t, hooks{})
	for _, method := range []string{"snapkv", "cake", "streamingllm"} {
		p.ask(under(method, 0.4)).ok()
		var last [2]*outcome
		for n := range 20 {
			g := ask([]string{evening, morning}[n%2])
			g.Later = true
			o := p.ask(g).ok()
			was := last[n%2]
			if last[n%2] = o; n < 2 {
				continue
			}
			if !reflect.DeepEqual(o.kept[len(o.kept)-1], was.kept[len(was.kept)-1]) || !slices.Equal(o.tokens(), was.tokens()) {
				t.Fatalf("%s: question %d is answered %q, before %q", method, n, o.text(), was.text())
			}
			if n >= 4 && !slices.Equal(o.state.Ledger, was.state.Ledger) || arena(o.state.Ledger) != o.state.Cap {
				t.Fatalf("%s: question %d: the ledger went from %+v to %+v", method, n, was.state.Ledger, o.state.Ledger)
			}
		}
		g := askOn(evening)
		g.Max = 6
		settled := p.ask(g).ok()
		for n := range 50 {
			o := p.ask(g).ok()
			if k := o.kept[len(o.kept)-1]; slices.Max(held(k)) > int(slices.Max(k.Caps)+k.Reserve) || arena(o.state.Ledger) != settled.state.Cap {
				t.Fatalf("%s: turn %d: %d tokens in a list, budget %d + %d", method, n, slices.Max(held(k)), k.Budget, k.Reserve)
			}
			// When each token left is four bytes in each of ten lists, in pieces that grow.
			books := 2 * 4 * 10 * uint64(o.state.Position-settled.state.Position)
			if a, b := total(o), total(settled); a > b+b/100+books {
				t.Fatalf("%s: turn %d: the ledger grew from %d to %d bytes", method, n, b, a)
			}
		}
	}
}

func total(o *outcome) (bytes uint64) {
	for _, r := range o.state.Ledger {
		bytes += r.Allocated
	}
	return bytes
}

//go:build !js

package core

import (
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"kvlens/wasm/proto"
	"kvlens/wasm/step"
)

// has says whether a bitset of lists has a position.
func has(k proto.Kept, bits []uint8, list, position int) bool {
	if len(bits) == 0 {
		return false
	}
	return bits[list*(int(k.Tokens+7)/8)+position/8]>>(position%8)&1 == 1
}

// in counts the lists that have a position.
func in(k proto.Kept, bits []uint8, position int) (n int) {
	for i := range int(k.Layers * k.KVHeads) {
		if has(k, bits, i, position) {
			n++
		}
	}
	return n
}

// What is pinned stays through an answer and a change of the settings, counts against the cap, and is told; where it has
// left already it does not come back.
func TestPin(t *testing.T) {
	p := opened(t, hooks{})
	for _, method := range []string{"full", "h2o", "streamingllm", "snapkv", "tova"} {
		share := float32(0.5)
		if method == "full" {
			share = 1
		}
		p.ask(under(method, share)).ok()
		g := ask(evening)
		g.Max, g.Forced, g.Pause = 40, slices.Repeat([]uint32{57}, 39), 5
		before := p.ask(g).ok().last()
		pins := []uint32{uint32(before.Tokens) - 20, uint32(before.Tokens) - 21, uint32(before.Tokens) - 20}
		o := p.ask(proto.Pin{Positions: pins}).ok()
		want := []uint32{pins[1], pins[0]}
		if k := o.last(); !slices.Equal(k.Pins, want) || !slices.Equal(k.Bits, before.Bits) || o.state.Position != before.Tokens {
			t.Fatalf("%s: pinned %d, %+v", method, k.Pins, o.state)
		}
		g.Resume, g.Pause = true, 0
		g.Max = 30
		after := p.ask(g).ok()
		k := after.last()
		for _, at := range want {
			if now, was := in(k, k.Bits, int(at)), in(before, before.Bits, int(at)); now != was {
				t.Errorf("%s: position %d is in %d lists, was in %d", method, at, now, was)
			}
		}
		if !slices.Equal(k.Pins, want) || arena(after.state.Ledger) != after.state.Cap {
			t.Errorf("%s: later %d are pinned, %+v", method, k.Pins, after.state)
		}
		if k = p.ask(under("knorm", 0.4)).ok().last(); !slices.Equal(k.Pins, want) || in(k, k.Bits, int(want[0])) != 10 {
			t.Errorf("%s: under another recipe %d are pinned, the first in %d lists", method, k.Pins, in(k, k.Bits, int(want[0])))
		}
		if k = p.ask(proto.Pin{}).ok().last(); len(k.Pins) != 0 {
			t.Errorf("%s: %d are pinned still", method, k.Pins)
		}
		p.ask(proto.Pin{Positions: want}).ok()
		if k = p.ask(ask(evening)).ok().last(); len(k.Pins) != 0 {
			t.Errorf("%s: a new conversation has pins at %d", method, k.Pins)
		}
	}
}

func TestPinRefuses(t *testing.T) {
	p := newPage(t, hooks{})
	p.ask(proto.Pin{}).fails(proto.CodeBadRequest, "model")
	p.ask(proto.Recall{}).fails(proto.CodeBadRequest, "model")
	p = opened(t, hooks{})
	p.ask(proto.Pin{}).ok()
	p.ask(proto.Pin{Positions: []uint32{0}}).fails(proto.CodeBadRequest, "positions")
	p.ask(under("h2o", 0.25)).ok()
	before := p.ask(ask(evening)).ok().last()
	all := make([]uint32, 64)
	for i := range all {
		all[i] = uint32(i)
	}
	for _, pins := range [][]uint32{{65}, {1 << 31}, {3, 1<<32 - 1}, all, make([]uint32, 1000)} {
		p.ask(proto.Pin{Positions: pins}).fails(proto.CodeBadRequest, "positions")
	}
	p.ask(proto.Recall{Position: 9}).fails(proto.CodeNoRecord, "shadow")
	m := under("h2o", 0.25)
	m.Memory.Shadow = true
	if o := p.ask(m).ok(); !reflect.DeepEqual(o.last(), before) {
		t.Errorf("%+v, before %+v", o.last(), before)
	}
	for _, at := range []uint32{9, 63, 65, 1 << 31} { // what left before is gone
		p.ask(proto.Recall{Position: at}).fails(proto.CodeBadRequest, "position")
	}
	// What leaves no room for the pins is refused, and all stays.
	p.ask(proto.Pin{Positions: some(before, 6)}).ok()
	p.ask(under("h2o", 0.08)).fails(proto.CodeBadRequest, "positions")
	if k := p.ask(proto.Pin{Positions: some(before, 6)}).ok().last(); len(k.Pins) != 6 || !slices.Equal(k.Bits, before.Bits) {
		t.Errorf("%+v", k)
	}
}

// A token that left comes back from its copy, in every list that lost it, and another leaves where a list is full; the
// ledger has the copies apart from the arena. They live through a change of the recipe, because the conversation is read
// again with them.
func TestRecall(t *testing.T) {
	p := opened(t, hooks{})
	for _, method := range []string{"h2o", "snapkv", "streamingllm"} {
		m := under(method, 0.3)
		m.Memory.Shadow = true
		p.ask(m).ok()
		o := p.ask(ask(evening)).ok()
		k := o.last()
		at := -1
		for i := range int(k.Tokens) {
			if held := in(k, k.Bits, i); held < 10 && in(k, k.Shadowed, i) == 10-held {
				at = i
				break
			}
		}
		if at < 0 {
			t.Fatalf("%s: no token has left with a copy", method)
		}
		o = p.ask(proto.Recall{Position: uint32(at)}).ok()
		now := o.last()
		if in(now, now.Bits, at) != 10 || in(now, now.Shadowed, at) != 0 || arena(o.state.Ledger) != o.state.Cap {
			t.Errorf("%s: position %d is in %d lists, %d copies", method, at, in(now, now.Bits, at), in(now, now.Shadowed, at))
		}
		if slices.Max(held(now)) > int(now.Budget+now.Reserve) {
			t.Errorf("%s: lists of %v, budget %d + %d", method, held(now), now.Budget, now.Reserve)
		}
		p.ask(proto.Recall{Position: uint32(at)}).fails(proto.CodeBadRequest, "position")
		next := p.ask(askOn(morning)).ok()
		if next.done.Tokens == 0 {
			t.Errorf("%s: the next turn ends with %+v", method, next.done)
		}
		m.Memory.Recipe.Method.Name = "knorm"
		if k := p.ask(m).ok().last(); len(k.Shadowed) == 0 {
			t.Errorf("%s: under another recipe nothing has a copy", method)
		}
		m.Memory.Shadow = false
		if k := p.ask(m).ok().last(); len(k.Shadowed) != 0 {
			t.Errorf("%s: copies of %v", method, k.Shadowed)
		}
	}
}

// some are n positions in the middle that lists have.
func some(k proto.Kept, n int) (out []uint32) {
	for i := 4; i < int(k.Tokens)-4 && len(out) < n; i++ {
		if in(k, k.Bits, i) > 0 {
			out = append(out, uint32(i))
		}
	}
	return out
}

// A story that lies compressed beside the cache can be asked again after a conversation about it was read with pins: they
// were that conversation's.
func TestTheSameStoryAfterPins(t *testing.T) {
	p := opened(t, hooks{})
	for _, method := range []string{"full", "h2o", "snapkv"} {
		share := float32(0.5)
		if method == "full" {
			share = 1
		}
		p.ask(under(method, share)).ok()
		g := ask(evening)
		g.Later = true
		first := p.ask(g).ok()
		p.ask(proto.Pin{Positions: []uint32{first.last().Tokens - 20}, Again: true}).ok()
		o := p.ask(g).ok()
		if !slices.Equal(o.tokens(), first.tokens()) || !reflect.DeepEqual(o.last(), first.last()) {
			t.Errorf("%s: %q, pins %v; want %q", method, o.text(), o.last().Pins, first.text())
		}
	}
}

// After a prompt that was stopped when tokens had left for it, a change of what is recorded tells what is kept as it was
// before that prompt.
func TestRecordsAfterStop(t *testing.T) {
	var armed atomic.Bool
	g := newGate()
	p := opened(t, hooks{backend: func(b step.Backend) step.Backend {
		return watchedChoice{&watched{Backend: b, run: func(a *step.Args, op int) {
			if op == 20 && armed.CompareAndSwap(true, false) {
				g.pass()
			}
		}}}
	}})
	set := under("h2o", 0.5)
	p.ask(set).ok()
	want := p.ask(ask(evening)).ok().last()
	armed.Store(true)
	p.last++
	id := p.last
	p.send(id, askOn(morning))
	<-g.reached
	p.send(1000, proto.Stop{Target: id})
	o := p.wait(id, func(e event) {
		if e.id == 1000 {
			g.open <- struct{}{}
		}
	}).ok()
	if o.done.Reason != proto.ReasonStopped || len(o.steps) != 0 {
		t.Fatalf("%+v, %d steps", o.done, len(o.steps))
	}
	set.Memory.Explain = true
	if got := p.ask(set).ok().last(); got.Tokens != want.Tokens || !slices.Equal(got.Bits, want.Bits) {
		t.Errorf("%d tokens of lists are kept, %d before: %v, %v", got.Tokens, want.Tokens, held(got), held(want))
	}
}

// watchedChoice is a watched backend whose programs run recipes.
type watchedChoice struct{ *watched }

func (w watchedChoice) Compile(p *step.Program) (step.Exec, error) {
	x, err := w.watched.Compile(p)
	if err != nil {
		return nil, err
	}
	inner := x.(*watchedExec)
	return struct {
		*watchedExec
		step.Scorer
	}{inner, inner.Exec.(step.Scorer)}, nil
}

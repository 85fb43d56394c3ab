//go:build !js

package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kvlens/cache"
	"kvlens/wasm/gpu"
	"kvlens/wasm/proto"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
)

// fragile is a backend that calls itself WebGPU and is lost after so many operations.
type fragile struct {
	step.Backend
	left int // operations until it is lost; below 0 never
	gone bool
	full bool          // scratch cannot grow, until that has been said once
	slow time.Duration // for each operation
}

func (f *fragile) Info() step.Info {
	i := f.Backend.Info()
	i.Name = "webgpu"
	return i
}

func (f *fragile) err() error {
	if f.gone {
		return fmt.Errorf("webgpu: %w", &gpu.LostError{Op: "run", Reason: "the test says so"})
	}
	return nil
}

func (f *fragile) Alloc(kind cache.Kind, name string, size int64) (step.Buffer, error) {
	if err := f.err(); err != nil {
		return 0, err
	}
	return f.Backend.Alloc(kind, name, size)
}

func (f *fragile) Read(b step.Buffer, off int64, dst []byte) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.Backend.Read(b, off, dst)
}

func (f *fragile) Compile(p *step.Program) (step.Exec, error) {
	e, err := f.Backend.Compile(p)
	return &fragileExec{e, f}, err
}

type fragileExec struct {
	step.Exec
	f *fragile
}

func (e *fragileExec) Grow(rows, logitRows int) error {
	if e.f.full {
		e.f.full = false
		return fmt.Errorf("webgpu: %w", step.ErrMemory)
	}
	return e.Exec.Grow(rows, logitRows)
}

func (e *fragileExec) Run(ctx context.Context, a *step.Args, from, to int) error {
	time.Sleep(e.f.slow)
	if e.f.left--; e.f.left == 0 {
		e.f.gone = true
	}
	if err := e.f.err(); err != nil {
		return err
	}
	return e.Exec.Run(ctx, a, from, to)
}

// breaking makes backends the first of which are lost after so many operations; a number of 0 means that there is none
// to be had, and after the last they hold.
func breaking(last string, after ...int) func(Wish, *cache.Ledger) (step.Backend, string, error) {
	return func(w Wish, led *cache.Ledger) (step.Backend, string, error) {
		if w.Backend == "cpu" {
			if last == "" {
				return nil, "", errors.New("no CPU")
			}
			return ref.New(led), proto.WhyAsked, nil
		}
		f := &fragile{Backend: ref.New(led), left: -1}
		if len(after) > 0 {
			if f.left, after = after[0], after[1:]; f.left == 0 {
				return nil, "", errors.New("no device")
			}
		}
		return f, proto.WhyTested, nil
	}
}

// conversation is two turns, the second of them at random; it gives the tokens of both.
func conversation(p *page) (tokens [2][]uint32, moved []proto.Moved) {
	first := p.ask(ask(evening)).ok()
	later := askOn(morning)
	later.Sampling = proto.Sampling{Temperature: 2, Seed: 5}
	second := p.ask(later).ok()
	return [2][]uint32{first.tokens(), second.tokens()}, append(first.moved, second.moved...)
}

// TestLost: wherever the backend is lost, the conversation goes on as if nothing had been, and the page is told once.
func TestLost(t *testing.T) {
	open := proto.Open{Manifest: builtIn, Backend: "webgpu"}
	p := newPage(t, hooks{choose: breaking("")})
	p.ask(open).ok()
	want, _ := conversation(p)
	for _, after := range []int{1, 20, 40, 70, 100} {
		p := newPage(t, hooks{choose: breaking("", after)})
		p.ask(open).ok()
		got, moved := conversation(p)
		if !slices.Equal(got[0], want[0]) || !slices.Equal(got[1], want[1]) {
			t.Errorf("lost after %d operations: %d, want %d", after, got, want)
		}
		if len(moved) != 1 || moved[0].Backend != "webgpu" || moved[0].BackendWhy != proto.WhyTested {
			t.Errorf("lost after %d operations: the page hears %+v", after, moved)
		}
	}
}

// TestLostForGood: without another device the conversation goes on on the CPU, and without that the model can be opened
// again.
func TestLostForGood(t *testing.T) {
	open := proto.Open{Manifest: builtIn, Backend: "webgpu"}
	p := newPage(t, hooks{choose: breaking("")})
	p.ask(open).ok()
	want, _ := conversation(p)

	p = newPage(t, hooks{choose: breaking("cpu", 70, 0)})
	p.ask(open).ok()
	got, moved := conversation(p)
	if !slices.Equal(got[0], want[0]) || !slices.Equal(got[1], want[1]) {
		t.Errorf("on the CPU: %d, want %d", got, want)
	}
	if len(moved) != 1 || moved[0].Backend != "ref" || moved[0].BackendWhy != proto.WhyLost {
		t.Errorf("the page hears %+v", moved)
	}

	p = newPage(t, hooks{choose: breaking("", 70, 0)})
	p.ask(open).ok()
	p.ask(ask(evening)).fails(proto.CodeLost)
	p.ask(open).ok()
	if o := p.ask(ask(evening)).ok(); !slices.Equal(o.tokens(), want[0]) {
		t.Errorf("opened again: %d, want %d", o.tokens(), want[0])
	}
}

// TestStopWhileRestoring: the answer stays as far as it had come, and the conversation with it.
func TestStopWhileRestoring(t *testing.T) {
	open := proto.Open{Manifest: builtIn, Backend: "webgpu"}
	long := proto.Generate{Text: story, Mode: proto.Raw, Max: 40}
	p := newPage(t, hooks{choose: breaking("")})
	p.ask(open).ok()
	want := p.ask(long).ok().tokens()

	p = newPage(t, hooks{choose: breaking("", 300)})
	p.ask(open).ok()
	p.last++
	p.send(p.last, long)
	o := p.wait(p.last, func(e event) {
		if m, ok := e.msg.(proto.Progress); ok && m.Stage == proto.StageRestore && p.last == e.id {
			p.last++
			p.send(p.last, proto.Stop{Target: e.id})
		}
	}).ok()
	got := o.tokens()
	if n := len(got); o.done.Reason != proto.ReasonStopped || n == 0 || n == len(want) || !slices.Equal(got, want[:n]) {
		t.Errorf("stopped with reason %d: %d, want a part of %d", o.done.Reason, got, want)
	}
	if n := o.state.Position; n != uint32(len(o.prompt.IDs)+len(got)-1) {
		t.Errorf("the cache holds %d tokens, the prompt %d and the answer %d", n, len(o.prompt.IDs), len(got))
	}
}

// TestLostWhileIdle: new memory settings are what first meets a device that is gone.
func TestLostWhileIdle(t *testing.T) {
	var made []*fragile
	p := newPage(t, hooks{choose: func(_ Wish, led *cache.Ledger) (step.Backend, string, error) {
		made = append(made, &fragile{Backend: ref.New(led), left: -1})
		return made[len(made)-1], proto.WhyTested, nil
	}})
	p.ask(proto.Open{Manifest: builtIn, Backend: "webgpu"}).ok()
	made[0].gone = true
	o := p.ask(proto.SetMemory{Memory: proto.Memory{Cap: 1 << 20}}).ok()
	if len(o.moved) != 1 || o.state.Cap != 1<<20 {
		t.Errorf("the page hears %+v and a cap of %d", o.moved, o.state.Cap)
	}
	// Memory that others took while it was idle: a new device may have some.
	made[1].full = true
	if o := p.ask(ask(evening)).ok(); len(o.moved) != 1 || o.state.Cap != 1<<20 || len(made) != 3 {
		t.Errorf("without memory: the page hears %+v and a cap of %d", o.moved, o.state.Cap)
	}
}

// TestRace: of two backends the quicker one keeps a small model, unless the reader insists. The clock is that of the test: it
// stands still while anything computes.
func TestRace(t *testing.T) {
	for _, c := range []struct {
		asked     string
		gpu       time.Duration // for each operation
		cpu       bool          // there is one
		name, why string
	}{
		{"", time.Millisecond, true, "ref", proto.WhyRace},
		{"", time.Millisecond, false, "webgpu", proto.WhyTested},
		{"webgpu", time.Millisecond, true, "webgpu", proto.WhyTested},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPage(t, hooks{choose: func(w Wish, led *cache.Ledger) (step.Backend, string, error) {
				switch {
				case w.Backend != "cpu":
					return &fragile{Backend: ref.New(led), left: -1, slow: c.gpu}, proto.WhyTested, nil
				case !c.cpu:
					return nil, "", errors.New("no CPU")
				}
				return ref.New(led), proto.WhyAsked, nil
			}})
			o := p.ask(proto.Open{Manifest: builtIn, Backend: c.asked}).ok()
			if o.opened.Backend != c.name || o.opened.BackendWhy != c.why {
				t.Errorf("%+v: chose %s, %s", c, o.opened.Backend, o.opened.BackendWhy)
			}
		})
	}
}

//go:build !js

package core

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/proto"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// A story whose prompt and answer are among the oracle's vectors (teach.json, xm-en and xm-zh).
const (
	story = "Xiao Ming was happy that day. In the morning, Xiao Ming ate bread. The wind came from the hill. " +
		"At noon, Xiao Ming ate noodles. The children were tired. In the evening, Xiao Ming ate a sandwich."
	evening   = "What did Xiao Ming eat in the evening?"
	morning   = "What did Xiao Ming eat in the morning?"
	storyZH   = "小明早上吃了面包。过了一会儿，雨停了。小明中午吃了面条。孩子们很疲惫。小明晚上吃了三明治。"
	eveningZH = "小明晚上吃了什么？"
)

func ask(question string) proto.Generate {
	return proto.Generate{Text: story, Question: question, Mode: proto.Story, Max: 24}
}

func askOn(question string) proto.Generate {
	g := ask(question)
	g.Continue = true
	return g
}

func TestStory(t *testing.T) {
	p := newPage(t, hooks{})
	o := p.ask(proto.Open{Manifest: builtIn, Backend: "ref"}).ok()
	if want := []proto.Stage{proto.StageStore, proto.StageFetch, proto.StageTokenizer, proto.StageSelfTest, proto.StageLoad}; !slices.Equal(o.stages, want) {
		t.Errorf("the stages of opening were %d, want %d", o.stages, want)
	}
	m := o.opened
	if m.Layers != 5 || m.Heads != 6 || m.KVHeads != 2 || m.HeadDim != 32 || m.Vocab != 2304 || m.Hidden != 192 || m.FFN != 384 {
		t.Errorf("the model's sizes are %+v", m)
	}
	if m.Params != 2_041_920 || m.FileBytes != 2_257_792 || m.TokenBytes != 1280 || m.Licence != "MIT" || m.FileType != "Q8_0" {
		t.Errorf("the model is %+v", m)
	}
	if !slices.Equal(m.Modes, []uint8{uint8(proto.Story), uint8(proto.Raw)}) {
		t.Errorf("the modes are %d", m.Modes)
	}

	o = p.ask(ask(evening)).ok()
	if o.text() != " a sandwich." || !slices.Equal(o.tokens(), []uint32{881, 1965, 48}) {
		t.Errorf("the answer is %q, %d", o.text(), o.tokens())
	}
	if want := (proto.Done{Reason: proto.ReasonStopText, Tokens: 3}); o.done != want {
		t.Errorf("the turn ended with %+v, want %+v", o.done, want)
	}
	if o.prompt.First != 0 || len(o.prompt.IDs) != 62 || strings.Join(o.prompt.Text, "") != "<|bos|>"+story+"\nQuestion: "+evening+"\nAnswer:" {
		t.Errorf("the prompt is %+v", o.prompt)
	}
	for i, s := range o.steps {
		if s.Step != uint32(i) || s.Position != uint32(62+i) || len(s.TopIDs) != 5 || s.TopIDs[0] != s.Token || s.TopProbs[0] != s.Prob {
			t.Errorf("step %d is %+v", i, s)
		}
	}
	if s := o.state; s.Stored != 64 || s.Position != 64 || s.Stored+s.Room != 2048 {
		t.Errorf("the state after the turn is %+v", s)
	}

	o = p.ask(askOn(morning)).ok()
	if o.text() != " bread." || o.prompt.First != 65 {
		t.Errorf("the second answer is %q, its prompt starts at %d, want 65", o.text(), o.prompt.First)
	}
	o = p.ask(proto.Generate{Text: storyZH, Question: eveningZH, Mode: proto.Story, Max: 24}).ok()
	if o.text() != "三明治。" || o.prompt.First != 0 {
		t.Errorf("the Chinese answer is %q at %d", o.text(), o.prompt.First)
	}
	o = p.ask(proto.Reset{}).ok()
	if o.state.Stored != 0 || o.state.Position != 0 {
		t.Errorf("the state after Reset is %+v", o.state)
	}
}

func TestRawAndForced(t *testing.T) {
	p := opened(t, hooks{})
	// teach.json, prompt "free".
	raw := proto.Generate{Text: "Once upon a time, there was", Max: 11}
	want := []uint32{881, 1773, 1557, 1369, 946, 1229, 48, 946, 1229, 1611, 1048}
	o := p.ask(raw).ok()
	if !slices.Equal(o.tokens(), want) || o.done.Reason != proto.ReasonMax {
		t.Errorf("got %d, %+v, want %d", o.tokens(), o.done, want)
	}
	// Forced tokens take the place of sampled ones; what follows them is sampled.
	raw.Forced = want[:5]
	o = p.ask(raw).ok()
	if !slices.Equal(o.tokens(), want) || !o.steps[4].Forced || o.steps[5].Forced {
		t.Errorf("with forced tokens: %d", o.tokens())
	}
}

// TestStopTextComesFirst: an answer that begins with a stop text is over with it. A full stop is shown, a line break not.
func TestStopTextComesFirst(t *testing.T) {
	p := opened(t, hooks{})
	first := p.ask(proto.Generate{Text: "a\n", Max: 1}).ok().prompt.IDs
	newline := first[len(first)-1]
	for id, text := range map[uint32]string{48: ".", newline: ""} {
		g := ask(evening)
		g.Forced = []uint32{id}
		o := p.ask(g)
		if o.failure != nil || o.text() != text || o.done != (proto.Done{Reason: proto.ReasonStopText, Tokens: 1}) {
			t.Errorf("token %d: %q, %+v, %+v", id, o.text(), o.done, o.failure)
		}
	}
}

// watched is a backend that shows every run of operations, and what is read, to the test.
type watched struct {
	step.Backend
	refuse func(kind cache.Kind, size int64) bool // whether an allocation fails
	run    func(a *step.Args, op int)
	read   func(dst []byte)
}

func (w *watched) Compile(p *step.Program) (step.Exec, error) {
	x, err := w.Backend.Compile(p)
	return &watchedExec{x, w}, err
}

func (w *watched) Alloc(kind cache.Kind, name string, size int64) (step.Buffer, error) {
	if w.refuse != nil && w.refuse(kind, size) {
		return 0, fmt.Errorf("alloc: %w", step.ErrMemory)
	}
	return w.Backend.Alloc(kind, name, size)
}

func (w *watched) Read(src step.Buffer, off int64, dst []byte) error {
	err := w.Backend.Read(src, off, dst)
	if w.read != nil {
		w.read(dst)
	}
	return err
}

type watchedExec struct {
	step.Exec
	w *watched
}

func (x *watchedExec) Run(ctx context.Context, a *step.Args, from, to int) error {
	if x.w.run != nil {
		x.w.run(a, from)
	}
	return x.Exec.Run(ctx, a, from, to)
}

// gate holds a run at a point until the test lets it go on.
type gate struct{ reached, open chan struct{} }

func newGate() gate { return gate{make(chan struct{}), make(chan struct{})} }

func (g gate) pass() {
	g.reached <- struct{}{}
	<-g.open
}

func TestStopInTheMiddleOfAnAnswer(t *testing.T) {
	g, steps := newGate(), 0
	p := opened(t, hooks{backend: func(b step.Backend) step.Backend {
		return &watched{Backend: b, run: func(a *step.Args, op int) {
			if a.Stored && op == 0 { // one decode step begins
				if steps++; steps == 3 {
					g.pass()
				}
			}
		}}
	}})
	p.last++
	id := p.last
	p.send(id, proto.Generate{Text: "Once upon a time, there was", Max: 100})
	<-g.reached
	p.send(1000, proto.Stop{Target: id})
	// While a request runs, these are answered, and others are refused.
	p.send(1001, proto.Ping{})
	p.send(1002, proto.GetState{})
	p.send(1003, proto.Reset{})
	heard := map[uint32]proto.Message{}
	o := p.wait(id, func(e event) {
		if e.id >= 1000 {
			heard[e.id] = e.msg
			if e.id == 1003 {
				close(g.open)
			}
		}
	})
	o.ok()
	if o.done.Reason != proto.ReasonStopped || len(o.steps) != 3 {
		t.Errorf("%d steps, %+v; want to end with the third", len(o.steps), o.done)
	}
	if _, ok := heard[1001].(proto.Done); !ok {
		t.Errorf("Ping was answered by %+v", heard[1001])
	}
	if f, _ := heard[1003].(proto.Failure); f.Code != proto.CodeBusy {
		t.Errorf("Reset was answered by %+v", heard[1003])
	}
	// What was answered so far is kept, and the next turn goes on from there.
	if o = p.ask(proto.Generate{Text: " and", Continue: true, Max: 2}).ok(); o.prompt.First != 8+3 {
		t.Errorf("the next turn starts at %d", o.prompt.First)
	}
}

// TestStopWhileReading stops the second turn in each layer of its prefill and asks it again: every number of the answer
// is that of a session which never had the stopped turn.
func TestStopWhileReading(t *testing.T) {
	var at atomic.Int32 // operation to stop at, −1 for none
	at.Store(-1)
	g := newGate()
	p := opened(t, hooks{backend: func(b step.Backend) step.Backend {
		return &watched{Backend: b, run: func(a *step.Args, op int) {
			if at.CompareAndSwap(int32(op), -1) {
				g.pass()
			}
		}}
	}})
	p.ask(ask(evening)).ok()
	want := p.ask(askOn(morning)).ok()
	const opsPerLayer = 6
	for layer := range 4 {
		p.ask(ask(evening)).ok()
		at.Store(int32(1 + layer*opsPerLayer + layer))
		p.last++
		id := p.last
		p.send(id, askOn("Who was in the hat?"))
		<-g.reached
		p.send(1000, proto.Stop{Target: id})
		o := p.wait(id, func(e event) {
			if e.id == 1000 {
				g.open <- struct{}{}
			}
		}).ok()
		if o.done.Reason != proto.ReasonStopped || len(o.steps) != 0 {
			t.Fatalf("layer %d: %+v, %d steps", layer, o.done, len(o.steps))
		}
		got := p.ask(askOn(morning)).ok()
		if got.text() != " bread." || !alike(got, want) {
			t.Errorf("stopped in layer %d: %q, %+v, want %+v", layer, got.text(), numbers(got), numbers(want))
		}
	}
}

// numbers are the probabilities of an answer.
func numbers(o *outcome) (all [][]float32) {
	for _, s := range o.steps {
		all = append(all, append(s.TopProbs, s.Prob))
	}
	return all
}

// alike says whether two answers have the same probabilities, up to the order of sums: how many tokens of a prompt go
// together follows the clock.
func alike(a, b *outcome) bool {
	return slices.EqualFunc(numbers(a), numbers(b), func(a, b []float32) bool {
		return slices.EqualFunc(a, b, func(a, b float32) bool { return math.Abs(float64(a-b)) <= 1e-5 })
	})
}

func TestTheCap(t *testing.T) {
	p := opened(t, hooks{})
	fits := p.ask(proto.SetMemory{Memory: proto.Memory{Cap: 90 << 10}}).ok().state.Room
	// A token takes 1,280 bytes and, in each of 10 lists, a position of 4 bytes. Pages hold 8 tokens.
	if want := uint32(90 << 10 / (1280 + 10*4) / 8 * 8); fits != want {
		t.Fatalf("%d tokens fit 90 KiB, want %d", fits, want)
	}
	// bos and one token for each digit
	digits := func(n uint32) proto.Generate {
		return proto.Generate{Text: strings.Repeat("7", int(n-1)), Max: 200, Forced: slices.Repeat([]uint32{57}, 200)}
	}
	for _, c := range []struct {
		prompt uint32
		tokens uint32
	}{{fits - 10, 11}, {fits - 1, 2}, {fits, 1}} {
		o := p.ask(digits(c.prompt)).ok()
		if len(o.prompt.IDs) != int(c.prompt) || o.done.Reason != proto.ReasonFull || o.done.Tokens != c.tokens {
			t.Errorf("%d of %d tokens: %d, %+v, want %d tokens until full", c.prompt, fits, len(o.prompt.IDs), o.done, c.tokens)
		}
		if o.state.Stored != fits || o.state.Room != 0 {
			t.Errorf("%d of %d tokens: %+v", c.prompt, fits, o.state)
		}
	}
	p.ask(digits(fits+1)).fails(proto.CodeTooLong, itoa(fits+1), itoa(fits), itoa(90<<10))
	// The default cap comes back; what one token takes follows the format.
	o := p.ask(proto.SetMemory{}).ok()
	if o.state.Room != 2048 {
		t.Errorf("the default cap has room for %d tokens", o.state.Room)
	}
	f32 := p.ask(proto.SetMemory{Memory: proto.Memory{F32: true}}).ok()
	if d := f32.state.Cap - o.state.Cap; d != 2048*1280 {
		t.Errorf("f32 pages take %d bytes more than f16, want 1,280 for each of 2,048 tokens", d)
	}
}

func TestManyTurnsLeaveNothingBehind(t *testing.T) {
	p := opened(t, hooks{})
	cycle := func() *outcome {
		p.ask(proto.Generate{Text: "Ben ate rice.", Question: "What did Ben eat?", Mode: proto.Story, Max: 3}).ok()
		return p.ask(proto.Reset{}).ok()
	}
	first := cycle().state.Ledger
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	var last []proto.LedgerRow
	for range 200 {
		last = cycle().state.Ledger
	}
	if !reflect.DeepEqual(last, first) {
		t.Errorf("the ledger went from %+v to %+v", first, last)
	}
	if more := heap() - before; more > 1<<20 {
		t.Errorf("the heap grew by %d bytes", more)
	}
	var arena uint64
	for _, r := range last {
		switch cache.Kind(r.Kind) {
		case cache.Free:
			arena = r.Allocated
		case cache.KVF16, cache.Positions:
			if r.Allocated != 0 {
				t.Errorf("kind %d still holds %d bytes", r.Kind, r.Allocated)
			}
		}
	}
	if arena != p.ask(proto.GetState{}).ok().state.Cap {
		t.Errorf("the empty arena has %d bytes", arena)
	}
}

func TestNumbersGoneBad(t *testing.T) {
	var bad atomic.Bool
	p := opened(t, hooks{backend: func(b step.Backend) step.Backend {
		return &watched{Backend: b, read: func(dst []byte) {
			if bad.Load() {
				quant.Float32s(dst)[7] = float32(math.NaN())
			}
		}}
	}})
	bad.Store(true)
	p.ask(ask(evening)).fails(proto.CodeNumbers)
	bad.Store(false)
	if o := p.ask(ask(evening)).ok(); o.text() != " a sandwich." {
		t.Errorf("afterwards the answer is %q", o.text())
	}
}

// TestNotEnoughMemory: a cap that cannot be had leaves the one before.
func TestNotEnoughMemory(t *testing.T) {
	p := opened(t, hooks{backend: func(b step.Backend) step.Backend {
		return &watched{Backend: b, refuse: func(_ cache.Kind, size int64) bool { return size > 3<<20 }}
	}})
	before := p.ask(proto.SetMemory{Memory: proto.Memory{Cap: 1 << 20}}).ok().state
	p.ask(proto.SetMemory{Memory: proto.Memory{Cap: 8 << 20}}).fails(proto.CodeMemory)
	if after := p.ask(proto.Reset{}).ok().state; after.Cap != before.Cap || after.Room != before.Room {
		t.Errorf("the state went from %+v to %+v", before, after)
	}
	if o := p.ask(ask(evening)).ok(); o.text() != " a sandwich." {
		t.Errorf("the answer is %q", o.text())
	}
}

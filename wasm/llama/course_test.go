package llama_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/sample"
	"kvlens/wasm/step"
	"kvlens/web/lab/golden"
)

// A course is a conversation on which anything happens in any order: turns, short ones and ones that are longer than the
// budget, answers, Stop in the middle of each, other caps and recipes, views, checkpoints, and another session on the
// same model between all that. It keeps book of what has come through. A twin, a fresh session to which only that
// happens, says what the session must say.
type course struct {
	t        *testing.T
	m        *llama.Model
	led      *cache.Ledger
	rand     *rand.Rand
	s        *llama.Session
	beside   *llama.Session       // another conversation on the same model
	o        llama.SessionOptions // of a twin
	done     []deed               // what a twin has to do
	saved    *llama.Checkpoint
	savedAs  []deed // what came through before it
	savedCap int64
	log      []string
}

// deed is one thing that came through.
type deed struct {
	prompt []int32
	tokens []int32 // of an answer
	pins   []int32 // not nil
	cap    int64
}

// TestAnyCourse holds sessions to what they promise, whatever happens to them.
func TestAnyCourse(t *testing.T) {
	courses, length := 40, 25
	switch {
	case runtime.GOOS == "js":
		courses = 6
	case onGPU:
		courses = 10
	}
	led := new(cache.Ledger)
	m := load(t, golden.TinyModel(t), newBackend(t, led), led)
	m.FixPace(7)
	all := recipes()
	for seed := range courses {
		c := &course{t: t, m: m, led: led, rand: rand.New(rand.NewPCG(uint64(seed), 1))}
		r := all[c.rand.IntN(len(all))]
		c.o = llama.SessionOptions{
			Recipe: r.Recipe, Tables: anyTables(m), Tokens: 100, PageK: 2, PageV: 4, Cap: c.cap(), F32: c.rand.IntN(4) == 0, Parity: c.rand.IntN(4) == 0,
		}
		var err error
		if c.s, err = m.NewSession(c.o); err != nil {
			c.typed(err)
			continue
		}
		c.beside = session(t, m, llama.SessionOptions{Recipe: policy.Recipe{Method: "tova"}, Budget: 9, Tokens: 50})
		for range length {
			c.act(all)
			c.check()
			if c.rand.IntN(4) == 0 {
				prefill(t, c.beside, words(5, seed))
				generate(t, c.beside, 2)
			}
			if t.Failed() {
				t.Fatalf("seed %d, %s %+v:\n%s", seed, r.name, c.o, strings.Join(c.log, "\n"))
			}
		}
		if c.twin(); t.Failed() {
			t.Fatalf("seed %d, %s:\n%s", seed, r.name, strings.Join(c.log, "\n"))
		}
		if c.saved != nil {
			c.saved.Close()
		}
		c.s.Close()
		c.beside.Close()
	}
}

// cap is a number of bytes, from none to what everything fits in.
func (c *course) cap() int64 {
	if c.rand.IntN(4) == 0 {
		return int64(16 * c.rand.IntN(100))
	}
	return int64(c.rand.IntN(60000))
}

// act lets one thing happen.
func (c *course) act(all []named) {
	s, r := c.s, c.rand
	stop := 1 << 30 // how often the context is asked until it is cancelled
	if r.IntN(3) == 0 {
		stop = r.IntN(120)
	}
	cut := &countdown{ctx, stop}
	var what string
	var err error
	switch kind := r.IntN(13); kind {
	case 0, 1, 2:
		ids := words([]int{1, 2, 9, 30, s.Budget().Tokens + 5, 70}[r.IntN(6)], r.IntN(64))
		what = fmt.Sprintf("a prompt of %d", len(ids))
		if id, ok := s.Pending(); ok {
			ids = append([]int32{id}, ids...)
		}
		if err = s.Prefill(cut, ids[c.pending():], nil); err == nil {
			c.done = append(c.done, deed{prompt: ids})
		}
	case 3, 4, 5:
		what = "an answer"
		err = c.answer(cut)
	case 6:
		size := c.cap()
		what = fmt.Sprintf("a cap of %d", size)
		if err = s.SetCap(cut, size); err == nil {
			c.done = append(c.done, deed{cap: size})
		}
	case 7:
		to := all[r.IntN(len(all))]
		what = "recipe " + to.name
		if err = s.SetRecipe(cut, to.Recipe); err == nil {
			c.o.Recipe = to.Recipe
			c.done = pinFirst(c.done)
			c.anew()
		}
	case 8:
		what = "a checkpoint"
		var saved *llama.Checkpoint
		if saved, err = s.Save(cut); err == nil {
			if c.saved != nil {
				c.saved.Close()
			}
			c.saved, c.savedAs, c.savedCap = saved, slices.Clone(c.done), c.o.Cap
		}
	case 9:
		what = "back to the checkpoint"
		if c.saved != nil {
			if err = s.Restore(c.saved); err == nil {
				c.done, c.o.Cap = slices.Clone(c.savedAs), c.savedCap
			}
		}
	case 10:
		what = "a view"
		g := s.Cache().Geometry()
		_ = s.Watch(r.IntN(2) == 0)
		_, err = s.View(cut, r.IntN(g.Layers), r.IntN(c.m.Config().Heads))
	case 12:
		what = "pins"
		pins := []int{}
		for range min(r.IntN(4), s.Position()) {
			pins = append(pins, r.IntN(s.Position()))
		}
		if err = s.Pin(cut, pins); err == nil {
			d := deed{pins: []int32{}}
			for _, p := range s.Pins() {
				d.pins = append(d.pins, int32(p))
			}
			c.done = append(c.done, d)
		}
	case 11:
		if r.IntN(3) == 0 {
			what = "a new start"
			s.Reset()
			c.done = nil
		} else {
			what = "a twin"
			c.twin()
		}
	}
	c.log = append(c.log, fmt.Sprintf("%s, stopped after %d: %v; position %d, %d stored, budget %v", what, stop, err, s.Position(), s.Stored(), s.Budget().Tokens))
	if err != nil {
		c.typed(err)
	}
	if s.Stored() == 0 { // it will be computed again, under the present cap
		c.anew()
	}
}

func (c *course) pending() int {
	if _, ok := c.s.Pending(); ok {
		return 1
	}
	return 0
}

// answer generates some tokens; those that came stay, whatever ends the answer.
func (c *course) answer(cut *countdown) error {
	s := c.s
	if s.Position() == 0 {
		return nil
	}
	before, pending := s.Position(), c.pending()
	n := 0
	_, err := s.Generate(cut, llama.GenerateOptions{Max: 1 + c.rand.IntN(20), Sampler: sample.New(sample.Params{})}, func(llama.Token) error {
		n++
		c.check()
		return nil
	})
	if got := s.Position() + c.pending(); got != before+pending+n && got != before+n {
		c.t.Errorf("%d tokens from position %d: now %d", n, before, got)
	}
	if added := s.IDs()[before:]; len(added) > 0 {
		c.done = append(c.done, deed{tokens: slices.Clone(added)})
	}
	return err
}

// anew is what happens to a session that is computed again: what its caps were is forgotten, and with them when tokens
// were pinned before.
func (c *course) anew() {
	var done []deed
	for _, d := range c.done {
		if d.prompt == nil && d.tokens == nil && d.pins == nil {
			done = pinFirst(done)
		} else {
			done = append(done, d)
		}
	}
	c.done, c.o.Cap = done, c.s.Cap()
}

// pinFirst is a conversation as if the last pins had been there from the start.
func pinFirst(done []deed) (out []deed) {
	last := []int32{}
	for _, d := range done {
		if d.pins != nil {
			last = d.pins
		} else {
			out = append(out, d)
		}
	}
	return slices.Insert(out, 0, deed{pins: last})
}

// twin compares the session with one to which only happened what came through.
func (c *course) twin() {
	t, s := c.t, c.s
	if s.Position() == 0 {
		return
	}
	o := c.o
	other := session(t, c.m, o)
	defer other.Close()
	for _, d := range c.done {
		var err error
		switch {
		case d.prompt != nil:
			err = other.Prefill(ctx, d.prompt, nil)
		case d.tokens != nil:
			for _, id := range d.tokens {
				err = errors.Join(err, other.Decode(ctx, id))
			}
		case d.pins != nil:
			err = other.PinAhead(ctx, d.pins)
		default:
			err = other.SetCap(ctx, d.cap)
		}
		var full *cache.FullError
		if o.Parity && errors.As(err, &full) {
			return // a prompt whose kept tokens grew beyond a lower cap can't be computed again under it
		}
		if err != nil {
			t.Errorf("the twin: %v", err)
			return
		}
	}
	if id, ok := s.Pending(); ok {
		err, wants := s.Prefill(ctx, []int32{1}, nil), other.Prefill(ctx, []int32{id, 1}, nil)
		switch {
		case (err == nil) != (wants == nil):
			t.Errorf("the turn that compares: %v, the twin's: %v", err, wants)
			return
		case err != nil:
			c.typed(err)
			return
		}
		c.done = append(c.done, deed{prompt: []int32{id, 1}})
	} else if _, err := s.View(ctx, 0, 0); err != nil { // whatever was left undone is done
		t.Error(err)
	}
	if g, w := held(s), held(other); !equalSets(g, w) {
		t.Errorf("holds %v, the twin %v", g, w)
	}
	if !slices.Equal(s.Logits(), other.Logits()) || !slices.Equal(s.IDs(), other.IDs()) {
		t.Errorf("the logits differ from the twin's, or the tokens: %d and %d", len(s.IDs()), len(other.IDs()))
	}
}

// check holds a session to its cap and its budget.
func (c *course) check() {
	t, s := c.t, c.s
	if t.Failed() {
		return
	}
	arena := int64(0)
	for _, k := range []cache.Kind{cache.KVF16, cache.KVF32, cache.Positions, cache.Scores, cache.Bounds, cache.Sums, cache.Free} {
		arena += c.led.Rows()[k].Allocated
	}
	if want := s.Cap() + c.beside.Cap(); arena != want {
		t.Errorf("the ledger has arenas of %d bytes, the sessions of %d", arena, want)
	}
	if s.Stored() > 0 && s.Caps() != nil && !c.o.Parity {
		checkCaps(t, s)
	}
	if rows := s.Rows(); rows != nil && rows.Tokens != s.Position() {
		t.Errorf("rows over %d tokens at position %d", rows.Tokens, s.Position())
	}
}

// typed checks that an error is one that a caller can decide on.
func (c *course) typed(err error) {
	var full *cache.FullError
	if onGPU && errors.Is(err, llama.ErrRecipe) { // pins that a device can't count
		return
	}
	if !errors.As(err, &full) && !errors.Is(err, context.Canceled) && !errors.Is(err, llama.ErrSmall) && !errors.Is(err, llama.ErrEmpty) &&
		!errors.Is(err, llama.ErrCheckpoint) && !errors.Is(err, llama.ErrPins) && !errors.Is(err, step.ErrMemory) {
		c.t.Errorf("%T: %v", err, err)
	}
}

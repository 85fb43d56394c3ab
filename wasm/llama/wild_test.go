package llama_test

import (
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

// wild is a conversation in which everything that explains it, or takes something of it back, happens in any order, Stop
// in the middle of each. It notes what the session was at each moment, which is what Undo must give.
type wild struct {
	b     *failing
	was   [][][]int32
	t     *testing.T
	m     *llama.Model
	led   *cache.Ledger
	rand  *rand.Rand
	s     *llama.Session
	book  []wildMoment // by number of tokens; those from before the last cap are not known
	known bool         // the book is that of a session computed from the start
	saved *llama.Checkpoint
	o     llama.SessionOptions
	then  wildBook
	log   []string
}

// failing is a backend that fails now and then.
type failing struct {
	step.Backend
	after int
}

func (f *failing) fail() error {
	if f.after--; f.after == 0 {
		return errBroken
	}
	return nil
}

func (f *failing) Read(b step.Buffer, off int64, dst []byte) error {
	if err := f.fail(); err != nil {
		return err
	}
	return f.Backend.Read(b, off, dst)
}

func (f *failing) Upload(b step.Buffer, off int64, src []byte) error {
	if err := f.fail(); err != nil {
		return err
	}
	return f.Backend.Upload(b, off, src)
}

type wildBook struct {
	book  []wildMoment
	known bool
}

// wildMoment is what a session was when it had some tokens: before anything was done to it then, and after. dressed is what a
// prompt began with.
type wildMoment struct{ bare, dressed *sight }

type sight struct {
	held   [][][]int32
	logits []float32
	pins   []int
}

func (w *wild) see() *sight {
	if w.s.Stored() == 0 && w.s.Position() > 0 { // it will be computed again
		return nil
	}
	return &sight{held(w.s), slices.Clone(w.s.Logits()), w.s.Pins()}
}

func (w *wild) equal(what string, want *sight) {
	got := w.see()
	if got == nil || want == nil {
		return
	}
	if !equalSets(got.held, want.held) || !slices.Equal(got.logits, want.logits) || !slices.Equal(got.pins, want.pins) {
		w.t.Errorf("%s: position %d: holds %v, want %v; pins %v, want %v; equal logits: %v", what, w.s.Position(), got.held, want.held, got.pins, want.pins, slices.Equal(got.logits, want.logits))
	}
}

// note is that tokens came.
func (w *wild) note() {
	n := w.s.Position()
	for len(w.book) <= n {
		w.book = append(w.book, wildMoment{})
	}
	w.book = w.book[:n+1]
	w.book[n] = wildMoment{bare: w.see()}
}

// TestAnyInsight: whatever happens, a session tells the truth about itself, goes back to what it was, and gives back what
// it took.
func TestAnyInsight(t *testing.T) {
	needsScorer(t)
	courses, length := 50, 30
	if runtime.GOOS == "js" {
		courses = 4
	}
	led := new(cache.Ledger)
	b := &failing{Backend: newBackend(t, led)}
	m := load(t, golden.TinyModel(t), b, led)
	m.FixPace(7)
	all := recipes()
	warm := session(t, m, llama.SessionOptions{Tokens: 400})
	prefill(t, warm, words(300, 1)) // scratch has its size now
	warm.Close()
	for seed := range courses {
		before := led.Rows()
		w := &wild{t: t, b: b, m: m, led: led, rand: rand.New(rand.NewPCG(uint64(seed), 7)), known: true}
		r := all[seed%len(all)]
		o := llama.SessionOptions{
			Recipe: r.Recipe, Tables: anyTables(m), Tokens: 100, PageK: 2, PageV: 4,
			Explain: w.rand.IntN(4) > 0, Shadow: w.rand.IntN(3) > 0, Undo: w.rand.IntN(2) == 0,
			F32: w.rand.IntN(4) == 0, Parity: w.rand.IntN(4) == 0,
		}
		if o.Budget = []int{1, 2, 3, 5, 8, 12, 16, 20, 40, 200}[w.rand.IntN(10)]; w.rand.IntN(3) == 0 {
			o.Budget, o.Cap = 0, int64(4000+w.rand.IntN(50000))
		}
		if plan(t, r).Decode.Kind == policy.DecodeStop {
			o.Budget = 0
		}
		w.o = o
		var err error
		if w.s, err = m.NewSession(o); err != nil {
			if !errors.Is(err, llama.ErrSmall) {
				t.Errorf("%s %+v: %v", r.name, o, err)
			}
			continue
		}
		for range length {
			w.act(all)
			w.check()
			if t.Failed() {
				o.Tables = nil
				t.Fatalf("seed %d, %s %+v:\n%s", seed, r.name, o, strings.Join(w.log, "\n"))
			}
		}
		if w.saved != nil {
			w.saved.Close()
		}
		w.s.Close()
		for k, row := range led.Rows() {
			if kind := cache.Kind(k); kind != cache.Scratch && kind != cache.Aux && row.Allocated != before[k].Allocated {
				t.Fatalf("seed %d, %s: %d bytes of kind %d are left", seed, r.name, row.Allocated-before[k].Allocated, k)
			}
		}
	}
}

func (w *wild) act(all []named) {
	s, r := w.s, w.rand
	cut := &countdown{ctx, 1 << 30}
	if r.IntN(4) == 0 {
		cut.left = r.IntN(150)
	}
	var what string
	var err error
	n := s.Position()
	w.was = held(s)
	if r.IntN(6) == 0 {
		w.b.after = 1 + r.IntN(40)
	}
	switch kind := r.IntN(22); kind {
	case 0, 1, 2, 3:
		ids := words([]int{1, 2, 9, 30, s.Budget().Tokens + 5, 70}[r.IntN(6)], r.IntN(64))
		what = fmt.Sprintf("a prompt of %d", len(ids))
		had := w.see()
		defer w.pinsStay(slices.Clone(s.Pins()))
		if err = s.Prefill(cut, ids, nil); err == nil {
			if n > 0 && n < len(w.book) {
				w.book[n].dressed = had
				if had == nil {
					w.book[n] = wildMoment{}
				}
			}
			for p := n + 1; p < len(w.book); p++ {
				w.book[p] = wildMoment{}
			}
			w.note()
		}
	case 4, 5, 6, 7:
		what = "an answer"
		if n == 0 {
			break
		}
		defer w.pinsStay(slices.Clone(s.Pins()))
		last := n
		_, err = s.Generate(cut, llama.GenerateOptions{Max: 1 + r.IntN(12), Sampler: sample.New(sample.Params{})}, func(tok llama.Token) error {
			if s.Position() > last {
				last = s.Position()
				w.note()
				w.told(tok.Evicted)
			}
			w.check()
			return nil
		})
	case 8, 9, 10:
		tokens := r.IntN(n + 3)
		what = fmt.Sprintf("back to %d", tokens)
		was := w.see()
		err = s.Undo(cut, tokens, nil)
		switch at := s.Position(); {
		case errors.Is(err, llama.ErrUndo):
			w.equal(what+" refused", was)
			err = nil
		case err != nil:
			w.equal(what+" failed", was)
		case at == 0:
			w.restart()
		default:
			_, pending := s.Pending()
			if at != tokens && !pending {
				w.t.Errorf("%s: at %d", what, at)
			}
			if w.known && at < len(w.book) {
				want := w.book[at].bare
				if w.book[at].dressed != nil {
					want = w.book[at].dressed
				}
				if want != nil {
					w.equal(what, want)
				}
				w.book = w.book[:at+1]
				w.book[at].dressed = nil
			}
		}
	case 11, 12:
		pins := []int{}
		for range r.IntN(4) {
			if n > 0 {
				pins = append(pins, r.IntN(n))
			}
		}
		what = fmt.Sprint("pins ", pins)
		was := w.see()
		if err = s.Pin(cut, pins); err != nil {
			w.settle(was)
		}
	case 13, 14:
		var there []int32
		for l := range s.Cache().Geometry().Layers {
			for h := range s.Cache().Geometry().KVHeads {
				there = append(there, s.Shadowed(l, h)...)
			}
		}
		p := r.IntN(n + 1)
		if len(there) > 0 {
			p = int(there[r.IntN(len(there))])
		}
		what = fmt.Sprint("recall ", p)
		was := w.see()
		if err = s.Recall(cut, p); errors.Is(err, llama.ErrNoShadow) {
			w.equal(what, was)
			err = nil
		} else if err != nil {
			w.settle(was)
		} else {
			for l, lists := range held(s) {
				for h := range lists {
					if slices.Contains(s.Shadowed(l, h), int32(p)) {
						w.t.Errorf("%s: a copy stays", what)
					}
				}
			}
		}
	case 15:
		on := r.IntN(2) == 0
		what = fmt.Sprint("shadow ", on)
		err = s.Shadow(on)
	case 16:
		on := r.IntN(2) == 0
		what = fmt.Sprint("keep undo ", on)
		s.KeepUndo(on)
	case 17:
		switch r.IntN(4) {
		case 0:
			size := int64(4000 + r.IntN(50000))
			what = fmt.Sprint("cap ", size)
			if err = s.SetCap(cut, size); err == nil {
				w.known, w.o.Budget = n == 0, 0
			}
		case 1:
			to := all[r.IntN(len(all))]
			what = "recipe " + to.name
			if err = s.SetRecipe(cut, to.Recipe); err == nil {
				w.book, w.known = nil, true
				w.note()
			}
		case 2:
			what = "reread"
			was := w.see()
			if err = s.Reread(cut); err != nil {
				w.settle(was)
			} else if n > 0 && s.Budget().Tokens > 0 {
				w.book = nil
				w.known = w.known || s.Caps() != nil
				w.note()
			}
		case 3:
			what = "record"
			s.Record(r.IntN(4) > 0)
		}
	case 20:
		what = "a view"
		g, heads := s.Cache().Geometry(), w.m.Config().Heads
		layer, head := r.IntN(g.Layers), r.IntN(heads)
		var x *llama.Matrix
		was := w.see()
		if x, err = s.View(cut, layer, head); err == nil {
			w.view(x, layer, head*g.KVHeads/heads)
		}
		if n == 0 {
			err = nil
		}
		w.equal(what, was)
	case 21:
		what = "a repetition"
		other, e := w.m.NewSession(*w.opts())
		if e != nil {
			w.t.Error(e)
			break
		}
		h := s.History()
		if was := w.see(); was != nil && w.known {
			if err = other.Repeat(cut, h, true, nil); err == nil {
				now := &sight{held(other), slices.Clone(other.Logits()), other.Pins()}
				w.equal(what, now)
			}
		}
		other.Close()
	case 18:
		what = "a checkpoint"
		var saved *llama.Checkpoint
		if saved, err = s.Save(cut); err == nil {
			if w.saved != nil {
				w.saved.Close()
			}
			w.saved, w.then = saved, wildBook{slices.Clone(w.book), w.known}
		}
	case 19:
		what = "back to the checkpoint"
		if w.saved != nil {
			if err = s.Restore(w.saved); err == nil {
				w.book, w.known = slices.Clone(w.then.book), w.then.known
			} else if errors.Is(err, llama.ErrCheckpoint) {
				err = nil
			}
		}
	}
	w.b.after = 0
	w.log = append(w.log, fmt.Sprintf("%s, stopped after %d: %v; position %d, %d stored, budget %+v, pins %v", what, cut.left, err, s.Position(), s.Stored(), s.Budget(), s.Pins()))
	var full *cache.FullError
	if errors.Is(err, errBroken) {
		err = nil
	}
	if err != nil && !errors.As(err, &full) && cut.Err() == nil && !errors.Is(err, llama.ErrSmall) && !errors.Is(err, llama.ErrPins) && !errors.Is(err, step.ErrMemory) {
		w.t.Errorf("%s: %v", what, err)
	}
}

package llama_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/llama"
	"kvlens/wasm/sample"
	"kvlens/wasm/step"
	"kvlens/web/lab/golden"
)

// words are ids of the tiny model: a stream that does not repeat soon.
func words(n, seed int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((seed + 7*i + i*i/3) % 64)
	}
	return ids
}

// generate answers greedily, with n tokens.
func generate(t testing.TB, s *llama.Session, n int) []int32 {
	t.Helper()
	return greedy(t, s, n, -1)
}

// state is what a session is to the outside.
type state struct {
	position, stored, room, pending int32
	ids                             []int32
	logits                          []float32
}

func stateOf(s *llama.Session) state {
	st := state{int32(s.Position()), int32(s.Stored()), int32(s.Room()), -1, slices.Clone(s.IDs()), slices.Clone(s.Logits())}
	if id, ok := s.Pending(); ok {
		st.pending = id
	}
	return st
}

func (a state) equal(b state) bool {
	return a.position == b.position && a.stored == b.stored && a.room == b.room && a.pending == b.pending &&
		slices.Equal(a.ids, b.ids) && slices.Equal(a.logits, b.logits)
}

// A turn that is cancelled in any layer leaves no trace: the session is as before, and the next turn's logits equal
// those of a session that never had it.
func TestCancelledPrefill(t *testing.T) {
	m := exact(t, nil)
	for _, f32 := range []bool{false, true} {
		o := llama.SessionOptions{F32: f32, Tokens: 100}
		clean := session(t, m, o)
		prefill(t, clean, words(20, 1))
		generate(t, clean, 4)
		before := stateOf(clean)
		prefill(t, clean, words(15, 5))
		want := stateOf(clean)

		for layer := range m.Config().Layers {
			s := session(t, m, o)
			prefill(t, s, words(20, 1))
			generate(t, s, 4)
			stopped, cancel := context.WithCancel(ctx)
			err := s.Prefill(stopped, words(30, 2), func(done, total int) {
				if done > layer*total/m.Config().Layers {
					cancel()
				}
			})
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("layer %d: got %v", layer, err)
			}
			if got := stateOf(s); !got.equal(before) {
				t.Errorf("layer %d: after the cancel: %+v, want %+v", layer, got, before)
			}
			prefill(t, s, words(15, 5))
			if got := stateOf(s); !got.equal(want) {
				t.Errorf("layer %d: the next turn differs", layer)
			}
		}
	}
}

// broken is a backend whose n-th operation from now on fails.
type broken struct {
	step.Backend
	left int
}

type brokenExec struct {
	step.Exec
	b *broken
}

var errBroken = errors.New("device lost")

func (b *broken) Compile(p *step.Program) (step.Exec, error) {
	e, err := b.Backend.Compile(p)
	return &brokenExec{e, b}, err
}

func (e *brokenExec) Run(ctx context.Context, a *step.Args, from, to int) error {
	if e.b.left--; e.b.left == 0 {
		return errBroken
	}
	return e.Exec.Run(ctx, a, from, to)
}

// An operation that fails, wherever in a prefill or decode step, leaves the session as it was.
func TestFailedOperation(t *testing.T) {
	led := new(cache.Ledger)
	b := &broken{Backend: newBackend(t, led)}
	m := load(t, golden.TinyModel(t), b, led)
	m.FixPace(7)
	s := session(t, m, llama.SessionOptions{Tokens: 60})
	prefill(t, s, words(20, 1))
	generate(t, s, 3)
	before := stateOf(s)
	turns := map[string]func() error{
		"prefill": func() error { return s.Prefill(ctx, words(9, 3), nil) },
		"decode":  func() error { return s.Decode(ctx, 7) },
		"generate": func() error {
			_, err := s.Generate(ctx, llama.GenerateOptions{Max: 1, Sampler: sample.New(sample.Params{})}, drop)
			return err
		},
	}
	for name, turn := range turns {
		failed := 0
		for n := 1; ; n++ {
			b.left = n
			err := turn()
			if err == nil {
				break
			}
			if failed++; !errors.Is(err, errBroken) || !stateOf(s).equal(before) {
				t.Fatalf("%s, operation %d: %v, %+v", name, n, err, stateOf(s))
			}
		}
		if ops := m.Config().Layers*6 + 3; failed < ops {
			t.Errorf("%s: only %d operations", name, failed)
		}
		s.Reset()
		b.left = 0
		prefill(t, s, words(20, 1))
		generate(t, s, 3)
		if !stateOf(s).equal(before) {
			t.Fatalf("%s: a fresh start differs", name)
		}
	}
}

func drop(llama.Token) error { return nil }

// load loads a model for one test.
func load(t testing.TB, path string, b step.Backend, led *cache.Ledger) *llama.Model {
	t.Helper()
	m := open(t, path, b, led)
	t.Cleanup(m.Close)
	return m
}

// Two sessions that take turns token by token say what each says alone, over one copy of the weights.
func TestInterleavedSessions(t *testing.T) {
	led := new(cache.Ledger)
	m := load(t, golden.TeachModel(t), newBackend(t, led), led)
	weightBytes := led.Rows()[cache.Weights].Allocated
	prompts, _ := golden.Teach(t)
	options := []llama.SessionOptions{{Tokens: 120}, {Tokens: 200, F32: true, PageK: 3, PageV: 1}}
	var alone [2][]int32
	var both [2]*llama.Session
	for i, o := range options {
		s := session(t, m, o)
		prefill(t, s, prompts[i].IDs)
		alone[i] = generate(t, s, 24)
		both[i] = session(t, m, o)
	}
	var got [2][]int32
	for i, s := range both {
		prefill(t, s, prompts[i].IDs)
	}
	for range 24 {
		for i, s := range both {
			got[i] = append(got[i], generate(t, s, 1)...)
		}
	}
	for i := range got {
		if !slices.Equal(got[i], alone[i]) {
			t.Errorf("session %d: %v, alone %v", i, got[i], alone[i])
		}
	}
	if now := led.Rows()[cache.Weights].Allocated; now != weightBytes {
		t.Errorf("weights take %d bytes, were %d", now, weightBytes)
	}
}

// Turn after turn on one cache is the same as one long prompt, up to rounding.
func TestTurnsEqualOnePrompt(t *testing.T) {
	m := tiny(t)
	o := llama.SessionOptions{F32: true, Tokens: 150}
	s := session(t, m, o)
	prefill(t, s, words(40, 1))
	generate(t, s, 5) // the last of them stays pending
	prefill(t, s, words(30, 9))
	if err := s.Decode(ctx, 11); err != nil {
		t.Fatal(err)
	}
	whole := session(t, m, o)
	prefill(t, whole, s.IDs())
	if s.Position() != 40+5+30+1 || whole.Position() != s.Position() {
		t.Errorf("positions %d and %d", s.Position(), whole.Position())
	}
	golden.Close(t, "logits", s.Logits(), whole.Logits(), 1e-4, 1e-4)
}

// 200 answers and resets, sessions made and closed: the ledger is what it was, and peaks stand still.
func TestLedgerStandsStill(t *testing.T) {
	led := new(cache.Ledger)
	m := load(t, golden.TinyModel(t), newBackend(t, led), led)
	s := session(t, m, llama.SessionOptions{Tokens: 40})
	cycle := func() {
		prefill(t, s, words(20, 1))
		generate(t, s, 5)
		s.Reset()
		other, err := m.NewSession(llama.SessionOptions{Cap: 40000})
		if err != nil {
			t.Fatal(err)
		}
		prefill(t, other, words(5, 1))
		other.Close()
	}
	cycle()
	before := led.Rows()
	for range 200 {
		cycle()
	}
	if after := led.Rows(); after != before {
		t.Errorf("got %v, want %v", after, before)
	}
}

// A prompt may fill the cache to the last token, and not more; an answer stops there with what fitted.
func TestRoom(t *testing.T) {
	m := tiny(t)
	const room = 48
	for extra, fits := range map[int]bool{-1: true, 0: true, 1: false} {
		s := session(t, m, llama.SessionOptions{Tokens: room})
		if s.Room() != room {
			t.Fatalf("room for %d", s.Room())
		}
		err := s.Prefill(ctx, words(room+extra, 1), nil)
		var full *cache.FullError
		switch {
		case fits && err != nil:
			t.Errorf("%+d: %v", extra, err)
		case !fits && !errors.As(err, &full):
			t.Errorf("%+d: got %v", extra, err)
		case !fits && (full.Asked != room+1 || full.Room != room || full.Stored != 0 || full.Cap != s.Cap()):
			t.Errorf("%+d: %+v", extra, full)
		}
		if !fits {
			prefill(t, s, words(room, 1)) // a refused prompt leaves the room
		}
		var ids []int32
		o := llama.GenerateOptions{Max: 10, Sampler: sample.New(sample.Params{})}
		reason, err := s.Generate(ctx, o, func(tok llama.Token) error {
			ids = append(ids, tok.ID)
			return nil
		})
		// The last token needs no slot of its own.
		if want := room - s.Position() + len(ids); reason != llama.ReasonFull || !errors.As(err, &full) || s.Stored() != room || len(ids) != want {
			t.Errorf("%+d: reason %d, %v, %d stored, %d tokens", extra, reason, err, s.Stored(), len(ids))
		}
		if full.Stored != room || full.Asked != 1 || full.Room != 0 {
			t.Errorf("%+d: %+v", extra, full)
		}
	}
}

// The default cap holds min(context_length, 2,048) tokens; small caches have small pages.
func TestDefaultCap(t *testing.T) {
	s := session(t, teach(t), llama.SessionOptions{})
	if s.Room() != 2048 {
		t.Errorf("room for %d tokens", s.Room())
	}
	// 64 slots of 62 tokens in 10 lists of keys and values, 32 numbers of 2 bytes each, take 81,920 bytes.
	s = session(t, teach(t), llama.SessionOptions{Tokens: 62})
	if s.Cap() != 81920 || s.Room() != 62 {
		t.Errorf("cap %d, room for %d tokens", s.Cap(), s.Room())
	}
	s = session(t, teach(t), llama.SessionOptions{Cap: 10015}) // allocated in units of 16 bytes
	if s.Cap() != 10000 {
		t.Errorf("cap %d", s.Cap())
	}
	for _, o := range []llama.SessionOptions{{Cap: -1}, {Tokens: -1}, {PageK: 99}, {PageV: -1}} {
		if _, err := teach(t).NewSession(o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

package llama_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/web/lab/golden"
)

// instant is a conversation at one moment, and what came of it.
type instant struct {
	tokens int
	held   [][][]int32
	logits []float32
	caps   [][]int
	next   []int32 // tokens of the answer after it
}

// told is two turns, and all moments of them: after each prompt and after each token of the answers, and before the
// second prompt, which begins with the pending token.
func told(t *testing.T, s *llama.Session, answer int) []instant {
	t.Helper()
	var out []instant
	note := func() {
		i := instant{tokens: s.Position(), held: held(s), logits: slices.Clone(s.Logits())}
		for _, layer := range s.Caps() {
			i.caps = append(i.caps, slices.Clone(layer))
		}
		out = append(out, i)
	}
	for turn := range 2 {
		prefill(t, s, words(30-15*turn, 1+turn))
		from := len(out)
		var ids []int32
		note()
		for n := range answer { // one by one, so that the logits between them are there on every backend
			if ids = append(ids, generate(t, s, 1)...); n > 0 {
				note()
			}
		}
		for i := range out[from:] {
			out[from+i].next = ids[i:]
		}
	}
	return out
}

// check says whether a session is at a moment.
func (i *instant) check(t *testing.T, what string, s *llama.Session) {
	t.Helper()
	_, pending := s.Pending()
	if s.Position() != i.tokens || len(s.IDs()) != i.tokens || pending {
		t.Fatalf("%s: back to %d tokens: position %d, pending %v", what, i.tokens, s.Position(), pending)
	}
	if !equalSets(held(s), i.held) || !slices.Equal(s.Logits(), i.logits) {
		t.Fatalf("%s: back to %d tokens: holds %v, want %v; equal logits: %v", what, i.tokens, held(s), i.held, slices.Equal(s.Logits(), i.logits))
	}
	if !slices.EqualFunc(s.Caps(), i.caps, slices.Equal[[]int]) {
		t.Fatalf("%s: back to %d tokens: lists may hold %v, want %v", what, i.tokens, s.Caps(), i.caps)
	}
}

// undoable are all recipes, or on a GPU, which is slow in software, some of every kind.
func undoable() []named {
	if !onGPU {
		return recipes()
	}
	out := []named{{"full", policy.Recipe{Method: "full"}}, {"quest", policy.Recipe{Method: "quest"}}}
	for _, r := range undoing() {
		out = append(out, named{r.Method, r})
	}
	return out
}

// undoer is a session of the tiny model under a recipe, with a budget of 12 tokens where something can leave.
func undoer(t *testing.T, m *llama.Model, r named, keep bool) *llama.Session {
	o := llama.SessionOptions{Recipe: r.Recipe, Tables: anyTables(m), Budget: 12, Tokens: 100, Undo: keep}
	if plan(t, r).Decode.Kind == policy.DecodeStop {
		o.Budget = 0
	}
	return session(t, m, o)
}

// Undo goes back to any moment of a conversation of two turns: what is kept and the logits are those of that moment, and
// going on gives what came then. With checkpoints nothing of the last prompts is computed again.
func TestUndo(t *testing.T) {
	m := exact(t, nil)
	const answer = 9
	for _, r := range undoable() {
		for _, keep := range []bool{false, true} {
			s := undoer(t, m, r, keep)
			past := told(t, s, answer)
			stride := 2
			if onGPU {
				stride = 7
			}
			for n := len(past) - 1; n >= 0; n -= stride {
				i := &past[n]
				computed := 0
				if err := s.Undo(ctx, i.tokens, func(done, total int) { computed = total }); err != nil {
					t.Fatal(r.name, err)
				}
				i.check(t, r.name, s)
				if most := answer * m.Config().Layers; keep && n >= answer && computed > most {
					t.Errorf("%s: back to %d tokens: %d layers of tokens are computed, want at most %d", r.name, i.tokens, computed, most)
				}
				got := generate(t, s, len(i.next))
				if !slices.Equal(got, i.next) {
					t.Fatalf("%s: after %d tokens the answer goes on with %d, want %d", r.name, i.tokens, got, i.next)
				}
			}
			s.Close()
		}
	}
}

// The moment before a prompt has the last token of the answer before it, which waits; a moment inside a prompt or beyond
// the conversation is none, and changes nothing.
func TestUndoOfATurn(t *testing.T) {
	m := exact(t, nil)
	for _, r := range undoable() {
		s, other := undoer(t, m, r, true), undoer(t, m, r, false)
		prefill(t, s, words(30, 1))
		prefill(t, other, words(30, 1))
		first := generate(t, s, 9)
		generate(t, other, 9)
		prefill(t, s, words(15, 2))
		generate(t, s, 4)
		before := stateOf(s)
		for _, tokens := range []int{-1, 1, 29, 40, 53, 38 + 16 + 5, 1 << 40} {
			if err := s.Undo(ctx, tokens, nil); !errors.Is(err, llama.ErrUndo) || !stateOf(s).equal(before) {
				t.Errorf("%s: back to %d tokens: %v", r.name, tokens, err)
			}
		}
		if err := s.Undo(ctx, 38+16+4, nil); err != nil || !stateOf(s).equal(before) {
			t.Errorf("%s: back to where it is: %v", r.name, err)
		}
		if err := s.Undo(ctx, 38+16+3, nil); err != nil || !slices.Equal(s.Logits(), before.logits) {
			t.Errorf("%s: back before the token that waits: %v", r.name, err)
		}
		if err := s.Undo(ctx, 39, nil); err != nil {
			t.Fatal(r.name, err)
		}
		if id, ok := s.Pending(); !ok || id != first[8] {
			t.Errorf("%s: token %d waits, want %d", r.name, id, first[8])
		}
		prefill(t, s, words(9, 5))
		prefill(t, other, words(9, 5))
		same(t, r.name, s, other)
		if err := s.Undo(ctx, 0, nil); err != nil || s.Position() != 0 || s.Logits() != nil {
			t.Errorf("%s: back to the start: %v, position %d", r.name, err, s.Position())
		}
	}
}

// A cancelled undo leaves the conversation as it was, wherever it is cancelled.
func TestUndoStopped(t *testing.T) {
	m := exact(t, nil)
	for _, r := range undoable() {
		for _, keep := range []bool{false, true} {
			s := undoer(t, m, r, keep)
			told(t, s, 6)
			before, sets := stateOf(s), held(s)
			points := 0
			for stop := 0; ; stop += 1 + stop/4 {
				err := s.Undo(&countdown{ctx, stop}, 33, nil)
				if err == nil {
					break
				}
				points++
				if !errors.Is(err, context.Canceled) || !stateOf(s).equal(before) || !equalSets(held(s), sets) {
					t.Fatalf("%s: cancelled at %d: %v, position %d", r.name, stop, err, s.Position())
				}
			}
			if s.Position() != 33 || points == 0 {
				t.Errorf("%s: position %d after %d tries", r.name, s.Position(), points)
			}
		}
	}
}

// Checkpoints are at most three copies of the arena, in the ledger, and go with the conversation, with the wish and with
// the session.
func TestUndoMemory(t *testing.T) {
	led := new(cache.Ledger)
	m := load(t, golden.TinyModel(t), newBackend(t, led), led)
	held := func() int64 { return led.Rows()[cache.Checkpoints].Allocated }
	for _, r := range undoable() {
		s := undoer(t, m, r, true)
		most := int64(0)
		for turn := range 5 {
			prefill(t, s, words(9, turn))
			generate(t, s, 3)
			if turn == 1 {
				most = held()
			}
		}
		full := plan(t, r).Decode.Kind == policy.DecodeStop
		if n := held(); n == 0 || n > 3*(s.Cap()+64<<10) || full && n > 3*4*(100+int64(m.Config().Vocab)) || most == 0 {
			t.Errorf("%s: checkpoints take %d bytes, an arena of %d", r.name, n, s.Cap())
		}
		frees := map[string]func(){
			"another recipe": func() {
				if err := s.SetRecipe(ctx, s.Recipe()); err != nil {
					t.Fatal(err)
				}
			},
			"no wish":     func() { s.KeepUndo(false) },
			"a new start": s.Reset,
			"the end":     s.Close,
		}
		for _, name := range []string{"another recipe", "no wish", "a new start", "the end"} {
			s.KeepUndo(true)
			prefill(t, s, words(5, 1))
			if held() == 0 {
				t.Errorf("%s: no checkpoint before %s", r.name, name)
			}
			if frees[name](); held() != 0 {
				t.Errorf("%s: after %s checkpoints take %d bytes", r.name, name, held())
			}
		}
	}
}

// A session that a turn has left otherwise goes back to its last checkpoint, too: nothing of a prompt is computed again,
// and what comes equals what comes without that turn.
func TestFailedTurnWithCheckpoints(t *testing.T) {
	m := exact(t, nil)
	for _, r := range undoable() {
		s, other := undoer(t, m, r, true), undoer(t, m, r, false)
		for _, s := range []*llama.Session{s, other} {
			prefill(t, s, words(30, 1))
			generate(t, s, 4)
		}
		stopped, cancel := context.WithCancel(ctx)
		err := s.Prefill(stopped, words(20, 2), func(done, _ int) {
			if done > 25 {
				cancel()
			}
		})
		if cancel(); !errors.Is(err, context.Canceled) {
			t.Fatal(r.name, err)
		}
		calls := &countdown{ctx, 1 << 30}
		c, err := s.Save(calls)
		if err != nil {
			t.Fatal(r.name, err)
		}
		c.Close()
		if asked := 1<<30 - calls.left; asked > 2 {
			t.Errorf("%s: the context is asked %d times", r.name, asked)
		}
		prefill(t, s, words(9, 5))
		prefill(t, other, words(9, 5))
		same(t, r.name, s, other)
		for _, s := range []*llama.Session{s, other} { // nor is there a checkpoint of another recipe
			if err := s.SetRecipe(ctx, policy.Recipe{Method: "window"}); err != nil {
				t.Fatal(r.name, err)
			}
		}
		same(t, r.name+", then window", s, other)
	}
}

// After an undo the conversation may go another way: checkpoints of the way that it had gone are no checkpoints of it.
func TestUndoAndAnotherWay(t *testing.T) {
	m := exact(t, nil)
	for _, r := range undoable() {
		s, other := undoer(t, m, r, true), undoer(t, m, r, false)
		told(t, s, 6)
		prefill(t, other, words(30, 1))
		generate(t, other, 3)
		for _, s := range []*llama.Session{s, other} {
			if err := s.Undo(ctx, 31, nil); err != nil {
				t.Fatal(r.name, err)
			}
			for _, id := range words(20, 9) {
				if err := s.Decode(ctx, id); err != nil {
					t.Fatal(r.name, err)
				}
			}
			if err := s.Undo(ctx, 45, nil); err != nil {
				t.Fatal(r.name, err)
			}
		}
		same(t, r.name, s, other)
	}
}

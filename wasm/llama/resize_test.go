package llama_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/sample"
	"kvlens/wasm/step"
	"kvlens/web/lab/golden"
)

// capped is a session of the tiny model with half of what 80 tokens take.
func capped(t testing.TB, m *llama.Model, r policy.Recipe) *llama.Session {
	t.Helper()
	return session(t, m, llama.SessionOptions{Recipe: r, Tables: anyTables(m), Tokens: 80, Share: 0.5})
}

// A lower cap: tokens leave, and only leave; the arena is the new one, the ledger has no byte of the old one and had both
// at the peak; the session goes on within its new budget. Back to the old cap nothing changes but the room.
func TestSetCap(t *testing.T) {
	needsScorer(t)
	led := new(cache.Ledger)
	m := load(t, golden.TinyModel(t), newBackend(t, led), led)
	m.FixPace(7)
	for _, r := range evicting(t) {
		s, kept := capped(t, m, r.Recipe), capped(t, m, r.Recipe)
		talk(t, s, 1)
		talk(t, s, 4)
		talk(t, kept, 1)
		talk(t, kept, 4)
		before, size, total := held(s), s.Cap(), led.Total()
		if err := s.SetCap(ctx, size/2); err != nil {
			t.Fatal(r.name, err)
		}
		now := led.Total()
		if s.Cap() != size/2&^15 || now.Allocated > total.Allocated-(size-s.Cap())+1<<10 || now.Peak < total.Allocated+s.Cap() {
			t.Errorf("%s: a cap of %d bytes; the ledger has %d, at the peak %d; had %d", r.name, s.Cap(), now.Allocated, now.Peak, total.Allocated)
		}
		left := 0
		for l, heads := range held(s) {
			for h, kept := range heads {
				left += len(before[l][h]) - len(kept)
				if slices.ContainsFunc(kept, func(p int32) bool { return !slices.Contains(before[l][h], p) }) {
					t.Errorf("%s: layer %d, KV head %d: %v became %v", r.name, l, h, before[l][h], kept)
				}
			}
		}
		if left < 10 {
			t.Errorf("%s: %d tokens left", r.name, left)
		}
		checkCaps(t, s)
		for _, id := range words(30, 3) {
			if err := s.Decode(ctx, id); err != nil {
				t.Fatal(r.name, err)
			}
			checkCaps(t, s)
		}
		talk(t, s, 8)
		checkCaps(t, s)

		if err := kept.SetCap(ctx, 2*size); err != nil {
			t.Fatal(r.name, err)
		}
		if !equalSets(held(kept), before) || kept.Cap() != 2*size || kept.Budget().Tokens <= s.Budget().Tokens {
			t.Errorf("%s: a higher cap changed what is kept: %v", r.name, held(kept))
		}
		other := capped(t, m, r.Recipe)
		talk(t, other, 1)
		talk(t, other, 4)
		if err := errors.Join(kept.Decode(ctx, 5), other.Decode(ctx, 5)); err != nil {
			t.Fatal(r.name, err)
		}
		if !slices.Equal(kept.Logits(), other.Logits()) {
			t.Errorf("%s: what was copied answers otherwise", r.name)
		}
		kept.Close()
		other.Close()
		s.Close()
	}
}

// Full has nothing to give: a cap below what it holds is refused, and changes nothing; any other holds.
func TestSetCapOfFull(t *testing.T) {
	m := exact(t, nil)
	s, other := session(t, m, llama.SessionOptions{Tokens: 60}), session(t, m, llama.SessionOptions{Tokens: 60})
	prefill(t, s, words(30, 1))
	prefill(t, other, words(30, 1))
	size := s.Cap()
	var full *cache.FullError
	if err := s.SetCap(ctx, size/4); !errors.As(err, &full) || full.Cap != size/4 || s.Cap() != size {
		t.Errorf("got %v", err)
	}
	for _, part := range []int64{size * 3 / 4, 2 * size} {
		if err := s.SetCap(ctx, part); err != nil || s.Cap() != part&^15 {
			t.Fatal(err)
		}
	}
	same(t, "full", s, other)
	if err := s.SetCap(ctx, -1); err == nil {
		t.Error("a negative cap")
	}
}

// Another recipe in the middle of a conversation is as if it had been there from the start; one that can't be, or that is
// cancelled, leaves the session as it was.
func TestSetRecipe(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	for _, from := range []string{"full", "h2o", "streamingllm"} {
		for _, r := range recipes() {
			o := llama.SessionOptions{Recipe: policy.Recipe{Method: from}, Tables: anyTables(m), Tokens: 120, Cap: 60000}
			s, want := session(t, m, o), (*llama.Session)(nil)
			o.Recipe = r.Recipe
			want = session(t, m, o)
			for _, s := range []*llama.Session{s, want} {
				talk(t, s, 1)
				if err := s.Decode(ctx, 11); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.SetRecipe(ctx, r.Recipe); err != nil {
				t.Fatal(from, r.name, err)
			}
			same(t, from+" to "+r.name, s, want)
		}
	}
	s, want := capped(t, m, policy.Recipe{Method: "h2o"}), capped(t, m, policy.Recipe{Method: "h2o"})
	for _, s := range []*llama.Session{s, want} {
		talk(t, s, 1)
		talk(t, s, 2)
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	var full *cache.FullError
	var name *policy.NameError
	if err := s.SetRecipe(ctx, policy.Recipe{Method: "full"}); !errors.As(err, &full) {
		t.Errorf("got %v", err)
	}
	if err := s.SetRecipe(ctx, policy.Recipe{Method: "none such"}); !errors.As(err, &name) {
		t.Errorf("got %v", err)
	}
	for _, ctx := range []context.Context{stopped, &countdown{ctx, 50}} {
		if err := s.SetRecipe(ctx, policy.Recipe{Method: "snapkv"}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if s.Recipe().Method != "h2o" {
			t.Errorf("the recipe is %v", s.Recipe())
		}
		prefill(t, s, words(5, 3))
		prefill(t, want, words(5, 3))
		same(t, "as it was", s, want)
	}
}

// countdown is a context that is cancelled once it was asked often enough.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// arenas notes the arenas that a backend hands out.
type arenas struct {
	step.Backend
	last step.Buffer
}

func (a *arenas) Alloc(kind cache.Kind, name string, size int64) (step.Buffer, error) {
	b, err := a.Backend.Alloc(kind, name, size)
	if kind == cache.Free && name == "arena" {
		a.last = b
	}
	return b, err
}

// Story first, questions later: each question finds the same compressed cache, byte by byte, and the same answer whatever
// was asked before it.
func TestQuestionsOnOneCache(t *testing.T) {
	for _, r := range recipes() {
		ledger := new(cache.Ledger)
		a := &arenas{Backend: newBackend(t, ledger)}
		m := load(t, golden.TinyModel(t), a, ledger)
		m.FixPace(7)
		led := func() int64 { return ledger.Total().Allocated }
		o := llama.SessionOptions{Recipe: r.Recipe, Tables: anyTables(m), Tokens: 120, Cap: 60000}
		if plan(t, r).Decode.Kind == policy.DecodeStop {
			o.Cap = 0
		}
		s := session(t, m, o)
		bytes := func() []byte {
			p := make([]byte, s.Cache().Used())
			if err := a.Read(a.last, 0, p); err != nil {
				t.Fatal(err)
			}
			return p
		}
		prefill(t, s, words(50, 1))
		generate(t, s, 4)
		story, sets, total := bytes(), held(s), led()
		c, err := s.Save(ctx)
		if err != nil {
			t.Fatal(r.name, err)
		}
		if grown := led() - total; grown < int64(len(story)) || grown > int64(len(story))+32<<10 {
			t.Errorf("%s: the copy of %d bytes takes %d", r.name, len(story), grown)
		}
		ask := func(q int) []int32 {
			prefill(t, s, words(9, q))
			return generate(t, s, 12)
		}
		var first [3][]int32
		for i, q := range []int{2, 5, 2} {
			first[i] = ask(q)
			if err := s.Restore(c); err != nil {
				t.Fatal(r.name, err)
			}
			if !slices.Equal(bytes(), story) || !equalSets(held(s), sets) {
				t.Fatalf("%s: after question %d the cache is another one", r.name, i)
			}
		}
		if !slices.Equal(first[0], first[2]) || slices.Equal(first[0], first[1]) {
			t.Errorf("%s: answers %v", r.name, first)
		}
		if err := s.SetCap(ctx, s.Cap()+1024); err != nil {
			t.Fatal(r.name, err)
		}
		if err := s.Restore(c); !errors.Is(err, llama.ErrCheckpoint) {
			t.Errorf("%s: under another cap: %v", r.name, err)
		}
		c.Close()
		if err := s.Restore(c); !errors.Is(err, llama.ErrCheckpoint) {
			t.Errorf("%s: after it was closed: %v", r.name, err)
		}
	}
}

// Whether a question is in the window when the story is compressed makes a difference to methods that look at it.
func TestQuestionInOrOut(t *testing.T) {
	m := teach(t)
	ids := prose(t, 80)
	story, question := ids[:70], ids[70:]
	for _, method := range []string{"snapkv", "window"} {
		in := session(t, m, llama.SessionOptions{Recipe: policy.Recipe{Method: method}, Budget: 24, Tokens: 100})
		out := session(t, m, llama.SessionOptions{Recipe: policy.Recipe{Method: method}, Budget: 24, Tokens: 100})
		prefill(t, in, ids)
		prefill(t, out, story)
		prefill(t, out, question)
		if differs := !equalSets(held(in), held(out)); differs != (method == "snapkv") {
			t.Errorf("%s: kept sets differ: %v", method, differs)
		}
		if in.Position() != out.Position() {
			t.Errorf("%s: positions %d and %d", method, in.Position(), out.Position())
		}
	}
}

// Rows of a watched session are over positions: what left has none.
func TestRowsAfterEvictions(t *testing.T) {
	m := teach(t)
	s := session(t, m, llama.SessionOptions{Recipe: policy.Recipe{Method: "snapkv"}, Budget: 16, Tokens: 100, F32: true})
	watch(t, s)
	ids := prose(t, 60)
	prefill(t, s, ids[:50])
	var before [][][]int32 // what the last query saw beside its own token
	for _, id := range ids[50:] {
		before = held(s)
		if err := s.Decode(ctx, id); err != nil {
			t.Fatal(err)
		}
		rows, c := s.Rows(), m.Config()
		if rows.Tokens != s.Position() || len(rows.Codes) != c.Layers*c.Heads*rows.Tokens {
			t.Fatalf("%d codes over %d tokens, position %d", len(rows.Codes), rows.Tokens, s.Position())
		}
		for l, heads := range before {
			for q := range c.Heads {
				kept := append(slices.Clone(heads[q*c.KVHeads/c.Heads]), int32(s.Position()-1))
				sum := 0.0
				for p, code := range rows.Codes[(l*c.Heads+q)*rows.Tokens:][:rows.Tokens] {
					sum += step.Uncode(code)
					if code > 0 && !slices.Contains(kept, int32(p)) {
						t.Fatalf("layer %d, head %d: attention to %d, which left", l, q, p)
					}
				}
				if sum > halfStep || sum < 1/halfStep-1.1e-4*float64(len(kept)) {
					t.Errorf("layer %d, head %d: the row adds up to %v", l, q, sum)
				}
			}
		}
	}
	x, err := s.View(ctx, 1, 0)
	if err != nil || x.Tokens != s.Position() {
		t.Fatal(err)
	}
	kept := append(before[1][0], int32(x.Tokens-1))
	for p, code := range x.Codes[(x.Tokens-1)*x.Cells:][:x.Tokens] {
		if code > 0 && !slices.Contains(kept, int32(p)) {
			t.Errorf("the matrix shows attention to %d, which left", p)
		}
	}
}

// An answer's tokens tell what left for the token before them.
func TestTokensTellWhatLeft(t *testing.T) {
	needsScorer(t)
	m := tiny(t)
	for _, r := range evicting(t) {
		s := small(t, m, r.Recipe)
		talk(t, s, 1)
		was := held(s)
		o := llama.GenerateOptions{Max: 20, Sampler: sample.New(sample.Params{})}
		left, first := 0, s.Position()
		_, err := s.Generate(ctx, o, func(tok llama.Token) error {
			now := held(s)
			var want []llama.Eviction
			for l := range now {
				for h := range now[l] {
					before := slices.Clone(was[l][h])
					if tok.Position > first {
						before = append(before, int32(s.Position()-1))
					}
					for _, p := range before {
						if !slices.Contains(now[l][h], p) {
							want = append(want, llama.Eviction{Layer: l, KVHead: h, Position: int(p)})
						}
					}
				}
			}
			for i := range want {
				if i < len(tok.Evicted) { // why it left is told elsewhere
					e := tok.Evicted[i]
					want[i].Rule, want[i].Score, want[i].Threshold, want[i].Rank = e.Rule, e.Score, e.Threshold, e.Rank
				}
			}
			if fmt.Sprint(tok.Evicted) != fmt.Sprint(want) {
				t.Errorf("%s: token at %d: %v left, want %v", r.name, tok.Position, tok.Evicted, want)
			}
			left, was = left+len(want), now
			return nil
		})
		if err != nil || left < 10 {
			t.Errorf("%s: %v, %d left", r.name, err, left)
		}
	}
}

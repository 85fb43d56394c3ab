package llama_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/quant"
	"kvlens/wasm/sample"
	"kvlens/wasm/step"
	"kvlens/web/lab/golden"
)

// recallable is a token that has left some list, the earliest one.
func recallable(t testing.TB, s *llama.Session) int {
	t.Helper()
	g := s.Cache().Geometry()
	first := int32(math.MaxInt32)
	for l := range g.Layers {
		for h := range g.KVHeads {
			if at := s.Shadowed(l, h); len(at) > 0 {
				first = min(first, at[0])
			}
		}
	}
	if first == math.MaxInt32 {
		t.Fatal("nothing has left")
	}
	return int(first)
}

// A token that was recalled is in every list, and the cache answers like a cache of everything in which what is not there
// is masked. A list that was full lost one other token; the others lost none.
func TestRecall(t *testing.T) {
	needsScorer(t)
	const prompt, answer, budget = 60, 12, 16
	m := exact(t, nil)
	ids := words(prompt+3*answer, 1)
	full := newMasked(t, golden.TinyModel(t), m.Config())
	for _, id := range ids[:prompt] {
		full.token(id)
	}
	for _, r := range evicting(t) {
		s := session(t, m, llama.SessionOptions{
			F32: true, Recipe: r.Recipe, Tables: anyTables(m), Budget: budget, Tokens: prompt + 3*answer, Shadow: true,
		})
		o := full.fork()
		if o.virtual, o.rank = s.Plan().Store.Virtual, s.Plan().Store.Rank; o.rank {
			prefill(t, s, ids[:budget])
			o.reset()
			for _, id := range ids[:budget] {
				o.token(id)
			}
			steps(t, s, o, ids[budget:prompt])
		} else {
			prefill(t, s, ids[:prompt])
		}
		steps(t, s, o, ids[prompt:][:answer])
		for turn := 1; turn < 3; turn++ {
			position := recallable(t, s)
			before := held(s)
			if err := s.Recall(ctx, position); err != nil {
				t.Fatal(r.name, err)
			}
			for l, lists := range held(s) {
				for h, now := range lists {
					was, most := before[l][h], s.Caps()[l][h]
					lost := slices.DeleteFunc(slices.Clone(was), func(p int32) bool { return slices.Contains(now, p) })
					had := slices.Contains(was, int32(position))
					switch {
					case !slices.Contains(now, int32(position)) || !slices.IsSorted(now) || slices.Contains(s.Shadowed(l, h), int32(position)):
						t.Errorf("%s: layer %d, KV head %d: %d did not come back: %d", r.name, l, h, position, now)
					case had && !slices.Equal(now, was), !had && len(now) != len(was)+1-len(lost), len(lost) > 1:
						t.Errorf("%s: layer %d, KV head %d: %d became %d", r.name, l, h, was, now)
					case len(now) > most+max(0, s.Budget().Reserve-1), len(lost) == 1 && len(was) < most:
						t.Errorf("%s: layer %d, KV head %d: may hold %d, %d became %d", r.name, l, h, most, was, now)
					}
				}
			}
			steps(t, s, o, ids[prompt+turn*answer:][:answer])
		}
	}
}

// Where answers grow as published, nothing leaves for a token that comes back; in the end there is no room for one.
func TestRecallWhereAnswersGrow(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	c := m.Config()
	for _, r := range evicting(t) {
		if plan(t, r).Decode.Kind != policy.DecodeCap || plan(t, r).Heads.Kind == policy.HeadsMask {
			continue
		}
		o := shadowOf(m, r, true, true)
		s, twin := session(t, m, o), newMasked(t, golden.TinyModel(t), c)
		prefill(t, s, words(40, 1))
		for _, id := range words(40, 1) {
			twin.token(id)
		}
		steps(t, s, twin, words(5, 2))
		position, before := recallable(t, s), held(s)
		if err := s.Recall(ctx, position); err != nil {
			t.Fatal(r.name, err)
		}
		for l, lists := range held(s) {
			for h, now := range lists {
				if want := append(before[l][h], int32(position)); !slices.Contains(before[l][h], int32(position)) {
					if slices.Sort(want); !slices.Equal(now, want) {
						t.Errorf("%s: layer %d, KV head %d holds %d, want %d", r.name, l, h, now, want)
					}
				}
			}
		}
		steps(t, s, twin, words(5, 3))
		_, err := s.Generate(ctx, llama.GenerateOptions{Max: 999, Sampler: sample.New(sample.Params{})}, drop)
		var full *cache.FullError
		if !errors.As(err, &full) {
			t.Fatal(r.name, err)
		}
		then, sets := stateOf(s), held(s)
		if err := s.Recall(ctx, recallable(t, s)); !errors.As(err, &full) || !stateOf(s).equal(then) || !equalSets(held(s), sets) {
			t.Errorf("%s: without room: %v", r.name, err)
		}
	}
}

// What a token was worth before it left does not come back with it.
func TestRecallBeginsAtNothing(t *testing.T) {
	needsScorer(t)
	led := new(cache.Ledger)
	a := &arenas{Backend: newBackend(t, led)}
	m := load(t, golden.TinyModel(t), a, led)
	c := m.Config()
	for _, r := range evicting(t) {
		s := shaded(t, m, r, false)
		if !s.Cache().Geometry().Scores {
			continue
		}
		prefill(t, s, words(40, 1))
		generate(t, s, 9)
		position, before := recallable(t, s), held(s)
		if err := s.Recall(ctx, position); err != nil {
			t.Fatal(r.name, err)
		}
		for l := range c.Layers {
			for h := range c.KVHeads {
				list := s.Cache().List(l, h)
				slot := slices.Index(list.At, uint32(position))
				word := make([]byte, 4)
				if err := a.Read(a.last, 4*int64(list.Scores[slot/cache.PosLanes]+uint32(slot%cache.PosLanes)), word); err != nil {
					t.Fatal(err)
				}
				if had := slices.Contains(before[l][h], int32(position)); !had && quant.Float32s(word)[0] != 0 {
					t.Errorf("%s: layer %d, KV head %d: it is worth %v", r.name, l, h, quant.Float32s(word)[0])
				}
			}
		}
	}
}

// A session that has to be computed again is so with what was recalled in it, and with the copies that it had.
func TestRecallAgain(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	for _, r := range evicting(t) {
		s, other := shaded(t, m, r, false), shaded(t, m, r, false)
		var position int
		for _, s := range []*llama.Session{s, other} {
			if err := s.Shadow(false); err != nil {
				t.Fatal(err)
			}
			talk(t, s, 1)
			if err := s.Shadow(true); err != nil {
				t.Fatal(err)
			}
			generate(t, s, 7)
			before := held(s)
			position = recallable(t, s)
			if err := s.Recall(ctx, position); err != nil {
				t.Fatal(r.name, err)
			}
			if equalSets(before, held(s)) {
				t.Errorf("%s: a recall changed nothing", r.name)
			}
			generate(t, s, 2)
		}
		copies := s.Shadowed(0, 0)
		stopped, cancel := context.WithCancel(ctx)
		err := s.Prefill(stopped, words(20, 2), func(done, _ int) {
			if done > 10 {
				cancel()
			}
		})
		if cancel(); !errors.Is(err, context.Canceled) {
			t.Fatal(r.name, err)
		}
		prefill(t, s, words(4, 9))
		prefill(t, other, words(4, 9))
		if got := s.Shadowed(0, 0); len(got) < len(copies) || !slices.Equal(got, other.Shadowed(0, 0)) {
			t.Errorf("%s: copies of %d, want %d", r.name, got, other.Shadowed(0, 0))
		}
		same(t, r.name, s, other)

		// Under another recipe nothing was recalled, and all that leaves has had its copy from the start.
		if err := s.SetRecipe(ctx, policy.Recipe{Method: "knorm"}); err != nil {
			t.Fatal(r.name, err)
		}
		for l, lists := range held(s) {
			for h, kept := range lists {
				if n := len(kept) + len(s.Shadowed(l, h)); n != s.Position() {
					t.Errorf("%s: layer %d, KV head %d: %d of %d tokens are there or have a copy", r.name, l, h, n, s.Position())
				}
			}
		}
	}
}

// A conversation that moves to another session takes its recalls with it, whatever that session wishes.
func TestRecallRepeated(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	for _, r := range evicting(t) {
		s := shaded(t, m, r, false)
		talk(t, s, 1)
		if err := s.Recall(ctx, recallable(t, s)); err != nil {
			t.Fatal(r.name, err)
		}
		generate(t, s, 3)
		if err := s.Shadow(false); err != nil {
			t.Fatal(r.name, err)
		}
		for _, on := range []bool{false, true} {
			other := shaded(t, m, r, false)
			if err := other.Shadow(on); err != nil {
				t.Fatal(r.name, err)
			}
			if err := other.Repeat(ctx, s.History(), true, nil); err != nil {
				t.Fatal(r.name, err)
			}
			if !equalSets(held(other), held(s)) || !slices.Equal(other.Logits(), s.Logits()) {
				t.Errorf("%s: holds %v, want %v", r.name, held(other), held(s))
			}
			if copies := other.Shadowed(0, 0); len(copies) > 0 {
				t.Errorf("%s: copies of %d", r.name, copies)
			}
			generate(t, other, 6)
			if copies := other.Shadowed(0, 0); len(copies) > 0 != on {
				t.Errorf("%s: copies of %d, wished: %v", r.name, copies, on)
			}
		}
	}
}

// Undo takes a recall back.
func TestRecallUndone(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	for _, r := range evicting(t) {
		s, other := shaded(t, m, r, false), shaded(t, m, r, false)
		s.KeepUndo(true)
		for _, s := range []*llama.Session{s, other} {
			prefill(t, s, words(30, 1))
			generate(t, s, 6)
		}
		tokens := s.Position() + 1
		if err := s.Recall(ctx, recallable(t, s)); err != nil {
			t.Fatal(r.name, err)
		}
		if err := s.Undo(ctx, tokens, nil); err != nil {
			t.Fatal(r.name, err)
		}
		if s.Shadow(true) != nil || !slices.Equal(s.Shadowed(1, 0), other.Shadowed(1, 0)) {
			t.Errorf("%s: copies of %d, want %d", r.name, s.Shadowed(1, 0), other.Shadowed(1, 0))
		}
		same(t, r.name, s, other)
	}
}

// Undo to where a prompt began leaves what was done before it.
func TestRecallBeforeAPrompt(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	s := shaded(t, m, named{"", policy.Recipe{Method: "h2o"}}, false)
	prefill(t, s, words(30, 1))
	generate(t, s, 6)
	if err := s.Undo(ctx, 33, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Recall(ctx, recallable(t, s)); err != nil {
		t.Fatal(err)
	}
	sets := held(s)
	prefill(t, s, words(9, 2))
	if err := s.Undo(ctx, 33, nil); err != nil || !equalSets(held(s), sets) {
		t.Errorf("%v: holds %v, want %v", err, held(s), sets)
	}
}

// What can't be recalled is said so, and changes nothing.
func TestErrNoShadow(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	s := shaded(t, m, named{"", policy.Recipe{Method: "h2o"}}, false)
	prefill(t, s, words(30, 1))
	generate(t, s, 5)
	before, sets := stateOf(s), held(s)
	for _, position := range []int{-1, s.Position() - 1, s.Position(), 1 << 40} {
		if err := s.Recall(ctx, position); !errors.Is(err, llama.ErrNoShadow) || !stateOf(s).equal(before) || !equalSets(held(s), sets) {
			t.Errorf("position %d: %v", position, err)
		}
	}
	if err := s.Shadow(false); err != nil {
		t.Error(err)
	}
	if err := s.Recall(ctx, 2); !errors.Is(err, llama.ErrNoShadow) {
		t.Errorf("without a shadow: %v", err)
	}
	bare := exact(t, func(b step.Backend) step.Backend { return brokenRecipes{&broken{Backend: b}} })
	if _, err := bare.NewSession(llama.SessionOptions{Recipe: policy.Recipe{Method: "h2o"}, Shadow: true}); !errors.Is(err, llama.ErrCopies) {
		t.Errorf("a backend that packs nothing: %v", err)
	}
	s = session(t, bare, llama.SessionOptions{Recipe: policy.Recipe{Method: "h2o"}, Tokens: 40})
	if err := s.Shadow(true); !errors.Is(err, llama.ErrCopies) || !errors.Is(err, llama.ErrRecipe) {
		t.Errorf("a backend that packs nothing: %v", err)
	}
}

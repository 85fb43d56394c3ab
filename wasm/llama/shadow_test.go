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
	"kvlens/wasm/step"
	"kvlens/web/lab/golden"
)

// shaded is a session with copies of what leaves.
func shaded(t testing.TB, m *llama.Model, r named, f32 bool) *llama.Session {
	t.Helper()
	return session(t, m, llama.SessionOptions{
		Recipe: r.Recipe, Tables: anyTables(m), Budget: 12, Tokens: 100, F32: f32, Shadow: true,
	})
}

// Every token that has left a list has a copy, and it is what the list held, or would have: the row of K and V as the
// model computed it, rounded to the format of pages, and before RoPE where positions are ranks.
func TestShadow(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	c := m.Config()
	for _, r := range evicting(t) {
		for _, f32 := range []bool{false, true} {
			s := shaded(t, m, r, f32)
			k, v := make([][][]float32, c.Layers), make([][][]float32, c.Layers) // [layer][position]
			note := func(a *llama.At) error {
				if _, ok := a.Op.(step.QKV); !ok {
					return nil
				}
				for row := a.From; row < a.To; row++ {
					key, err := a.Row(step.K, row)
					if err != nil {
						return err
					}
					value, err := a.Row(step.V, row)
					if err != nil {
						return err
					}
					k[a.Layer], v[a.Layer] = append(k[a.Layer], key), append(v[a.Layer], value)
				}
				return nil
			}
			if err := s.PrefillProbe(ctx, words(40, 1), note); err != nil {
				t.Fatal(r.name, err)
			}
			for _, id := range words(20, 3) {
				if err := s.DecodeProbe(ctx, id, note); err != nil {
					t.Fatal(r.name, err)
				}
			}
			copies := 0
			for l, lists := range held(s) {
				for h, kept := range lists {
					shadowed := s.Shadowed(l, h)
					copies += len(shadowed)
					for _, p := range shadowed {
						key, value := k[l][p][h*c.HeadDim:][:c.HeadDim], v[l][p][h*c.HeadDim:][:c.HeadDim]
						gotK, gotV := s.Copy(l, h, p)
						if s.Plan().Store.Rank {
							gotK = turned(&c, gotK, int(p))
							golden.Close(t, r.name+" key", gotK, float64s(rounded(key, f32)), 2e-3, 2e-3)
						} else if !slices.Equal(gotK, rounded(key, f32)) {
							t.Errorf("%s: layer %d, KV head %d: the key at %d is %v, want %v", r.name, l, h, p, gotK, key)
						}
						if !slices.Equal(gotV, rounded(value, f32)) {
							t.Errorf("%s: layer %d, KV head %d: the value at %d is %v, want %v", r.name, l, h, p, gotV, value)
						}
					}
					all := slices.Sorted(slices.Values(slices.Concat(kept, shadowed)))
					for p := range all {
						if len(all) != s.Position() || all[p] != int32(p) {
							t.Fatalf("%s: layer %d, KV head %d: has %d, copies of %d of %d tokens", r.name, l, h, kept, shadowed, s.Position())
						}
					}
				}
			}
			if copies == 0 {
				t.Errorf("%s: nothing has left", r.name)
			}
		}
	}
}

// rounded are numbers as a page holds them.
func rounded(x []float32, f32 bool) []float32 {
	out := slices.Clone(x)
	for i := range out {
		if !f32 {
			out[i] = quant.Half(quant.ToHalf(out[i]))
		}
	}
	return out
}

// turned rotates a key of neighbouring pairs to a position.
func turned(c *llama.Config, x []float32, pos int) []float32 {
	out := slices.Clone(x)
	for i := 0; i < c.RotDim; i += 2 {
		sin, cos := math.Sincos(float64(pos) * math.Pow(c.RopeBase, -float64(i)/float64(c.RotDim)) / c.RopeScale)
		a, b := float64(x[i]), float64(x[i+1])
		out[i], out[i+1] = float32(a*cos-b*sin), float32(a*sin+b*cos)
	}
	return out
}

func float64s(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// Copies are in the ledger, beside the cap, and go with the wish, the conversation and the session; checkpoints share them.
func TestShadowMemory(t *testing.T) {
	needsScorer(t)
	led := new(cache.Ledger)
	m := load(t, golden.TinyModel(t), newBackend(t, led), led)
	c := m.Config()
	lane := int64(2 * 2 * c.HeadDim)
	for _, r := range evicting(t) {
		s := shaded(t, m, r, false)
		takes := func() int64 { return led.Rows()[cache.Shadow].Allocated }
		count := func() (n int64) {
			for l := range c.Layers {
				for h := range c.KVHeads {
					n += int64(len(s.Shadowed(l, h)))
				}
			}
			return n
		}
		prefill(t, s, words(40, 1))
		generate(t, s, 9)
		lists := int64(c.Layers * c.KVHeads)
		if n, got := count(), takes(); n == 0 || got < n*(lane+8) || got > (n+32*lists)*(lane+16)+64*lists {
			t.Errorf("%s: %d copies of %d bytes take %d", r.name, n, lane, got)
		}
		before := takes()
		saved, err := s.Save(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if shared := takes(); shared-before > 16*count()+64*lists {
			t.Errorf("%s: a checkpoint takes %d of %d bytes again", r.name, shared-before, before)
		}
		s.Reset()
		if takes() == 0 || count() != 0 {
			t.Errorf("%s: with a checkpoint of it, the shadow takes %d bytes, %d tokens of the session's", r.name, takes(), count())
		}
		saved.Close()
		if takes() != 0 {
			t.Errorf("%s: after a new start, the shadow takes %d bytes", r.name, takes())
		}
		for name, free := range map[string]func() error{
			"no wish":     func() error { return s.Shadow(false) },
			"a new start": func() error { s.Reset(); return nil },
		} {
			err := s.Shadow(true)
			prefill(t, s, words(40, 1))
			if takes() == 0 {
				t.Errorf("%s: no shadow before %s", r.name, name)
			}
			if err = errors.Join(err, free()); err != nil || takes() != 0 || count() != 0 {
				t.Errorf("%s: after %s, the shadow takes %d bytes: %v", r.name, name, takes(), err)
			}
		}
		if err := s.Shadow(true); err != nil {
			t.Error(err)
		}
		prefill(t, s, words(40, 1))
		s.Close()
		if led.Rows()[cache.Shadow] != (cache.Row{Peak: led.Rows()[cache.Shadow].Peak}) {
			t.Errorf("%s: a closed session holds %+v", r.name, led.Rows()[cache.Shadow])
		}
	}
}

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
	m := ownTeach(t)
	ids := prose(t, prompt+3*answer)
	full := newMasked(t, golden.TeachModel(t), m.Config())
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

		// Under another recipe there is nothing to recall.
		if err := s.SetRecipe(ctx, policy.Recipe{Method: "knorm"}); err != nil {
			t.Fatal(r.name, err)
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

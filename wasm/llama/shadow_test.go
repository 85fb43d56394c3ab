package llama_test

import (
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
	return session(t, m, shadowOf(m, r, f32, false))
}

func shadowOf(m *llama.Model, r named, f32, parity bool) llama.SessionOptions {
	return llama.SessionOptions{
		Recipe: r.Recipe, Tables: anyTables(m), Budget: 12, Tokens: 100, F32: f32, Shadow: true, Parity: parity,
	}
}

// Every token that has left a list has a copy, and it is what the list held, or would have: the row of K and V as the
// model computed it, rounded to the format of pages, and before RoPE where positions are ranks.
func TestShadow(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	c := m.Config()
	for _, r := range evicting(t) {
		for way := range 4 {
			f32 := way%2 > 0
			s := session(t, m, shadowOf(m, r, f32, way > 1))
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
			if copies == 0 && way < 2 {
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

// Checkpoints of one conversation that went on in two ways have each the copies of their way.
func TestShadowsOfCheckpoints(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	s := shaded(t, m, named{"", policy.Recipe{Method: "window"}}, false)
	left := func() []int32 {
		x, err := s.View(ctx, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		return x.Left
	}
	all := func() (out [][]float32) {
		for _, p := range s.Shadowed(1, 0) {
			k, v := s.Copy(1, 0, p)
			out = append(out, slices.Concat(k, v))
		}
		return out
	}
	keep := func() *llama.Checkpoint {
		c, err := s.Save(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	prefill(t, s, words(30, 1))
	first, copies := keep(), all()
	defer first.Close()
	gone := map[int][]int32{len(copies): left()}
	prefill(t, s, words(25, 2))
	second, more := keep(), all()
	defer second.Close()
	gone[len(more)] = left()
	for range 2 {
		for c, want := range map[*llama.Checkpoint][][]float32{first: copies, second: more} {
			if err := s.Restore(c); err != nil {
				t.Fatal(err)
			}
			if got := all(); len(got) == 0 || !slices.EqualFunc(got, want, slices.Equal[[]float32]) {
				t.Errorf("copies of %d tokens are other ones", len(want))
			}
			if got := left(); !slices.Equal(got, gone[len(want)]) {
				t.Errorf("tokens left at %d, want %d", got, gone[len(want)])
			}
			prefill(t, s, words(25, 5))
		}
	}
}

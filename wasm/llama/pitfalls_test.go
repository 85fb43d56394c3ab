package llama_test

import (
	"slices"
	"testing"

	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/step"
)

// small is a session of the tiny model whose lists hold 12 tokens.
func small(t testing.TB, m *llama.Model, r policy.Recipe) *llama.Session {
	t.Helper()
	return session(t, m, llama.SessionOptions{Recipe: r, Tables: anyTables(m), Budget: 12, Tokens: 100})
}

// talk is a prompt, an answer of forced tokens, and a prompt.
func talk(t testing.TB, s *llama.Session, seed int) {
	t.Helper()
	prefill(t, s, words(30, seed))
	for _, id := range words(5, seed+1) {
		if err := s.Decode(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	prefill(t, s, words(10, seed+2))
}

// same compares all that two sessions will ever say.
func same(t testing.TB, what string, got, want *llama.Session) {
	t.Helper()
	if g, w := held(got), held(want); !equalSets(g, w) {
		t.Errorf("%s: holds %v, want %v", what, g, w)
	}
	if !slices.Equal(got.Logits(), want.Logits()) || got.Position() != want.Position() || !slices.Equal(got.IDs(), want.IDs()) {
		t.Errorf("%s: the logits differ, or the tokens", what)
	}
	if a, b := generate(t, got, 6), generate(t, want, 6); !slices.Equal(a, b) {
		t.Errorf("%s: answers %v, want %v", what, a, b)
	}
}

func equalSets(a, b [][][]int32) bool {
	return slices.EqualFunc(a, b, func(a, b [][]int32) bool { return slices.EqualFunc(a, b, slices.Equal[[]int32]) })
}

// Rows 7 and 8: state of one conversation in the next, or of one session in another that runs beside it.
func TestPitfalls7And8NothingIsLeftBehind(t *testing.T) {
	m := exact(t, nil)
	for _, r := range recipes() {
		used, fresh, beside := small(t, m, r.Recipe), small(t, m, r.Recipe), small(t, m, policy.Recipe{Method: "h2o"})
		if plan(t, r).Decode.Kind == policy.DecodeStop {
			o := llama.SessionOptions{Recipe: r.Recipe, Tokens: 100}
			used, fresh = session(t, m, o), session(t, m, o)
		}
		talk(t, used, 1)
		used.Reset()
		talk(t, beside, 7)
		talk(t, used, 3)
		generate(t, beside, 1)
		talk(t, fresh, 3)
		same(t, r.name, used, fresh)
	}
}

// Row 17: the position of a token is how many came before it, not how many are stored. A query of the first layer depends
// on nothing else than its token and its position.
func TestPitfall17PositionIsNotCount(t *testing.T) {
	m := exact(t, nil)
	query := func(s *llama.Session, id int32) (q []float32) {
		err := s.DecodeProbe(ctx, id, func(at *llama.At) (err error) {
			if _, ok := at.Op.(step.QKV); ok && at.Layer == 0 {
				q, err = at.Row(step.Q, 0)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	full := session(t, m, llama.SessionOptions{Tokens: 100})
	talk(t, full, 1)
	want := query(full, 9)
	for _, r := range evicting(t) {
		if plan(t, r).Store.Rank {
			continue
		}
		s := small(t, m, r.Recipe)
		talk(t, s, 1)
		if got := query(s, 9); !slices.Equal(got, want) {
			t.Errorf("%s: the query is at another position", r.name)
		}
		if s.Position() != full.Position() || s.Cache().List(0, 0).Live >= s.Position() {
			t.Errorf("%s: position %d, %d stored", r.name, s.Position(), s.Stored())
		}
		for l, heads := range held(s) {
			for h, kept := range heads {
				recent := s.Plan().Protect.Recent > 0 // elsewhere the newest may leave
				if last := kept[len(kept)-1]; int(last) >= s.Position() || recent && int(last) != s.Position()-1 {
					t.Errorf("%s: layer %d, KV head %d: the newest token is %d of %d", r.name, l, h, last, s.Position())
				}
			}
		}
	}
}

// Row 24: a prompt longer than the window goes through it as if it came token by token, whatever pieces it comes in.
func TestPitfall24PromptLongerThanTheWindow(t *testing.T) {
	const sinks, budget = 2, 8
	m := exact(t, nil)
	ids := words(5*budget, 1)
	r := policy.Recipe{Method: "streamingllm", Knobs: map[string]float64{"sinks": sinks}}
	o := llama.SessionOptions{Recipe: r, Budget: budget, F32: true}
	slow := session(t, m, o)
	prefill(t, slow, ids[:1])
	for _, id := range ids[1:] {
		if err := slow.Decode(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	want := []int32{0, 1}
	for p := 5*budget - (budget - sinks); p < 5*budget; p++ {
		want = append(want, int32(p))
	}
	for _, pieces := range [][]int{{len(ids)}, {budget, 3 * budget, budget}, {3, 1, budget + 1, 27}} {
		s, rest := session(t, m, o), ids
		for _, n := range pieces {
			prefill(t, s, rest[:n])
			rest = rest[n:]
		}
		for l, heads := range held(s) {
			for h, kept := range heads {
				if !slices.Equal(kept, want) {
					t.Errorf("%v: layer %d, KV head %d: %v, want %v", pieces, l, h, kept, want)
				}
			}
		}
		for i, x := range s.Logits() {
			if d := x - slow.Logits()[i]; d > 1e-3 || d < -1e-3 {
				t.Fatalf("%v: logit %d is %v, want %v", pieces, i, x, slow.Logits()[i])
			}
		}
	}
}

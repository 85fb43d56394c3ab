package llama_test

import (
	"slices"
	"testing"

	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/sample"
)

// explained is a session that is recorded, with half of what 80 tokens take.
func explained(t testing.TB, m *llama.Model, r policy.Recipe) *llama.Session {
	t.Helper()
	o := llama.SessionOptions{Recipe: r, Tables: anyTables(m), Tokens: 80, Share: 0.5, Explain: true}
	if p, err := r.Plan(); err != nil || p.Decode.Kind == policy.DecodeStop {
		o.Share = 1
	}
	return session(t, m, o)
}

// explain explains all lists, [layer][KV head].
func explain(t testing.TB, s *llama.Session) (out [][]*llama.Explanation) {
	t.Helper()
	for l, heads := range held(s) {
		var of []*llama.Explanation
		for h, kept := range heads {
			e, err := s.Explain(ctx, l, h)
			if err != nil {
				t.Fatal(err)
			}
			var holds []int32
			for p, k := range e.Kept {
				if k == 1 {
					holds = append(holds, int32(p))
				}
			}
			if e.Layer != l || e.KVHead != h || e.Tokens != s.Position() || len(e.Verdicts) != e.Tokens || !slices.Equal(holds, kept) {
				t.Fatalf("list %d %d explains %d tokens of list %d %d, %d verdicts, kept %v, want %v", l, h, e.Tokens, e.Layer, e.KVHead, len(e.Verdicts), holds, kept)
			}
			of = append(of, e)
		}
		out = append(out, of)
	}
	return out
}

// book is what a test notes of a session by looking at what its lists hold: when each token left, and how.
type book struct {
	t    *testing.T
	s    *llama.Session
	was  [][][]int32
	left map[[3]int]fate // by layer, KV head, position
	n    int             // tokens before
}

type fate struct {
	at  int
	how []policy.Decision // one of these
}

// note compares lists with what they were: what is gone, of those and of the tokens since, left now.
func (b *book) note(how ...policy.Decision) {
	now := held(b.s)
	for l := range now {
		for h, kept := range now[l] {
			var before []int32
			if b.was != nil {
				before = b.was[l][h]
			}
			for p := b.n; p < b.s.Position(); p++ {
				before = append(before, int32(p))
			}
			for _, p := range before {
				if !slices.Contains(kept, p) {
					b.left[[3]int{l, h, int(p)}] = fate{b.s.Position(), how}
				}
			}
		}
	}
	b.was, b.n = now, b.s.Position()
}

// check compares the book with what the session says.
func (b *book) check(what string) {
	b.t.Helper()
	for l, heads := range explain(b.t, b.s) {
		for h, e := range heads {
			chosen, last := 0, uint32(0)
			for p, v := range e.Verdicts {
				if e.Kept[p] == 1 && v.Rank > 0 {
					chosen, last = chosen+1, max(last, v.At)
				}
			}
			for p, v := range e.Verdicts {
				f, gone := b.left[[3]int{l, h, p}]
				switch {
				case gone != (e.Kept[p] == 0):
					b.t.Fatalf("%s: list %d %d: token %d is gone: %v", what, l, h, p, gone)
				case gone && (int(v.At) != f.at || !slices.Contains(f.how, v.Decision)):
					b.t.Fatalf("%s: list %d %d: token %d left at %d by one of %v, explained as %+v", what, l, h, p, f.at, f.how, v)
				case !gone && (int(v.At) > b.n || int(v.At) <= p || v.Decision > policy.DecidedPlace):
					b.t.Fatalf("%s: list %d %d: token %d stays at %d: %+v", what, l, h, p, b.n, v)
				case !gone && v.Rank > 0 && (v.Score < v.Threshold || v.Threshold != v.Threshold):
					b.t.Fatalf("%s: list %d %d: token %d stays below the threshold: %+v", what, l, h, p, v)
				case gone && v.Rank > 0 && v.Score > v.Threshold:
					b.t.Fatalf("%s: list %d %d: token %d left above the threshold: %+v", what, l, h, p, v)
				case gone && v.Decision == policy.DecidedScore && v.At == last && int(v.Rank) <= chosen:
					b.t.Fatalf("%s: list %d %d: token %d left though it is among the best %d: %+v", what, l, h, p, chosen, v)
				}
			}
		}
	}
}

// Under every recipe, what Explain tells of each token is what can be seen of it from outside: when it left, by which stage,
// and on which side of the threshold it was; through a prompt, an answer, a second prompt and a lower cap. What an answer
// tells of the tokens that leave is the same.
func TestExplain(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	for _, r := range recipes() {
		t.Run(r.name, func(t *testing.T) {
			s := explained(t, m, r.Recipe)
			prompt := []policy.Decision{policy.DecidedScore, policy.DecidedPlace, policy.DecidedCascade}
			answer := []policy.Decision{policy.DecidedRule}
			if k := plan(t, r).Decode.Kind; k == policy.DecodeCap {
				answer = []policy.Decision{policy.DecidedRule, policy.DecidedCapRule}
			}
			b := &book{t: t, s: s, left: map[[3]int]fate{}}
			prefill(t, s, words(30, 1))
			if plan(t, r).Store.Rank { // a prompt beyond the window goes token by token
				prompt = nil
				b.was, b.n = held(s), s.Position()
				for _, of := range explain(t, s) {
					for _, e := range of {
						for p, v := range e.Verdicts {
							if e.Kept[p] == 0 {
								b.left[[3]int{e.Layer, e.KVHead, p}] = fate{int(v.At), answer}
							}
						}
					}
				}
			}
			b.note(prompt...)
			b.check("prompt")
			var told []llama.Eviction
			o := llama.GenerateOptions{Max: 12, Sampler: sample.New(sample.Params{})}
			_, err := s.Generate(ctx, o, func(tok llama.Token) error {
				b.note(answer...)
				b.check("answer")
				for _, e := range tok.Evicted {
					x, err := s.Explain(ctx, e.Layer, e.KVHead)
					if err != nil {
						return err
					}
					same := func(a, b float32) bool { return a == b || a != a && b != b }
					if v := x.Verdicts[e.Position]; v.Decision != e.Rule || !same(v.Score, e.Score) || !same(v.Threshold, e.Threshold) || int(v.Rank) != e.Rank {
						t.Errorf("%+v left, explained as %+v", e, v)
					}
				}
				told = append(told, tok.Evicted...)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if !plan(t, r).Store.Rank {
				prefill(t, s, words(15, 5))
				b.note(prompt...)
				b.check("second prompt")
			}
			if plan(t, r).Decode.Kind == policy.DecodeStop {
				return
			}
			if len(told) < 10 {
				t.Errorf("%d tokens left in the answer", len(told))
			}
			if err := s.SetCap(ctx, s.Cap()/2); err != nil {
				t.Fatal(err)
			}
			b.note(policy.DecidedCap)
			b.check("lower cap")
			if _, ok := s.Pending(); ok { // a prompt of two tokens would go token by token
				prefill(t, s, nil)
				b.note(answer...)
			}
			if err := s.Decode(ctx, 7); err != nil {
				t.Fatal(err)
			}
			b.note(answer...)
			b.check("a token after it")
		})
	}
}

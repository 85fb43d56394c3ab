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
	"kvlens/wasm/sample"
	"kvlens/wasm/step"
	"kvlens/web/lab/golden"
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

// The scores and thresholds of SnapKV's and of the key norm's first prompt, from the queries and keys of the pass in
// float64; and of a token that TOVA lets go, from the attention row.
func TestExplainedScores(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	c := m.Config()
	const n, window, layer = 40, 3, 1
	for _, method := range []string{"snapkv", "knorm"} {
		r := policy.Recipe{Method: method}
		if method == "snapkv" {
			r.Knobs = map[string]float64{"window": window, "kernel": 3}
		}
		s := session(t, m, llama.SessionOptions{Recipe: r, Budget: 12, Tokens: 80, F32: true, Explain: true})
		q, k := make([][]float32, n), make([][]float32, n)
		err := s.PrefillProbe(ctx, words(n, 1), func(a *llama.At) error {
			if _, ok := a.Op.(step.QKV); !ok || a.Layer != layer {
				return nil
			}
			for i := a.From; i < a.To; i++ {
				var err error
				if q[i], err = a.Row(step.Q, i); err != nil {
					return err
				}
				if k[i], err = a.Row(step.K, i); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for h := range c.KVHeads {
			key := func(i int) []float32 { return k[i][h*c.HeadDim:][:c.HeadDim] }
			want := make([]float64, n)
			for i := range want {
				want[i] = -math.Sqrt(product(key(i), key(i)))
			}
			if method == "snapkv" {
				raw := make([]float64, n)
				group := c.Heads / c.KVHeads
				for head := h * group; head < (h+1)*group; head++ {
					for i := n - window; i < n; i++ {
						var row []float64
						sum := 0.0
						for j := range i + 1 {
							x := math.Exp(product(q[i][head*c.HeadDim:][:c.HeadDim], key(j)) / math.Sqrt(float64(c.HeadDim)))
							row, sum = append(row, x), sum+x
						}
						for j := range n - window {
							raw[j] += row[j] / sum / float64(group)
						}
					}
				}
				for j := range n - window {
					want[j] = raw[j] / 3
					if j > 0 {
						want[j] += raw[j-1] / 3
					}
					want[j] += raw[j+1] / 3 // beyond the prefix there is 0
				}
			}
			e, err := s.Explain(ctx, layer, h)
			if err != nil {
				t.Fatal(err)
			}
			least := math.Inf(1)
			for p, v := range e.Verdicts {
				if e.Kept[p] == 1 && v.Rank > 0 {
					least = min(least, want[p])
				}
			}
			ranked := 0
			for p, v := range e.Verdicts {
				if v.Rank == 0 {
					continue
				}
				ranked++
				if math.Abs(float64(v.Score)-want[p]) > 1e-5*math.Abs(want[p])+1e-7 || math.Abs(float64(v.Threshold)-least) > 1e-5*math.Abs(least)+1e-7 {
					t.Errorf("%s, KV head %d, token %d: score %v and threshold %v, want %v and %v", method, h, p, v.Score, v.Threshold, want[p], least)
				}
			}
			if ranked < n-window {
				t.Errorf("%s, KV head %d: %d ranks", method, h, ranked)
			}
		}
	}
	s := session(t, m, llama.SessionOptions{Recipe: policy.Recipe{Method: "tova"}, Budget: 12, Tokens: 80, F32: true, Explain: true})
	prefill(t, s, words(30, 1))
	before := append(s.Kept(layer, 0), 30)
	want := map[int32]float64{}
	err := s.DecodeProbe(ctx, 9, func(a *llama.At) error {
		if _, ok := a.Op.(step.Attend); !ok || a.Layer != layer {
			return nil
		}
		rows, err := a.Attention(0)
		for _, p := range before[:12] { // the newest stays
			for _, row := range rows {
				want[p] += float64(row[p]) / float64(len(rows))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	order := slices.SortedFunc(slices.Values(before[:12]), func(a, b int32) int { return int(math.Copysign(1, want[a]-want[b])) })
	for h := range c.KVHeads {
		e, err := s.Explain(ctx, layer, h)
		if err != nil {
			t.Fatal(err)
		}
		v := e.Verdicts[order[0]]
		if v.Decision != policy.DecidedRule || v.Rank != 12 || math.Abs(float64(v.Score)-want[order[0]]) > 1e-6 || math.Abs(float64(v.Threshold)-want[order[1]]) > 1e-6 || v.At != 31 {
			t.Errorf("KV head %d: %+v, want %v below %v", h, v, want[order[0]], want[order[1]])
		}
	}
}

func product(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// CompressKV's semantic retrieval heads vote, in every list of their layer.
func TestVotersOfCompressKV(t *testing.T) {
	needsScorer(t)
	m := teach(t)
	s := session(t, m, llama.SessionOptions{
		Recipe: policy.Recipe{Method: "compresskv", Knobs: map[string]float64{"window": 3, "heads": 2}},
		Tables: anyTables(m), Budget: 16, Tokens: 100, Explain: true,
	})
	prefill(t, s, prose(t, 60))
	for l, heads := range explain(t, s) {
		row := slices.Clone(anyTables(m).Semantic[l])
		want := []int{slices.Index(row, slices.Max(row))}
		row[want[0]] = -1
		want = append(want, slices.Index(row, slices.Max(row)))
		for _, e := range heads {
			if !slices.Equal(e.Voters, want) || len(e.Votes) != 2*60 {
				t.Errorf("layer %d, KV head %d: %v vote, want %v", l, e.KVHead, e.Voters, want)
			}
		}
	}
}

// verdicts are all that a session says.
func verdicts(t testing.TB, s *llama.Session) (out []policy.Verdict) {
	t.Helper()
	for _, heads := range explain(t, s) {
		for _, e := range heads {
			out = append(out, e.Verdicts...)
		}
	}
	return out
}

func sameVerdicts(a, b []policy.Verdict) bool {
	same := func(x, y float32) bool { return x == y || x != x && y != y }
	return slices.EqualFunc(a, b, func(a, b policy.Verdict) bool {
		return same(a.Score, b.Score) && same(a.Threshold, b.Threshold) && a.Rank == b.Rank && a.At == b.At && a.Decision == b.Decision
	})
}

// What was recorded comes back with a checkpoint, with Undo, and when a turn that fails makes all be computed again. A pin
// has the last word from its time on, and none when it is taken away.
func TestRecordsComeBack(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	for _, r := range evicting(t) {
		s := explained(t, m, r.Recipe)
		s.KeepUndo(true)
		prefill(t, s, words(30, 1))
		generate(t, s, 9)
		want, at := verdicts(t, s), s.Position()
		saved, err := s.Save(ctx)
		if err != nil {
			t.Fatal(err)
		}
		kept := s.Kept(0, 0)[2]
		if err := s.Pin(ctx, []int{int(kept)}); err != nil {
			t.Fatal(r.name, err)
		}
		if v := explain(t, s)[0][0].Verdicts[kept]; v.Decision != policy.DecidedPin || int(v.At) != at {
			t.Errorf("%s: pinned at %d: %+v", r.name, at, v)
		}
		if err := s.Pin(ctx, nil); err != nil {
			t.Fatal(err)
		}
		if got := explain(t, s)[0][0].Verdicts[kept]; !sameVerdicts([]policy.Verdict{got}, want[kept:kept+1]) {
			t.Errorf("%s: not pinned any more: %+v, want %+v", r.name, got, want[kept])
		}
		for what, back := range map[string]func() error{
			"checkpoint": func() error {
				generate(t, s, 3)
				return s.Restore(saved)
			},
			"undo": func() error {
				prefill(t, s, words(20, 3))
				return s.Undo(ctx, at, nil)
			},
			"replay": func() error {
				stopped, cancel := context.WithCancel(ctx)
				err := s.Prefill(stopped, words(20, 4), func(done, total int) {
					if done > total/2 {
						cancel()
					}
				})
				cancel()
				if !errors.Is(err, context.Canceled) {
					return err
				}
				_, err = s.Explain(ctx, 0, 0)
				return err
			},
		} {
			if err := back(); err != nil {
				t.Fatal(r.name, what, err)
			}
			if got := verdicts(t, s); !sameVerdicts(got, want) {
				t.Errorf("%s: %s: what is told differs", r.name, what)
			}
		}
		saved.Close()
	}
}

// A pin is the last word about a token from the time when it was pinned last, until a prompt chooses again; it is none
// about a token that has left. The token that waits can be pinned before it is stored.
func TestExplainedPins(t *testing.T) {
	needsScorer(t)
	s := explained(t, exact(t, nil), policy.Recipe{Method: "snapkv"})
	prefill(t, s, words(40, 1))
	generate(t, s, 3)
	var gone int
	kept := s.Kept(0, 0)
	for slices.Contains(kept, int32(gone)) {
		gone++
	}
	stays, waits := int(kept[1]), s.Position()
	pin := func(positions ...int) {
		t.Helper()
		if err := s.Pin(ctx, positions); err != nil {
			t.Fatal(err)
		}
	}
	decided := func(position int, d policy.Decision, at int) {
		t.Helper()
		e, err := s.Explain(ctx, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if v := e.Verdicts[position]; v.Decision != d || int(v.At) != at {
			t.Errorf("token %d: %+v, want %d at %d", position, v, d, at)
		}
	}
	pin(stays, gone, waits)
	decided(stays, policy.DecidedPin, waits)
	decided(gone, policy.DecidedScore, 40)
	generate(t, s, 2)
	decided(waits, policy.DecidedPin, waits+1)
	pin(waits)
	decided(stays, policy.DecidedScore, 40)
	generate(t, s, 2)
	pin(stays, waits)
	decided(stays, policy.DecidedPin, s.Position())
	decided(waits, policy.DecidedPin, waits+1)
	prefill(t, s, words(20, 2))
	decided(stays, policy.DecidedPin, s.Position())
	pin()
	decided(stays, policy.DecidedPin, s.Position())
}

// A record is in the ledger while it is there, as large as Explain says; without one there is nothing, and no explanation.
// One that begins in the middle of a conversation begins with the next.
func TestRecordInTheLedger(t *testing.T) {
	needsScorer(t)
	led := new(cache.Ledger)
	m := load(t, golden.TinyModel(t), newBackend(t, led), led)
	views := func() int64 { return led.Rows()[cache.Views].Allocated }
	for _, method := range []string{"full", "snapkv", "h2o"} {
		o := llama.SessionOptions{Recipe: policy.Recipe{Method: method}, Tokens: 80, Share: 1}
		if method != "full" {
			o.Share = 0.5
		}
		s := session(t, m, o)
		prefill(t, s, words(30, 1))
		if _, err := s.Explain(ctx, 0, 0); !errors.Is(err, llama.ErrNoRecord) || views() != 0 {
			t.Errorf("%s, unrecorded: %v, %d bytes", method, err, views())
		}
		s.Record(true)
		prefill(t, s, words(5, 1))
		if _, err := s.Explain(ctx, 0, 0); !errors.Is(err, llama.ErrNoRecord) || views() != 0 {
			t.Errorf("%s, recorded from the middle: %v, %d bytes", method, err, views())
		}
		s.Reset()
		if _, err := s.Explain(ctx, 0, 0); !errors.Is(err, llama.ErrEmpty) {
			t.Errorf("%s, empty: %v", method, err)
		}
		prefill(t, s, words(30, 1))
		generate(t, s, 6)
		e, err := s.Explain(ctx, 1, 0)
		if err != nil || views() != e.Bytes || (e.Bytes > 0) != (method != "full") {
			t.Fatalf("%s, recorded: %v, %d bytes", method, err, views())
		}
		for _, list := range [][2]int{{-1, 0}, {0, -1}, {9, 0}, {0, 9}} {
			if _, err := s.Explain(ctx, list[0], list[1]); err == nil {
				t.Errorf("list %v is explained", list)
			}
		}
		saved, err := s.Save(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s.Record(false)
		if _, err := s.Explain(ctx, 0, 0); !errors.Is(err, llama.ErrNoRecord) || views() != 0 {
			t.Errorf("%s, ended: %v, %d bytes", method, err, views())
		}
		if err := errors.Join(s.Restore(saved), s.Decode(ctx, 4)); err != nil || views() != 0 {
			t.Errorf("%s: %v, a checkpoint brings back %d bytes that are not wanted", method, err, views())
		}
		saved.Close()
		s.Record(true)
		if err := s.SetRecipe(ctx, policy.Recipe{Method: "tova"}); err != nil {
			t.Fatal(err)
		}
		if e, err := s.Explain(ctx, 1, 0); err != nil || views() != e.Bytes || e.Bytes == 0 {
			t.Errorf("%s, computed again: %v, %d bytes", method, err, views())
		}
		s.Close()
		if views() != 0 || led.Rows()[cache.Checkpoints].Allocated != 0 {
			t.Errorf("%s, closed: %d bytes", method, views())
		}
	}
}

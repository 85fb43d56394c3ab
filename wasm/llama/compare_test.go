package llama_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/web/lab/golden"
)

// heard is all that a comparison tells.
type heard struct {
	*llama.Comparison
	tokens []llama.Compared
	free   [2][]int32
	same   [2][]bool
	kept   [2][][][]int32
	done   int // the last progress
}

// compare runs a comparison to its end.
func compare(t testing.TB, m *llama.Model, o llama.CompareOptions) *heard {
	t.Helper()
	h := new(heard)
	var err error
	h.Comparison, err = m.Compare(ctx, o, h.events())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *heard) events() llama.CompareEvents {
	return llama.CompareEvents{
		Progress: func(done, _ int) { h.done = done },
		Read:     func(run int, s *llama.Session) { h.kept[run] = held(s) },
		Forced: func(c llama.Compared) error {
			h.tokens = append(h.tokens, c)
			return nil
		},
		Free: func(run int, tok llama.Token, same bool) error {
			h.free[run], h.same[run] = append(h.free[run], tok.ID), append(h.same[run], same)
			return nil
		},
	}
}

// under is a recipe at a number of tokens a list.
func under(method string, budget int) llama.SessionOptions {
	return llama.SessionOptions{Recipe: policy.Recipe{Method: method}, Budget: budget}
}

// softmax in float64.
func softmax(logits []float32) []float64 {
	out, sum := make([]float64, len(logits)), 0.0
	for i, x := range logits {
		out[i] = math.Exp(float64(x))
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// klOf is Σ p·ln(p/q).
func klOf(p, q []float64) (sum float64) {
	for i := range p {
		sum += p[i] * math.Log(p[i]/q[i])
	}
	return sum
}

func argmax(p []float64) int32 { return int32(slices.Index(p, slices.Max(p))) }

// What is compared is what sessions of their own give when they are forced along the full cache's answer.
func TestCompareEqualsAlone(t *testing.T) {
	m := exact(t, nil)
	ids, limit := words(60, 3), 12
	for _, pair := range [][2]llama.SessionOptions{
		{under("snapkv", 16), under("h2o", 16)},
		{under("streamingllm", 12), under("tova", 20)},
		{under("full", 0), under("cake", 14)},
	} {
		h := compare(t, m, llama.CompareOptions{Parts: [][]int32{ids}, Max: limit, Runs: pair})
		all := [3]*llama.Session{}
		for i, o := range []llama.SessionOptions{{}, pair[0], pair[1]} {
			o.Tokens = len(ids) + limit
			all[i] = session(t, m, o)
			prefill(t, all[i], ids)
		}
		var agree [2]int
		var sum, most [2]float64
		for n, got := range h.tokens {
			var p [3][]float64
			for i, s := range all {
				p[i] = softmax(s.Logits())
			}
			want := argmax(p[0])
			if got.ID != want || got.Position != len(ids)+n || h.IDs[n] != want {
				t.Fatalf("token %d is %+v, want %d", n, got, want)
			}
			for run := range 2 {
				d := klOf(p[0], p[run+1])
				if math.Abs(got.KL[run]-d) > 1e-9 || got.KL[run] < 0 || math.Abs(got.Prob[run+1]-p[run+1][want]) > 1e-9 || got.Choices[run+1].ID != argmax(p[run+1]) {
					t.Errorf("token %d, run %d: %+v, want KL %g, probability %g", n, run, got, d, p[run+1][want])
				}
				sum[run], most[run] = sum[run]+d, max(most[run], d)
				if argmax(p[run+1]) == want {
					agree[run]++
				}
			}
			for _, s := range all {
				if err := s.Decode(ctx, want); err != nil {
					t.Fatal(err)
				}
			}
		}
		if len(h.tokens) != limit || h.Reason != llama.ReasonMax || h.done != 3*len(ids)*m.Config().Layers {
			t.Fatalf("%d tokens, reason %d, progress %d", len(h.tokens), h.Reason, h.done)
		}
		for run, o := range pair {
			r := h.Runs[run]
			if math.Abs(r.MeanKL-sum[run]/float64(limit)) > 1e-9 || math.Abs(r.MaxKL-most[run]) > 1e-9 || r.Agree != agree[run] || !(r.Rate > 0) {
				t.Errorf("run %d: %+v, want mean %g, most %g, %d agree", run, r, sum[run]/float64(limit), most[run], agree[run])
			}
			o.Tokens = len(ids) + limit
			s := session(t, m, o)
			prefill(t, s, ids)
			if !reflect.DeepEqual(h.kept[run], held(s)) || r.Cap != s.Cap() {
				t.Errorf("run %d keeps %v in %d bytes, alone %v in %d", run, h.kept[run], r.Cap, held(s), s.Cap())
			}
			free := generate(t, s, limit)
			if !slices.Equal(h.free[run], free) {
				t.Errorf("run %d answers %v, alone %v", run, h.free[run], free)
			}
			diverged := 0
			for diverged < limit && free[diverged] == h.IDs[diverged] {
				diverged++
			}
			for n, same := range h.same[run] {
				if same != (n < diverged) {
					t.Errorf("run %d, free token %d: %v, it strays at %d", run, n, same, diverged)
				}
			}
			if diverged == limit {
				diverged = -1
			}
			if r.Diverged != diverged {
				t.Errorf("run %d strays at %d, want %d", run, r.Diverged, diverged)
			}
		}
		for run, o := range pair {
			// A prompt's rows attend to everything before them, unless it is read token by token.
			if first := h.tokens[0].KL[run]; o.Recipe.Method != "streamingllm" && first > 1e-6 {
				t.Errorf("run %d, first token: KL %g", run, first)
			}
		}
	}
}

// The full cache does not differ from itself, nor does a recipe with room for everything; and A and B are alike but for
// their order.
func TestCompareIsConsistent(t *testing.T) {
	m := exact(t, nil)
	ids, limit := words(50, 9), 10
	run := func(a, b llama.SessionOptions) *heard {
		return compare(t, m, llama.CompareOptions{Parts: [][]int32{ids[:40], ids[40:]}, Max: limit, Runs: [2]llama.SessionOptions{a, b}})
	}
	h := run(under("full", 0), under("snapkv", len(ids)+limit))
	for i, r := range h.Runs {
		if r.MaxKL > 1e-6 || r.Agree != limit || r.Diverged != -1 {
			t.Errorf("run %d: %+v", i, r)
		}
		for l, heads := range r.Retained {
			for q, share := range heads {
				if math.Abs(share-1) > 1e-12 || len(heads) != m.Config().Heads {
					t.Errorf("run %d, layer %d, head %d: %g of the attention stays", i, l, q, share)
				}
			}
		}
	}
	if h.Runs[0].Cap != h.Full {
		t.Errorf("full takes %d and %d bytes", h.Runs[0].Cap, h.Full)
	}
	a, b := under("knorm", 12), under("h2o", 17)
	ab, ba := run(a, b), run(b, a)
	if !slices.Equal(ab.IDs, ba.IDs) || !reflect.DeepEqual(ab.kept[0], ba.kept[1]) || !slices.Equal(ab.free[0], ba.free[1]) || !slices.Equal(ab.free[1], ba.free[0]) {
		t.Error("A and B differ from B and A")
	}
	for n := range ab.tokens {
		if ab.tokens[n].KL[0] != ba.tokens[n].KL[1] || ab.tokens[n].KL[1] != ba.tokens[n].KL[0] {
			t.Errorf("token %d: %g, other way round %g", n, ab.tokens[n].KL, ba.tokens[n].KL)
		}
	}
	for i := range 2 {
		x, y := ab.Runs[i], ba.Runs[1-i]
		if x.Rate, y.Rate, x.Peak, y.Peak = 0, 0, 0, 0; !reflect.DeepEqual(x, y) {
			t.Errorf("%+v, other way round %+v", x, y)
		}
	}
	if ab.tokens[0].KL[0] == 0 { // what the first part lost, the question cannot see
		t.Error("a prompt in two parts is like one in one")
	}
}

// Retained attention is the share of the oracle's attention, and the divergence that of its logits.
func TestCompareRetained(t *testing.T) {
	needsScorer(t)
	m := teach(t)
	prompts, _ := golden.Teach(t)
	for _, p := range prompts {
		h := compare(t, m, llama.CompareOptions{
			Parts: [][]int32{p.IDs}, Max: 1, Runs: [2]llama.SessionOptions{under("snapkv", len(p.IDs)/4+1), under("window", len(p.IDs)/3+1)},
		})
		for run, r := range h.Runs {
			for l, heads := range p.Attention {
				for q, row := range heads {
					want := 0.0
					for _, at := range h.kept[run][l][q*m.Config().KVHeads/len(heads)] {
						want += row[at]
					}
					if math.Abs(r.Retained[l][q]-want) > 1e-4*float64(len(row)) || r.Retained[l][q] > 1+1e-9 {
						t.Errorf("run %d, layer %d, head %d: %g, want %g", run, l, q, r.Retained[l][q], want)
					}
				}
			}
		}
	}
}

// The divergence of runs whose logits, and those of the full cache, an oracle knows: of the two tokens after the first.
func TestCompareGoldenLogits(t *testing.T) {
	m, prompts := tiny(t), golden.Tiny(t)
	n := 0
	for _, c := range golden.Presses(t) {
		p := pressPlan(t, &c)
		if p == nil || c.Class == "DuoAttentionPress" {
			continue
		}
		for _, run := range c.Runs {
			prompt := prompts[run.Prompt]
			b, tables := pressBudget(&c, &run)
			if c.Class == "PyramidKVPress" && float64(b) != float64(run.L)*(1-run.Ratio) || run.Tokens[1] != prompt.Tokens[1] {
				continue // the second logits are of another text
			}
			o := llama.SessionOptions{F32: true, Plan: p, Tables: tables, Budget: b, Parity: true}
			h := compare(t, m, llama.CompareOptions{Parts: [][]int32{prompt.IDs}, Max: 3, Runs: [2]llama.SessionOptions{o, {F32: true}}})
			if !reflect.DeepEqual(h.kept[0], run.Kept) {
				continue // at a tie; the sets are compared elsewhere
			}
			for i, want := range [][2][]float64{{prompt.Step1, run.Step1}, {prompt.Step2, run.Step2}} {
				d := klOf(shares(want[0]), shares(want[1]))
				// Logits are known to 2e-3, and the divergence changes by less than twice as much.
				if got := h.tokens[i+1].KL; math.Abs(got[0]-d) > 4e-3 || math.Abs(got[0]-d) > 0.02*d+2e-5 || got[1] > 1e-6 {
					t.Errorf("%s, ratio %v, token %d: %g, want %g", c.Name, run.Ratio, i+1, got, d)
				}
				n++
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d logits were compared", n)
	}
}

func shares(logits []float64) []float64 {
	out, sum := make([]float64, len(logits)), 0.0
	for i, x := range logits {
		out[i] = math.Exp(x)
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// The margin is taken where the right answer and the wrong one part, whatever the model would say before.
func TestCompareMargin(t *testing.T) {
	m := exact(t, nil)
	ids := words(40, 2)
	o := llama.CompareOptions{
		Parts: [][]int32{ids}, Max: 6, Runs: [2]llama.SessionOptions{under("h2o", 10), under("window", 10)},
		Gold: []int32{7, 8, 9}, Other: []int32{7, 8, 30, 1},
	}
	plain := o
	plain.Gold, plain.Other = nil, nil
	h, want := compare(t, m, o), compare(t, m, plain)
	for i, so := range []llama.SessionOptions{{}, o.Runs[0], o.Runs[1]} {
		so.Tokens = len(ids) + o.Max
		s := session(t, m, so)
		prefill(t, s, ids)
		for _, id := range o.Gold[:2] {
			if err := s.Decode(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		p := softmax(s.Logits())
		if want := math.Log(p[9]) - math.Log(p[30]); math.Abs(h.tokens[0].Margin[i]-want) > 1e-5 {
			t.Errorf("session %d: %g, want %g", i, h.tokens[0].Margin[i], want)
		}
	}
	h.tokens[0].Margin = nil
	if !reflect.DeepEqual(h.tokens, want.tokens) || !reflect.DeepEqual(h.free, want.free) {
		t.Error("asking for the margin changes what comes after it")
	}
	for _, bad := range [][2][]int32{{{1, 2}, {1, 2}}, {{1}, {1, 2}}, {{1}, nil}, {words(9, 0), append(words(7, 0), 1)}} {
		o.Gold, o.Other = bad[0], bad[1]
		if _, err := m.Compare(ctx, o, llama.CompareEvents{}); !errors.Is(err, llama.ErrMargin) {
			t.Errorf("%v and %v: %v", bad[0], bad[1], err)
		}
	}
}

// A comparison that is refused, fails or is stopped anywhere leaves neither a byte nor a trace in the conversation beside it.
func TestCompareLeavesNothing(t *testing.T) {
	needsScorer(t)
	led := new(cache.Ledger)
	m := load(t, golden.TinyModel(t), newBackend(t, led), led)
	m.FixPace(7)
	s := session(t, m, under("h2o", 12))
	prefill(t, s, words(30, 1))
	generate(t, s, 3)
	o := llama.CompareOptions{Parts: [][]int32{words(40, 2)}, Max: 5, Runs: [2]llama.SessionOptions{under("snapkv", 10), under("tova", 12)}}
	h := compare(t, m, o) // scratch has its size now
	before, rows := stateOf(s), led.Rows()
	for i, r := range h.Runs {
		if r.Peak <= r.Cap || r.Peak > r.Cap+rows[cache.Scratch].Peak+rows[cache.Staging].Peak+rows[cache.Aux].Allocated {
			t.Errorf("run %d: a peak of %d bytes with an arena of %d", i, r.Peak, r.Cap)
		}
	}
	check := func(what string, err, want error) {
		t.Helper()
		now := led.Rows()
		for k := range now {
			if now[k].Allocated != rows[k].Allocated || now[k].Logical != rows[k].Logical {
				t.Errorf("%s: kind %d has %+v, had %+v", what, k, now[k], rows[k])
			}
		}
		if !errors.Is(err, want) || !stateOf(s).equal(before) {
			t.Errorf("%s: %v, %+v", what, err, stateOf(s))
		}
	}
	check("to the end", nil, nil)
	asked := &countdown{ctx, 1 << 30}
	if _, err := m.Compare(asked, o, llama.CompareEvents{}); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 1<<30-asked.left; n += 37 {
		_, err := m.Compare(&countdown{ctx, n}, o, llama.CompareEvents{})
		check(fmt.Sprint("stopped after ", n), err, context.Canceled)
	}
	fail := errors.New("the page is gone")
	_, err := m.Compare(ctx, o, llama.CompareEvents{Forced: func(llama.Compared) error { return fail }})
	check("emit fails", err, fail)
	_, err = m.Compare(ctx, o, llama.CompareEvents{Free: func(int, llama.Token, bool) error { return fail }})
	check("emit fails later", err, fail)

	bad := func(what string, want error, change func(o *llama.CompareOptions)) {
		t.Helper()
		b := o
		change(&b)
		_, err := m.Compare(ctx, b, llama.CompareEvents{})
		check(what, err, want)
	}
	bad("no prompt", llama.ErrEmpty, func(o *llama.CompareOptions) { o.Parts = nil })
	bad("an empty part", llama.ErrEmpty, func(o *llama.CompareOptions) { o.Parts = [][]int32{{1}, {}} })
	bad("no answer", llama.ErrEmpty, func(o *llama.CompareOptions) { o.Max = 0 })
	bad("a strange token", llama.ErrToken, func(o *llama.CompareOptions) { o.Parts = [][]int32{{1, 64}} })
	bad("a strange answer", llama.ErrToken, func(o *llama.CompareOptions) { o.Gold, o.Other = []int32{1}, []int32{-2} })
	bad("B is too small", llama.ErrSmall, func(o *llama.CompareOptions) { o.Runs[1] = llama.SessionOptions{Recipe: o.Runs[1].Recipe, Cap: 16} })
	var full *cache.FullError
	b := o
	b.Runs[1] = llama.SessionOptions{Share: 0.5}
	if _, err = m.Compare(ctx, b, llama.CompareEvents{}); !errors.As(err, &full) {
		t.Errorf("half of a full cache: %v", err)
	}
	check("half of a full cache", err, err)
}

// Where a run's cap is reached in the middle of the answer, the comparison ends there, and so do the free answers.
func TestCompareUntilFull(t *testing.T) {
	m := exact(t, nil)
	ids := words(40, 2)
	room := session(t, m, llama.SessionOptions{Tokens: len(ids) + 3}).Cap()
	h := compare(t, m, llama.CompareOptions{
		Parts: [][]int32{ids}, Max: 30, Runs: [2]llama.SessionOptions{{Cap: room}, under("h2o", 9)},
	})
	fits := session(t, m, llama.SessionOptions{Cap: room, Tokens: 70}).Room() - len(ids)
	if h.Reason != llama.ReasonFull || len(h.IDs) != fits+1 || len(h.free[0]) != fits+1 || len(h.free[1]) != fits+1 || h.Runs[0].Diverged != -1 {
		t.Errorf("reason %d, %d tokens of %d; free %d and %d, A strays at %d", h.Reason, len(h.IDs), fits+1, len(h.free[0]), len(h.free[1]), h.Runs[0].Diverged)
	}
	// A stop id ends all three.
	stop := h.IDs[2]
	h = compare(t, m, llama.CompareOptions{
		Parts: [][]int32{ids}, Max: 30, Runs: [2]llama.SessionOptions{{}, {}}, Stop: func(id int32) bool { return id == stop },
	})
	if n := slices.Index(h.IDs, stop) + 1; h.Reason != llama.ReasonStopID || len(h.IDs) != n || !slices.Equal(h.free[0], h.IDs) || h.Runs[1].Diverged != -1 {
		t.Errorf("reason %d, %v, free %v", h.Reason, h.IDs, h.free)
	}
}

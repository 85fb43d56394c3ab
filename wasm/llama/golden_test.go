package llama_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/llama"
	"kvlens/wasm/sample"
	"kvlens/wasm/step"
	"kvlens/wasm/weights"
	"kvlens/web/lab/golden"
)

// Where README.md of the vectors gives no tighter bound: |got−want| ≤ abs + 1e-4·|want|.
const (
	logitAbs = 2e-3
	rel      = 1e-4
	// clearMargin: above it greedy tokens must be equal in f32.
	clearMargin = 1e-3
)

var ctx = context.Background()

// shared loads a model once for all tests that only run it.
func shared(t testing.TB, path string) *llama.Model {
	t.Helper()
	loaded.Lock()
	defer loaded.Unlock()
	if m := loaded.models[path]; m != nil {
		return m
	}
	led := new(cache.Ledger)
	m := open(t, path, newBackend(t, led), led)
	loaded.models[path] = m
	return m
}

var loaded = struct {
	sync.Mutex
	models map[string]*llama.Model
}{models: map[string]*llama.Model{}}

func open(t testing.TB, path string, b step.Backend, led *cache.Ledger) *llama.Model {
	t.Helper()
	f, err := weights.OpenPath(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := llama.Load(ctx, f, b, llama.Options{Ledger: led})
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return m
}

func tiny(t testing.TB) *llama.Model    { return shared(t, golden.TinyModel(t)) }
func teach(t testing.TB) *llama.Model   { return shared(t, golden.TeachModel(t)) }
func smolLM2(t testing.TB) *llama.Model { return shared(t, golden.SmolLM2(t)) }

func session(t testing.TB, m *llama.Model, o llama.SessionOptions) *llama.Session {
	t.Helper()
	s, err := m.NewSession(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func prefill(t testing.TB, s *llama.Session, ids []int32) {
	t.Helper()
	if err := s.Prefill(ctx, ids, nil); err != nil {
		t.Fatal(err)
	}
}

// greedy generates up to n tokens, the stop id included.
func greedy(t testing.TB, s *llama.Session, n int, stop int32) []int32 {
	t.Helper()
	var ids []int32
	o := llama.GenerateOptions{Max: n, Sampler: sample.New(sample.Params{}), Stop: func(id int32) bool { return id == stop }}
	_, err := s.Generate(ctx, o, func(tok llama.Token) error {
		ids = append(ids, tok.ID)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// promptRun is what our model makes of a prompt of model.json.
type promptRun struct {
	logits []float32
	hidden [][]float32 // of the last position: after the embedding, each block and the final norm
	greedy []int32
}

var modelRuns = sync.OnceValue(func() map[string]*promptRun { return map[string]*promptRun{} })

// runPrompt computes a prompt once for the tests that look at it.
func runPrompt(t testing.TB, m *llama.Model, p *golden.Prompt, eos int32) *promptRun {
	t.Helper()
	if r := modelRuns()[p.Name]; r != nil {
		return r
	}
	s := session(t, m, llama.SessionOptions{F32: true})
	r := &promptRun{}
	last := len(p.IDs) - 1
	err := s.PrefillProbe(ctx, p.IDs, func(at *llama.At) error {
		from := step.X
		switch op := at.Op.(type) {
		case step.Embed:
		case step.Project:
			if op.In != step.F {
				return nil
			}
		case step.Norm:
			from = step.N
		default:
			return nil
		}
		if at.To <= last {
			return nil
		}
		row, err := at.Row(from, last)
		r.hidden = append(r.hidden, row)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r.logits = append(r.logits, s.Logits()...)
	r.greedy = greedy(t, s, len(p.Greedy.IDs), eos)
	modelRuns()[p.Name] = r
	return r
}

func TestGoldenModelLogits(t *testing.T) {
	m := smolLM2(t)
	count := golden.Count(t)
	g := golden.SmolLM2Model(t)
	for _, p := range shortOf(g.Prompts) {
		got := runPrompt(t, m, &p, g.EOS).logits
		pick, want := atGolden(got, g, &p)
		golden.Close(t, p.Name, pick, want, logitAbs, rel)
		var sum, sumExp float64
		for _, x := range got {
			sum += float64(x)
			sumExp += math.Exp(float64(x))
		}
		all := []float64{sum / float64(len(got)), math.Log(sumExp)}
		golden.Close(t, p.Name+" mean, logsumexp", all, []float64{p.Logits.Mean, p.Logits.LogSumExp}, logitAbs, rel)
		count.Case(1)
	}
}

// shortOf is the prompts that are tried: on a software GPU, which takes a second for each token, two with a short answer.
func shortOf(prompts []golden.Prompt) []golden.Prompt {
	most := longest
	if onGPU {
		most = min(most, 30)
	}
	short := slices.DeleteFunc(slices.Clone(prompts), func(p golden.Prompt) bool { return len(p.IDs) > most })
	if onGPU {
		for i := range short {
			g := &short[i].Greedy
			g.IDs, g.Margin = g.IDs[:min(8, len(g.IDs))], g.Margin[:min(8, len(g.Margin))]
		}
	}
	return short
}

// atGolden picks the logits that the vectors have: the 32 largest and 64 others.
func atGolden(logits []float32, g *golden.Model, p *golden.Prompt) (got []float32, want []float64) {
	for _, x := range p.Logits.Top32 {
		got, want = append(got, logits[x.ID]), append(want, x.Logit)
	}
	for i, id := range g.At64 {
		got, want = append(got, logits[id]), append(want, p.Logits.At64[i])
	}
	return got, want
}

func TestGoldenHidden(t *testing.T) {
	m := smolLM2(t)
	count := golden.Count(t)
	g := golden.SmolLM2Model(t)
	for _, p := range shortOf(g.Prompts) {
		hidden := runPrompt(t, m, &p, g.EOS).hidden
		if len(hidden) != len(p.Hidden) {
			t.Fatalf("%s: %d states, want %d", p.Name, len(hidden), len(p.Hidden))
		}
		for i, want := range p.Hidden {
			what := p.Name + " after " + want.After
			golden.Close(t, what, []float64{rms(hidden[i])}, []float64{want.RMS}, 0, 1e-4)
			golden.Close(t, what, hidden[i][:8], want.First8, 2e-3, rel)
			count.Case(1)
		}
	}
}

func TestGoldenGreedy(t *testing.T) {
	m := smolLM2(t)
	count := golden.Count(t)
	g := golden.SmolLM2Model(t)
	for _, p := range shortOf(g.Prompts) {
		got := runPrompt(t, m, &p, g.EOS).greedy
		golden.Greedy(t, count, p.Name, got, p.Greedy.IDs, p.Greedy.Margin, clearMargin)
	}
}

func TestGoldenNLL(t *testing.T) {
	tooSlowForSoftware(t)
	m := smolLM2(t)
	count := golden.Count(t)
	g := golden.SmolLM2NLL(t)
	s := session(t, m, llama.SessionOptions{F32: true})
	var nll []float64
	var mean float64
	err := s.Score(ctx, g.IDs, func(i int, logits []float32) error {
		if i+1 < len(g.IDs) {
			nll = append(nll, -logProb(logits, g.IDs[i+1]))
			mean += nll[i] / float64(len(g.IDs)-1)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	golden.Close(t, "nll", nll, g.NLL, 2e-3, rel)
	golden.Close(t, "mean", []float64{mean}, []float64{g.Mean}, 1e-4, 0)
	count.Case(len(nll))
}

func TestGoldenTiny(t *testing.T) {
	m := tiny(t)
	count := golden.Count(t)
	for _, g := range golden.Tiny(t) {
		s := session(t, m, llama.SessionOptions{F32: true, Tokens: len(g.IDs) + len(g.Tokens)})
		prefill(t, s, g.IDs)
		golden.Close(t, "prefill", s.Logits(), g.Prefill, logitAbs, rel)
		for i, want := range [][]float64{g.Step1, g.Step2} {
			if err := s.Decode(ctx, g.Tokens[i]); err != nil {
				t.Fatal(err)
			}
			golden.Close(t, "step", s.Logits(), want, logitAbs, rel)
			count.Case(1)
		}
		s.Reset()
		prefill(t, s, g.IDs)
		got := greedy(t, s, len(g.Tokens), -1)
		golden.Greedy(t, count, "tokens", got, g.Tokens, g.Margin, clearMargin)
	}
}

func TestGoldenTeach(t *testing.T) {
	m := teach(t)
	count := golden.Count(t)
	prompts, hash := golden.Teach(t)
	if raw, err := os.ReadFile(golden.TeachModel(t)); err != nil || fmt.Sprintf("%x", sha256.Sum256(raw)) != hash {
		t.Fatalf("the vectors are of another model file (%v)", err)
	}
	count.Case(1)
	cfg := m.Config()
	for _, p := range prompts {
		s := session(t, m, llama.SessionOptions{F32: true})
		last := len(p.IDs) - 1
		hidden := make([]float64, 0, cfg.Layers+1)
		err := s.PrefillProbe(ctx, p.IDs, func(at *llama.At) error {
			from := step.X
			switch op := at.Op.(type) {
			case step.Embed:
			case step.Store:
				if at.To <= last {
					return nil
				}
				rows, err := at.Attention(last)
				if err != nil {
					return err
				}
				for h, want := range p.Attention[at.Layer] {
					golden.Close(t, p.Name+" attention", rows[h], want, 1e-4, rel)
				}
				count.Case(1)
				return nil
			case step.Norm:
				from = step.N
			case step.Project:
				if op.In != step.F || at.Layer == cfg.Layers-1 {
					return nil // the reference's last state is after the final norm
				}
			default:
				return nil
			}
			if at.To <= last {
				return nil
			}
			row, err := at.Row(from, last)
			hidden = append(hidden, rms(row))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		golden.Close(t, p.Name+" hidden rms", hidden, p.HiddenRMS, 0, 1e-4)
		golden.Close(t, p.Name+" logits", s.Logits(), p.Logits, logitAbs, rel)
		count.Case(2)
		golden.Greedy(t, count, p.Name, greedy(t, s, len(p.Greedy), -1), p.Greedy, p.Margin, clearMargin)
	}
}

func rms(x []float32) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum / float64(len(x)))
}

// logProb is the natural logarithm of the softmax at id.
func logProb(logits []float32, id int32) float64 {
	most := math.Inf(-1)
	for _, x := range logits {
		most = max(most, float64(x))
	}
	var sum float64
	for _, x := range logits {
		sum += math.Exp(float64(x) - most)
	}
	return float64(logits[id]) - most - math.Log(sum)
}

package llama_test

import (
	"math"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/cpu"
	"kvlens/wasm/gpu"
	"kvlens/wasm/kernel"
	"kvlens/wasm/llama"
	"kvlens/web/lab/golden"
)

// The bounds of the CPU path with integer activations, against f32.
const (
	mostKL   = 0.02 // nats
	topClear = 1.0  // above this margin the best token must be the same
)

// divergence compares the logits of one position: KL(want‖got), the largest difference of two logits after the mean
// difference is taken off (a softmax does not see it), and whether the best token is the same or the margin is small.
func divergence(got, want []float64) (kl, most float64, top bool) {
	p, q := logSoftmax(want), logSoftmax(got)
	var mean float64
	for i := range want {
		kl += math.Exp(p[i]) * (p[i] - q[i])
		mean += (got[i] - want[i]) / float64(len(want))
	}
	best, bestGot, second := 0, 0, math.Inf(-1)
	for i, v := range want {
		most = max(most, math.Abs(got[i]-v-mean))
		if v > want[best] {
			best = i
		}
		if got[i] > got[bestGot] {
			bestGot = i
		}
	}
	for i, v := range want {
		if i != best {
			second = max(second, v)
		}
	}
	return kl, most, best == bestGot || want[best]-second <= topClear
}

func logSoftmax(x []float64) []float64 {
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = max(top, v)
	}
	for _, v := range x {
		sum += math.Exp(v - top)
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v - top - math.Log(sum)
	}
	return out
}

func wide(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// tally collects what the positions of a test show.
type tally struct {
	t        *testing.T
	count    *golden.Counter
	kl, most float64
}

func (a *tally) add(what string, got, want []float64) {
	a.t.Helper()
	kl, most, top := divergence(got, want)
	a.kl, a.most = max(a.kl, kl), max(a.most, most)
	if !(kl <= mostKL) || !top {
		a.t.Errorf("%s: KL %.5f, max |Δlogit| %.3f, same best or a small margin: %v", what, kl, most, top)
	}
	a.count.Case(1)
}

func (a *tally) report() { a.t.Logf("largest KL %.2g, largest |Δlogit| %.2g", a.kl, a.most) }

// The built-in model against the oracle's logits.
func TestGoldenIntegerTeach(t *testing.T) {
	m := loadCPU(t, golden.TeachModel(t), cpu.Options{})
	a := tally{t: t, count: golden.Count(t)}
	prompts, _ := golden.Teach(t)
	for _, p := range prompts {
		s := session(t, m, llama.SessionOptions{})
		prefill(t, s, p.IDs)
		a.add(p.Name, wide(s.Logits()), p.Logits)
	}
	a.report()
}

// SmolLM2 against the same backend with float activations, which the tests of model.json hold to the oracle: the prompt's
// last position and every step of the oracle's own continuation.
func TestGoldenIntegerSmolLM2(t *testing.T) {
	path := golden.SmolLM2(t)
	exact, m := smolLM2(t), loadCPU(t, path, cpu.Options{})
	a := tally{t: t, count: golden.Count(t)}
	for _, p := range golden.SmolLM2Model(t).Prompts {
		if len(p.IDs) > longest {
			continue
		}
		want, got := session(t, exact, llama.SessionOptions{F32: true}), session(t, m, llama.SessionOptions{})
		prefill(t, want, p.IDs)
		prefill(t, got, p.IDs)
		a.add(p.Name, wide(got.Logits()), wide(want.Logits()))
		for _, id := range p.Greedy.IDs[:min(16, len(p.Greedy.IDs))] {
			if err := want.Decode(ctx, id); err != nil {
				t.Fatal(err)
			}
			if err := got.Decode(ctx, id); err != nil {
				t.Fatal(err)
			}
			a.add(p.Name+" continued", wide(got.Logits()), wide(want.Logits()))
		}
	}
	a.report()
}

// The built-in model on WebGPU with activations in 8 bits, against the oracle's logits.
func TestGoldenIntegerTeachGPU(t *testing.T) {
	if !onGPU {
		t.Skip("needs WebGPU: set KVLENS_GPU=1")
	}
	dev, err := gpu.Open(ctx, gpu.Options{Fallback: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dev.Close)
	lib := kernel.NewLibrary(dev)
	lib.AskInteger()
	if !lib.Integer {
		t.Fatal(lib.Refused)
	}
	led := new(cache.Ledger)
	m := open(t, golden.TeachModel(t), lib.Backend(led), led)
	t.Cleanup(m.Close)
	a := tally{t: t, count: golden.Count(t)}
	prompts, _ := golden.Teach(t)
	for _, p := range prompts {
		s := session(t, m, llama.SessionOptions{})
		prefill(t, s, p.IDs)
		a.add(p.Name, wide(s.Logits()), p.Logits)
	}
	a.report()
}

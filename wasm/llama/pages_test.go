package llama_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"kvlens/wasm/llama"
	"kvlens/web/lab/golden"
)

// kl is the Kullback-Leibler divergence KL(p ‖ q) of two rows of logits, in nats.
func kl(p, q []float32) float64 {
	norm := func(x []float32) (most, sum float64) {
		most = math.Inf(-1)
		for _, v := range x {
			most = max(most, float64(v))
		}
		for _, v := range x {
			sum += math.Exp(float64(v) - most)
		}
		return most, math.Log(sum)
	}
	pMost, pLog := norm(p)
	qMost, qLog := norm(q)
	var out float64
	for i := range p {
		lp, lq := float64(p[i])-pMost-pLog, float64(q[i])-qMost-qLog
		out += math.Exp(lp) * (lp - lq)
	}
	return out
}

// Keys and values in half floats change next to nothing: after a prompt of two turns, and on average over the steps of a
// known answer, KL stays below 1e-5.
func TestHalfFloatPages(t *testing.T) {
	prompts, _ := golden.Teach(t)
	for _, p := range prompts {
		comparePages(t, p.Name, teach(t), p.IDs, p.Greedy)
	}
	t.Run("smollm2", func(t *testing.T) {
		tooSlowForSoftware(t)
		m := smolLM2(t)
		g := golden.SmolLM2Model(t)
		for _, p := range g.Prompts {
			if len(p.IDs) > 100 {
				continue // minutes on a small machine
			}
			got := comparePages(t, p.Name, m, p.IDs, p.Greedy.IDs[:min(16, len(p.Greedy.IDs))])
			pick, want := atGolden(got, g, &p)
			golden.Close(t, p.Name, pick, want, 2e-2, rel)
		}
	})
}

// comparePages returns the logits after the prompt, with half-float pages.
func comparePages(t *testing.T, name string, m *llama.Model, prompt, answer []int32) []float32 {
	t.Helper()
	half := session(t, m, llama.SessionOptions{})
	full := session(t, m, llama.SessionOptions{F32: true})
	for _, ids := range [][]int32{prompt[:len(prompt)/2], prompt[len(prompt)/2:]} {
		prefill(t, half, ids)
		prefill(t, full, ids)
	}
	logits := slices.Clone(half.Logits())
	first := kl(full.Logits(), logits)
	var mean float64
	for _, id := range answer {
		for _, s := range []*llama.Session{half, full} {
			if err := s.Decode(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		mean += kl(full.Logits(), half.Logits()) / float64(len(answer))
	}
	fmt.Printf("%s: f16 against f32 pages: KL %.2g after the prompt, %.2g in the mean of %d steps\n", name, first, mean, len(answer))
	if !(first < 1e-5) || !(mean < 1e-5) {
		t.Errorf("%s: KL %.3g after the prompt, %.3g in the mean of the answer", name, first, mean)
	}
	return logits
}

package llama_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/web/lab/golden"
)

// pressPlan is a class of kvpress as a plan of ours, which acts once after the prompt; nil for those that we have not.
func pressPlan(t *testing.T, c *golden.Press) *policy.Plan {
	t.Helper()
	snap := map[string]float64{"window": float64(c.Params.Window), "kernel": float64(c.Params.Kernel), "after": 0, "pool": float64(policy.PoolAvg)}
	ada := policy.Wrap{Name: "adakv", Knobs: map[string]float64{"alpha": c.Params.Alpha, "rounding": 2}}
	critical := policy.Wrap{Name: "criticalkv", Knobs: map[string]float64{"epsilon": c.Params.Epsilon, "first": c.Params.First}}
	r := policy.Recipe{Method: "snapkv", Knobs: snap}
	switch c.Class {
	case "SnapKVPress", "KeyRerotationPress(SnapKVPress)":
	case "PyramidKVPress":
		snap["beta"], snap["rounding"] = float64(c.Params.Beta), 2
		r.Method = "pyramidkv"
	case "AdaKVPress(SnapKVPress)":
		r.Wraps = []policy.Wrap{ada}
	case "AdaKVPress(KnormPress)":
		r = policy.Recipe{Method: "knorm", Wraps: []policy.Wrap{ada}}
	case "CriticalKVPress(SnapKVPress)":
		r.Wraps = []policy.Wrap{critical}
	case "CriticalAdaKVPress(SnapKVPress)":
		r.Wraps = []policy.Wrap{ada, critical}
	case "ChunkKVPress(SnapKVPress)":
		r.Wraps = []policy.Wrap{{Name: "chunkkv", Knobs: map[string]float64{"chunk": float64(c.Params.Chunk)}}}
	case "TOVAPress":
		r = policy.Recipe{Method: "tova"}
	case "ObservedAttentionPress":
		r = policy.Recipe{Method: "observed"}
	case "KnormPress":
		r = policy.Recipe{Method: "knorm"}
	case "KeyDiffPress":
		r = policy.Recipe{Method: "keydiff"}
	case "ExpectedAttentionPress":
		flags := map[bool]float64{true: 1}
		r = policy.Recipe{Method: "expected", Knobs: map[string]float64{
			"future": float64(c.Params.Future), "sinks": float64(c.Params.Sinks), "covariance": flags[c.Params.Covariance],
			"values": flags[c.Params.ValueNorm], "epsilon": c.Params.Epsilon,
		}}
	case "StreamingLLMPress", "KeyRerotationPress(StreamingLLMPress)":
		r = policy.Recipe{Method: "streamingllm", Knobs: map[string]float64{"sinks": float64(c.Params.Sinks), "rank": 0}}
	case "DuoAttentionPress":
		r = policy.Recipe{Method: "duo", Knobs: map[string]float64{
			"sinks": float64(c.Params.SinkSize), "local": float64(c.Params.Recent), "retrieval": 2.0 / 6,
		}}
	case "ThinKPress", "LagKVPress", "CURPress", "MergingPress(SnapKVPress)":
		return nil
	default:
		t.Fatalf("%s: no recipe of ours is compared", c.Class)
	}
	p := plan(t, named{c.Name, r})
	p.Score.Mean = p.Score.Kind == policy.ScoreWindow
	p.Store.Rank = strings.HasPrefix(c.Class, "KeyRerotation")
	p.Decode = policy.Decode{Kind: policy.DecodeCap, Decay: 0.9} // which in parity mode lets answers grow
	return p
}

// pressBudget is kvpress' number of tokens for a run, and the tables that a class needs.
func pressBudget(c *golden.Press, r *golden.PressRun) (int, *policy.Tables) {
	if c.Params.Streaming == nil {
		if equal(r.Budget) {
			return r.Budget[0][0], nil
		}
		return max(1, int(float64(r.L)*(1-r.Ratio))), nil
	}
	// Retrieval heads hold everything, the others their window; in parity no budget matters to them.
	tables := &policy.Tables{}
	for _, heads := range c.Params.Streaming {
		var row []float32
		for _, streams := range heads {
			for range golden.TinyHeads / golden.TinyKVHeads {
				row = append(row, map[bool]float32{false: 1}[streams])
			}
		}
		tables.Retrieval = append(tables.Retrieval, row)
	}
	return 1, tables
}

func equal(budgets [][]int) bool {
	return !slices.ContainsFunc(slices.Concat(budgets...), func(n int) bool { return n != budgets[0][0] })
}

// The compressed cache of every method that kvpress has too, its logits and its tokens.
func TestGoldenKVPressRuns(t *testing.T) {
	count := golden.Count(t)
	m, prompts := tiny(t), golden.Tiny(t)
	for _, c := range golden.Presses(t) {
		p := pressPlan(t, &c)
		if p == nil {
			continue // the claims have the reason
		}
		for _, run := range c.Runs {
			what := fmt.Sprintf("%s, prompt %d, ratio %v", c.Name, run.Prompt, run.Ratio)
			prompt := prompts[run.Prompt]
			b, tables := pressBudget(&c, &run)
			s := session(t, m, llama.SessionOptions{
				F32: true, Plan: p, Tables: tables, Budget: b, Parity: true, Tokens: run.L + len(run.Tokens),
			})
			prefill(t, s, prompt.IDs)
			golden.Close(t, what+": first", s.Logits(), prompt.Prefill, logitAbs, rel)
			if c.Class == "PyramidKVPress" && float64(b) != float64(run.L)*(1-run.Ratio) {
				count.Tie(1) // there budgets come from a number of tokens that is not whole
				continue
			}
			if !compareKept(t, count, what, held(s), &run) {
				continue
			}
			ids := run.Tokens
			for i, want := range [][]float64{run.Step1, run.Step2} {
				if c.Class == "DuoAttentionPress" && i > 0 {
					break // heads that stream go on to drop tokens, as published; kvpress stops
				}
				if err := s.Decode(ctx, ids[i]); err != nil {
					t.Fatal(what, err)
				}
				golden.Close(t, fmt.Sprint(what, ": step ", i+1), s.Logits(), want, logitAbs, rel)
			}
			if c.Class == "DuoAttentionPress" {
				continue
			}
			s.Reset()
			prefill(t, s, prompt.IDs)
			golden.Greedy(t, count, what, generate(t, s, len(ids)), ids, run.Margin, clearMargin)
		}
	}
}

// compareKept compares kept sets: exactly where the cut is clear, their sizes elsewhere. It says whether they are equal,
// so that what follows can be compared.
func compareKept(t *testing.T, count *golden.Counter, what string, got [][][]int32, run *golden.PressRun) bool {
	t.Helper()
	equal := true
	for l := range got {
		for h := range got[l] {
			count.Case(1)
			same := slices.Equal(got[l][h], run.Kept[l][h])
			equal = equal && same
			switch clear := run.Clear == nil || run.Clear[l][h]; {
			case clear && !same:
				t.Errorf("%s: layer %d, KV head %d: kept %v, want %v", what, l, h, got[l][h], run.Kept[l][h])
			case !clear:
				count.Tie(1)
				if len(got[l][h]) != len(run.Kept[l][h]) {
					t.Errorf("%s: layer %d, KV head %d: kept %d, want %d", what, l, h, len(got[l][h]), len(run.Kept[l][h]))
				}
			}
		}
	}
	return equal
}

// CAKE from the prompt through the answer. What the original does with slots in the order of scores is compared as far as
// that order does not matter: until the second token of the answer.
func TestGoldenCakeRuns(t *testing.T) {
	count := golden.Count(t)
	m, prompts := tiny(t), golden.Tiny(t)
	_, runs := golden.Cake(t)
	for i, run := range runs {
		what := fmt.Sprintf("run %d (B %d, w %d, prompt %d)", i, run.B, run.W, run.Prompt)
		s := session(t, m, llama.SessionOptions{
			F32: true, Budget: run.B, Parity: true, Tokens: run.L + len(run.Tokens),
			Recipe: policy.Recipe{Method: "cake", Knobs: map[string]float64{
				"window": float64(run.W), "tau1": run.Tau1, "tau2": run.Tau2, "gamma": run.Gamma,
			}},
		})
		prefill(t, s, prompts[run.Prompt].IDs)
		golden.Close(t, what+": first", s.Logits(), prompts[run.Prompt].Prefill, logitAbs, rel)
		compareStage(t, count, what+": prefill", held(s), run.Kept["prefill"])
		sorted := run.Slots == "position-sorted"
		for step, id := range run.Tokens {
			if err := s.Decode(ctx, id); err != nil {
				t.Fatal(what, err)
			}
			if step == 0 {
				golden.Close(t, what+": step 1", s.Logits(), run.Step1, logitAbs, rel)
			}
			if !sorted {
				break
			}
			if step == 1 {
				golden.Close(t, what+": step 2", s.Logits(), run.Step2, logitAbs, rel)
			}
			if want, ok := run.Kept[fmt.Sprint("decode", step+1)]; ok {
				compareStage(t, count, fmt.Sprint(what, ": decode ", step+1), held(s), want)
			}
		}
		if sorted {
			s.Reset()
			prefill(t, s, prompts[run.Prompt].IDs)
			golden.Greedy(t, count, what, generate(t, s, len(run.Tokens)), run.Tokens, run.Margin, clearMargin)
		}
	}
}

func compareStage(t *testing.T, count *golden.Counter, what string, got, want [][][]int32) {
	t.Helper()
	for l := range got {
		for h := range got[l] {
			count.Case(1)
			if want := slices.Sorted(slices.Values(want[l][h])); !slices.Equal(got[l][h], want) {
				t.Errorf("%s: layer %d, KV head %d: kept %v, want %v", what, l, h, got[l][h], want)
			}
		}
	}
}

// StreamingLLM, as its own code streams; and the whole prompt at once gives the same.
func TestGoldenStreamingRuns(t *testing.T) {
	count := golden.Count(t)
	m := tiny(t)
	runs, ids := golden.Streams(t)
	for _, run := range runs {
		what := fmt.Sprintf("%d sinks, %d recent", run.S, run.R)
		s := session(t, m, llama.SessionOptions{
			F32: true, Budget: run.S + run.R,
			Recipe: policy.Recipe{Method: "streamingllm", Knobs: map[string]float64{"sinks": float64(run.S)}},
		})
		var nll float64
		for i := run.Prefill - 1; i < len(ids); i++ {
			if i < run.Prefill {
				prefill(t, s, ids[:run.Prefill])
			} else if err := s.Decode(ctx, ids[i]); err != nil {
				t.Fatal(what, err)
			}
			if i+1 < len(ids) {
				nll -= logProb(s.Logits(), ids[i+1]) / float64(len(ids)-run.Prefill)
			}
			for _, c := range run.Checkpoints {
				if c.T != i {
					continue
				}
				count.Case(1)
				golden.Close(t, fmt.Sprint(what, ": logits after ", i), s.Logits(), c.Logits, logitAbs, rel)
				for l, heads := range held(s) {
					for h, kept := range heads {
						if !slices.Equal(kept, c.Stored) {
							t.Errorf("%s: after %d: layer %d, KV head %d: %v, want %v", what, i, l, h, kept, c.Stored)
						}
					}
				}
			}
		}
		golden.Close(t, what+": mean NLL", []float64{nll}, []float64{run.NLL}, 1e-3, 0)
		last := slices.Clone(s.Logits())
		golden.Greedy(t, count, what, generate(t, s, len(run.Greedy)), run.Greedy, run.Margin, clearMargin)
		s.Reset()
		prefill(t, s, ids)
		golden.Close(t, what+": the prompt at once", s.Logits(), last, 1e-3, rel)
	}
}

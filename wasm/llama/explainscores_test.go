package llama_test

import (
	"math"
	"slices"
	"testing"

	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/step"
)

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

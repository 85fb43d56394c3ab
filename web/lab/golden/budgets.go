package golden

import "testing"

// Budgets are what the originals' budget functions returned. Exact.
type Budgets struct {
	ErrorAware []struct {
		E       []float64 // by layer, sums to 1
		B       int       // floor 32, ceiling 3·B
		Budgets []int
	} `json:"error_aware"`
	Cake []struct {
		P       []float64 // preferences by layer
		T, Cap  int
		Cascade []struct {
			M       int // after so many layers
			Budgets []int
		}
	} `json:"cake_adjust_budgets"`
	Pyramid []struct {
		B      int
		W      int
		Beta   int
		Layers int `json:"nL"`
		L      int
		Stored []int // by layer, window included
	} `json:"pyramid_layers"`
	Adaptive []struct {
		Scores    [][]float32 // [heads][tokens]
		B         int         // tokens of a head on average, window left out
		Alpha     float64
		Normalize bool
		Caps      []int
	} `json:"adakv_head_budgets"`
	Importance []struct {
		Importance []float64 // layer after layer
		Layers     int
		B          int
		Beta, Temp float64
		Caps       [][]int // [layers][heads]
	} `json:"headkv_capacity"`
}

// Alloc reads original_alloc.json.
func Alloc(t testing.TB) *Budgets {
	t.Helper()
	return load(t, "original_alloc.json", func(b *Budgets) int { return len(b.ErrorAware) })
}

// HeavyHitters is a run of H2O on [PolicyInputs], K and V expanded to query heads: P tokens of prompt, then one by one.
type HeavyHitters struct {
	Layer  int
	HH     int
	Recent int
	P      int
	Steps  []HeavyStep
}

// HeavyStep is what a step of H2O left: 1e-4.
type HeavyStep struct {
	T    int         // the token that came last
	Kept [][]int32   // [n_heads]
	Acc  [][]float32 // [n_heads]: accumulated attention of what was kept
}

// FixedLogits is H2O with logits that depend on the key only, for one head.
type FixedLogits struct {
	Logits []float32 `json:"logits_by_token"`
	HH     int
	Recent int
	Steps  []struct {
		T    int
		Kept []int32
		Acc  []float32
	}
}

// H2O reads original_h2o.json.
func H2O(t testing.TB) ([]HeavyHitters, *FixedLogits) {
	t.Helper()
	type file struct {
		Runs  []HeavyHitters
		Fixed FixedLogits `json:"fixed_logit_golden"`
	}
	f := load(t, "original_h2o.json", func(f *file) int { return len(f.Runs) })
	return f.Runs, &f.Fixed
}

// SinkCache is StreamingLLM's cache with S sinks and R recent tokens.
type SinkCache struct {
	PerStep []struct {
		S, R  int
		Steps []struct {
			T       int
			Attends []int32 // the tokens that step T sees
			Stored  []int32 // and that stay after it
		}
	} `json:"per_step"`
	// Space is what of N tokens stays to make room for Coming more. Where Coming > R the original's slice is inverted.
	Space []struct {
		S, R, N int
		Coming  int `json:"num_coming"`
		Stored  []int32
	} `json:"evict_for_space"`
}

// StreamingLLM reads original_streamingllm.json.
func StreamingLLM(t testing.TB) *SinkCache {
	t.Helper()
	return load(t, "original_streamingllm.json", func(s *SinkCache) int { return len(s.PerStep) })
}

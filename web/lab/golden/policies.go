package golden

import (
	"encoding/json"
	"testing"
)

// Shape of the tiny model, which all policy vectors are of.
const (
	TinyLayers  = 3
	TinyHeads   = 6
	TinyKVHeads = 2
	TinyHeadDim = 16
)

// TinyLayer is one layer of the tiny model for prompt 0: keys and queries after RoPE in half-split order.
type TinyLayer struct {
	Q [][][]float32 // [n_heads][tokens][head_dim]
	K [][][]float32 // [n_kv_heads][tokens][head_dim]
	V [][][]float32
	// OutL1 is the mean over the group of ‖W_o·v‖₁, [n_kv_heads][tokens].
	OutL1 [][]float32 `json:"wo_v_l1"`
}

// PolicyInputs reads kvpress_inputs.json.
func PolicyInputs(t testing.TB) []TinyLayer {
	t.Helper()
	type file struct{ Layers []TinyLayer }
	return load(t, "kvpress_inputs.json", func(f *file) int { return len(f.Layers) }).Layers
}

// Press is one of kvpress' methods with its parameters.
type Press struct {
	Name, Class string
	Params      struct {
		Window     int     `json:"window_size"`
		Kernel     int     `json:"kernel_size"`
		Beta       int     // pyramid
		Sinks      int     `json:"n_sink"`
		Alpha      float64 `json:"alpha_safeguard"`
		Future     int     `json:"n_future_positions"`
		Covariance bool    `json:"use_covariance"`
		ValueNorm  bool    `json:"use_vnorm"`
		Epsilon    float64
		First      float64  `json:"first_stage_ratio"`
		Chunk      int      `json:"chunk_length"`
		SinkSize   int      `json:"sink_size"` // duo
		Recent     int      `json:"recent_size"`
		Streaming  [][]bool `json:"streaming_mask[layer][kv head]"`
	}
	Scores [][][]float32 `json:"scores_prompt0"` // [layer][n_kv_heads][tokens]; window and sinks have the highest + 1
	Runs   []PressRun
}

// PressRun is one compression of one prompt.
type PressRun struct {
	Ratio  float64 // share that was removed
	Prompt int
	L      int
	Kept   [][][]int32 // [layer][n_kv_heads], ascending
	Budget [][]int     // [layer][n_kv_heads]
	Clear  [][]bool    // [layer][n_kv_heads]: the cut is no tie; nil where nothing was recorded
	Step1  []float64   `json:"logits_step1"` // after the first greedy token; 2e-3
	Step2  []float64   `json:"logits_step2"`
	Tokens []int32
	Margin []float64
}

// Presses reads the cases of kvpress.json.
func Presses(t testing.TB) []Press {
	t.Helper()
	type file struct{ Cases []Press }
	return load(t, "kvpress.json", func(f *file) int { return len(f.Cases) }).Cases
}

// Selection is what an original repository's code kept of [PolicyInputs].
type Selection struct {
	Name, Source string
	Params       struct {
		Window     int
		B          int
		Kernel     int
		Pool       string // avgpool or maxpool
		Group      string // mean, max or sum, before pooling
		Beta       float64
		Alpha      float64
		Normalize  bool
		Temp       float64
		Skip       []int       `json:"skip_layers"`
		Importance [][]float64 // [layer][n_heads]
		FirstK     int         `json:"first_k"`
		Order      [][]int     `json:"srh_order"`
		Errors     []float64   `json:"layer_error"`
	}
	Layer    int
	Budget   []int     // [heads], window included; heads are KV heads, or query heads where the name says so
	Kept     [][]int32 // [heads]
	Gap      []float64 // [heads] at the cut
	TieFree  *bool     `json:"tie_free"` // nil: nothing was cut by score
	Capacity [][]int   `json:"head_capacity_all_layers"`
	Scores   Rows      // of some cases, after pooling, the window left out: one row for all heads, or one each
}

// Rows are rows of numbers; one row may be written without the outer brackets.
type Rows [][]float64

// UnmarshalJSON reads one row or several.
func (r *Rows) UnmarshalJSON(raw []byte) error {
	var row []float64
	if json.Unmarshal(raw, &row) == nil {
		*r = Rows{row}
		return nil
	}
	return json.Unmarshal(raw, (*[][]float64)(r))
}

// Selections reads original_select.json.
func Selections(t testing.TB) []Selection {
	t.Helper()
	type file struct{ Cases []Selection }
	return load(t, "original_select.json", func(f *file) int { return len(f.Cases) }).Cases
}

// QuestRun is what Quest read for the last query, KV heads expanded.
type QuestRun struct {
	Layer  int
	Page   int         `json:"page_size"`
	Budget int         `json:"token_budget"`
	Recent int         // newest tokens, which are read anyway
	Scores [][]float32 `json:"page_scores"` // [n_heads][pages], of some runs
	Pages  [][]int32   // [n_heads]: the best whole pages
	Tokens [][]int32   // [n_heads]: what was read
}

// Quest reads original_sparse.json's runs of Quest.
func Quest(t testing.TB) []QuestRun {
	t.Helper()
	type file struct{ Quest []QuestRun }
	return load(t, "original_sparse.json", func(f *file) int { return len(f.Quest) }).Quest
}

// CakeRun is CAKE on the tiny model.
type CakeRun struct {
	Slots      string // in which order the original's cache holds tokens: matters once it decodes
	B, W, L    int
	Tau1, Tau2 float64
	Gamma      float64
	Cascading  bool
	Prompt     int
	Preference []float64 `json:"pref_scores"`         // [layer]; 2e-4 relative
	Budgets    []int     `json:"layer_budget_prefix"` // [layer], window not included
	// Kept are the positions held after prefill, decode1, decode2, …: [layer][n_kv_heads], in no order.
	Kept   map[string][][][]int32
	Gap    []*float64 `json:"prefill_gap"`  // [layer·n_kv_heads + KV head]; nil where nothing was cut
	Step1  []float64  `json:"logits_step1"` // after the first greedy token; 2e-3
	Step2  []float64  `json:"logits_step2"`
	Tokens []int32
	Margin []float64
}

// Cake reads original_cake.json: its runs, and the indicator of prompt 0 for a window of 8 and γ of 200 after pooling and
// reduction, [layer][n_kv_heads][prefix].
func Cake(t testing.TB) (indicator [][][]float32, runs []CakeRun) {
	t.Helper()
	type file struct {
		Indicator [][][]float32 `json:"indicator_prompt0_w8_gamma200"`
		Runs      []CakeRun
	}
	f := load(t, "original_cake.json", func(f *file) int { return len(f.Runs) })
	return f.Indicator, f.Runs
}

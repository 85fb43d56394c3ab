package policy

import "kvlens/cache/policy/stage"

// Shape is what a plan must know of a model.
type Shape struct{ Layers, Heads, KVHeads, HeadDim int }

// Input is what one layer offers to be scored. Candidates of a KV head are its stored tokens and then the new ones, in
// the order of their positions; KV heads may have different numbers of them. What a plan does not need is nil.
type Input struct {
	Candidates []Candidates // [n_kv_heads]
	// Queries are the last queries of the prompt after RoPE, at most Score.Window of them, oldest first:
	// [queries][n_heads][head_dim]. The last is the newest candidate's own.
	Queries []float32
	// Columns are the attention from all queries of the prompt and, on top, the accumulated attention of what is stored
	// (ScoreColumns): [n_heads][candidates].
	Columns [][]float32
	Spread  *Spread // of the queries (ScoreExpected)
}

// sizes counts candidates, and of them those before position sinks.
func (in *Input) sizes(sinks int) *Sizes {
	sz := &Sizes{make([]int, len(in.Candidates)), make([]int, len(in.Candidates))}
	for h, c := range in.Candidates {
		sz.Candidates[h] = len(c.Pos)
		for sz.Sinks[h] < len(c.Pos) && int(c.Pos[sz.Sinks[h]]) < sinks {
			sz.Sinks[h]++
		}
	}
	return sz
}

// Candidates are the tokens of one KV head that could be kept.
type Candidates struct {
	Pos   []int32   // ascending
	K, V  []float32 // [candidates][head_dim], K after RoPE
	OutL1 []float32 // [candidates] mean over the group of ‖W_o·v‖₁ (SelectCritical)
}

// Spread is the distribution of a layer's queries before RoPE, the first Sinks left out.
type Spread struct {
	N    int
	Mean []float32               // [n_heads][head_dim]
	Cov  []float32               // [n_heads][head_dim][head_dim]; nil without Score.Covariance
	Rope func(pos int) []float32 // cos and sin [RotDim/2][2] of a position, in all layers the same
	Neox bool
}

// Loops are the inner loops of scoring; a backend with SIMD brings its own.
type Loops = stage.Loops

// GoLoops are loops in plain Go.
var GoLoops Loops = stage.Go{}

// Budget is what the arena allows.
type Budget struct {
	Tokens  int  // B: tokens of a list on average, protected ones among them
	Reserve int  // slots of a list beyond B
	Slots   int  // slots of all lists together where they may differ (Plan.Ragged); 0 is Tokens + Reserve each
	Prompt  int  // tokens that Full would hold: prompt and answer limit (HeadsMask gives retrieval heads room for them)
	Parity  bool // published triggers and growth instead of the cap
}

// Keep says what stays of a layer: indices into its candidates, ascending.
type Keep struct {
	Layer int
	Heads [][]int32   // [n_kv_heads]
	Sums  [][]float32 // accumulated attention of what stays, nil where no rule needs it
}

// StepInput is what a layer offers after a decoded token was stored in it, over each KV head's tokens in the order of
// their positions.
type StepInput struct {
	Pos  [][]int32   // [n_kv_heads][tokens]
	Rows [][]float32 // [n_heads][tokens]: the softmax row of the decoded token
	Sums [][]float32 // [n_kv_heads][tokens]: accumulated attention, the row already in it; nil where no rule needs it
}

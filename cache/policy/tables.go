package policy

// Tables are measured facts about the heads of one model, for the methods that need them.
type Tables struct {
	Model   string `json:"model"`   // SHA-256 of the weights that they were measured on
	Method  string `json:"method"`  // one sentence: how
	Data    string `json:"data"`    // SHA-256 of the samples
	Tried   int    `json:"tried"`   // samples
	Samples int    `json:"samples"` // of them, that the full cache answered: only these count

	// [layers][n_heads]
	Retrieval [][]float32 `json:"retrieval"` // top-1 hits on the token that is being copied (Wu et al., 2024)
	Semantic  [][]float32 `json:"semantic"`  // attention on the whole span (CompressKV)
	Induction [][]float32 `json:"induction"` // attention on what followed earlier copies of the token
	Echo      [][]float32 `json:"echo"`      // attention on earlier copies of the token
	Sink      [][]float32 `json:"sink"`      // attention on position 0
	Local     [][]float32 `json:"local"`     // attention on the last 32 positions

	Errors []float32 `json:"errors"` // [layers], sums to 1: relative error at 32 tokens (CompressKV)

	Thresholds Thresholds `json:"thresholds"`
}

// Thresholds are the lowest scores of the KV heads that count under the published shares; a KV head has the highest score
// of its query heads.
type Thresholds struct {
	Retrieval float32 `json:"retrieval"` // half of the KV heads (DuoAttention)
	Induction float32 `json:"induction"` // 14 % of the KV heads (RazorAttention)
	Echo      float32 `json:"echo"`      // 1 % of them, at least one
}

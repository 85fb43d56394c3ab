package policy

// Tables are measured facts about the heads of one model, for the methods that need them.
type Tables struct {
	Model   string // SHA-256 of the weights that they were measured on
	Method  string // one sentence: how
	Data    string // SHA-256 of the samples
	Samples int    // that the full cache answered, out of those tried

	// [layers][n_heads]
	Retrieval [][]float32 // top-1 hits on the token that is being copied (Wu et al., 2024)
	Semantic  [][]float32 // attention on the whole span (CompressKV)
	Induction [][]float32 // attention on what followed earlier copies of the token
	Echo      [][]float32 // attention on earlier copies of the token
	Sink      [][]float32 // attention on position 0
	Local     [][]float32 // attention on the last 32 positions

	Errors []float32 // [layers], sums to 1: relative error at 32 tokens (CompressKV)
}

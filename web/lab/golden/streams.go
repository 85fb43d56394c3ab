package golden

import "testing"

// Stream is StreamingLLM on the tiny model: a prompt of which the first tokens went in together and the others one by
// one, and then a greedy answer.
type Stream struct {
	S, R        int // sinks, and recent tokens
	Prefill     int `json:"prefill_tokens"`
	Checkpoints []struct {
		T      int       // position of the token
		Stored []int32   `json:"stored_after"`
		Logits []float64 // 2e-3
	}
	NLL    float64 `json:"mean_nll_stream"`
	Greedy []int32 `json:"greedy_after_prompt"`
	Margin []float64
}

// Streams reads original_streaming_e2e.json: its runs and their prompt.
func Streams(t testing.TB) ([]Stream, []int32) {
	t.Helper()
	type file struct {
		IDs  []int32 `json:"prompt_ids"`
		Runs []Stream
	}
	f := load(t, "original_streaming_e2e.json", func(f *file) int { return len(f.Runs) })
	return f.Runs, f.IDs
}

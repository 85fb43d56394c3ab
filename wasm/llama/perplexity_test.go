//go:build !js

package llama_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/tokenizer"
	"kvlens/wasm/weights"
	"kvlens/web/lab/golden"
)

// tomSawyer is the novel's text, from the test data of a Go module.
func tomSawyer(t testing.TB) string {
	t.Helper()
	const module = "github.com/klauspost/compress@v1.20.4"
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir() // it is no dependency of ours
	out, err := cmd.Output()
	var m struct{ Dir string }
	if err != nil || json.Unmarshal(out, &m) != nil {
		golden.Skip(t, fmt.Sprintf("%s is not in the module cache and can't be had: %v", module, err))
	}
	raw, err := os.ReadFile(filepath.Join(m.Dir, "testdata", "Mark.Twain-Tom.Sawyer.txt"))
	if err != nil {
		golden.Skip(t, err.Error())
	}
	_, text, _ := strings.Cut(string(raw), "\nCHAPTER I") // what comes before is the publisher's
	text, _, found := strings.Cut(text, "\nCHAPTER II")
	if !found || len(text) < 10000 {
		t.Fatalf("%d bytes of chapter I", len(text))
	}
	return strings.Join(strings.Fields(text), " ")
}

// What a stream costs in nats per token after the 256th: with four sinks no more than 0.1 above the full cache; without
// them, in the same memory, more than 0.5 (elsewhere 3.285, 3.315 and 4.094 were measured). `make perplexity` reads more.
func TestStreamingPerplexity(t *testing.T) {
	tooSlowForSoftware(t)
	const first = 256
	m, tokens := smolLM2(t), 512
	if os.Getenv("KVLENS_LONG") != "" {
		tokens = 1280
	}
	f, err := weights.OpenPath(golden.SmolLM2(t))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.FromGGUF(f.Meta)
	if err != nil {
		t.Fatal(err)
	}
	ids := tok.Encode(tomSawyer(t))[:tokens]
	mean := func(o llama.SessionOptions) float64 {
		s := session(t, m, o)
		defer s.Close()
		var sum float64
		prefill(t, s, ids[:first])
		err := s.Score(ctx, ids[first:tokens-1], func(i int, logits []float32) error {
			sum -= logProb(logits, ids[first+i+1])
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return sum / float64(tokens-1-first)
	}
	stream := func(sinks float64) float64 {
		return mean(llama.SessionOptions{
			Budget: 128, Recipe: policy.Recipe{Method: "streamingllm", Knobs: map[string]float64{"sinks": sinks}},
		})
	}
	full, four, none := mean(llama.SessionOptions{}), stream(4), stream(0)
	fmt.Printf("%d tokens of prose, nats a token: full %.3f, 4 sinks + 124 %.3f, 128 without sinks %.3f\n", tokens, full, four, none)
	if four > full+0.1 || none < full+0.5 {
		t.Errorf("full %v, four sinks %v, none %v", full, four, none)
	}
}

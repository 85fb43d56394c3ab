package llama_test

import (
	"testing"

	"kvlens/cache/policy"
	"kvlens/wasm/llama"
)

// Of a token that came back, the recall is the last decision, in the lists that it came back to and in no others.
func TestRecallIsExplained(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	for _, r := range evicting(t) {
		s := session(t, m, llama.SessionOptions{Recipe: r.Recipe, Tables: anyTables(m), Budget: 16, Tokens: 120, Shadow: true, Explain: true})
		talk(t, s, 1)
		position := recallable(t, s)
		before := held(s)
		if err := s.Recall(ctx, position); err != nil {
			t.Fatal(r.name, err)
		}
		for l, heads := range before {
			for h, list := range heads {
				e, err := s.Explain(ctx, l, h)
				if err != nil {
					t.Fatal(r.name, err)
				}
				came := true
				for _, p := range list {
					came = came && int(p) != position
				}
				if v := e.Verdicts[position]; (v.Decision == policy.DecidedRecall) != came || e.Kept[position] != 1 || came && int(v.At) != s.Position() {
					t.Errorf("%s: layer %d, KV head %d: came back %v, %+v at %d tokens", r.name, l, h, came, v, s.Position())
				}
			}
		}
	}
}

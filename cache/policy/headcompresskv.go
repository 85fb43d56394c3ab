package policy

// headcompresskv is CompressKV's scoring with HeadKV's budgets. The paper (arXiv 2508.02401) names it and publishes no
// code. Scores are by KV head, as in AdaCompressKV.
var headcompresskv = Method{
	Name: "headcompresskv", Title: "HeadCompressKV",
	Rule:  "Keeps what the semantic retrieval heads look at, by KV head, more of it in heads that retrieve.",
	Paper: "arXiv 2508.02401",
	Looks: "attention of the last tokens in a few heads; measured heads and retrieval scores", When: "once, after the prompt",
	Granularity: "tokens, by KV head; budgets by KV head",
	Lossy:       true, Question: true, Needs: Needs{Semantic: true, Retrieval: true},
	Knobs: append(compressKnobs(), knobBeta(), knobRounding("exact", "original")),
	plan:  func(k Knobs) Plan { return important(compressPlan(k), k) },
}

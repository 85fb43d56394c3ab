package policy

// adacompresskv is CompressKV whose layers share their room among their KV heads as AdaKV does. The paper (arXiv
// 2508.02401) names it and publishes no code. Here a KV head's scores are those of the semantic retrieval heads among
// its own query heads, or the layer's mean if it has none.
var adacompresskv = Method{
	Name: "adacompresskv", Title: "AdaCompressKV",
	Rule:  "Keeps what the semantic retrieval heads look at, by KV head, more of it in layers that suffer and heads that look at many tokens.",
	Paper: "arXiv 2508.02401",
	Looks: "attention of the last tokens in a few heads; measured heads and errors", When: "once, after the prompt",
	Granularity: "tokens, by KV head; budgets by layer and KV head",
	Lossy:       true, Question: true, Needs: Needs{Semantic: true, Errors: true},
	Knobs: append(append(compressKnobs(), errorKnobs()...), adaKnobs()...),
	plan:  func(k Knobs) Plan { return adaptive(errorAware(compressPlan(k), k), k) },
}

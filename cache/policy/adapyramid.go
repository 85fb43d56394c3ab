package policy

// adapyramid is PyramidKV whose layers share their room among their KV heads as AdaKV does (Ada-Pyramid, arXiv
// 2407.11550).
var adapyramid = Method{
	Name: "adapyramid", Title: "Ada-PyramidKV",
	Rule:  "Keeps what the last tokens of the prompt look at, more of it in low layers and in heads that look at many tokens.",
	Paper: "arXiv 2407.11550",
	Looks: "attention of the last tokens", When: "once, after the prompt", Granularity: "tokens, by KV head; budgets by layer and KV head",
	Lossy: true, Question: true,
	Knobs: append(pyramidKnobs(32), adaKnobs()...),
	plan: func(k Knobs) Plan {
		p := pyramidPlan(k)
		p.Layers.Reference, p.Layers.KVPress = k["rounding"] == 1, k["rounding"] == 2
		return adaptive(p, k)
	},
}

package policy

// snapkv keeps what the last tokens of the prompt look at (SnapKV, arXiv 2404.14469): the attention of the window's
// queries, each softmax over the whole prompt, summed over the window, reduced over the query heads of a KV head and
// pooled along the tokens. The window itself stays. It acts once, after the prompt.
var snapkv = Method{
	Name: "snapkv", Title: "SnapKV",
	Rule:  "Keeps what the last tokens of the prompt look at.",
	Paper: "arXiv 2404.14469",
	Looks: "attention of the last tokens", When: "once, after the prompt", Granularity: "tokens, by KV head",
	Lossy: true, Question: true,
	Knobs: []Knob{knobWindow(32), knobKernel(5), knobPool(PoolAvg), knobGroup(), knobAfter(true)},
	plan:  snapPlan,
}

// snapPlan is the plan of SnapKV and of the methods that differ from it in their budgets only.
func snapPlan(k Knobs) Plan {
	w := k.integer("window")
	return Plan{
		Score:   Score{Kind: ScoreWindow, Window: w},
		Pool:    poolOf(k),
		Reduce:  Reduce{ReduceKind(k["group"])},
		Protect: Protect{Recent: w},
		Decode:  capRule,
	}
}

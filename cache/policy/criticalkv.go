package policy

// criticalkv chooses in two steps (CriticalKV, arXiv 2502.03805): a part of the budget by the method's scores, the rest
// by score times the length of what the value would add to the output, ‖W_o·v‖₁.
var criticalkv = Method{
	Name: "criticalkv", Title: "CriticalKV",
	Rule:  "Also asks how much a token's value would change the output.",
	Paper: "arXiv 2502.03805",
	Looks: "the method's scores, values", When: "with the method", Granularity: "tokens, by KV head",
	Lossy: true, Wrapper: true,
	Knobs: []Knob{
		{Name: "first", Kind: KnobFloat, Max: 1, Default: 0.5, Help: "Part of the budget that goes by the method's scores alone."},
		{Name: "epsilon", Kind: KnobFloat, Max: 1, Default: 1e-4, Help: "Added to scores, so that values count by themselves."},
	},
	wrap: func(p Plan, k Knobs) Plan {
		p.Score.Mean = true // epsilon is on the scale of one query's attention
		p.Select = Select{Kind: SelectCritical, First: k["first"], Epsilon: k["epsilon"]}
		return p
	},
}

package policy

// observed keeps what got the most attention from the prompt, per query that could look (H2O once after the prompt, as
// in NVIDIA kvpress): without the division old tokens would win by age.
var observed = Method{
	Name: "observed", Title: "Observed attention",
	Rule:  "Keeps what got the most attention per token that could look.",
	Paper: "arXiv 2306.14048",
	Looks: "attention of all tokens", When: "once, after the prompt", Granularity: "tokens, by KV head",
	Lossy: true,
	Knobs: []Knob{knobGroup()},
	plan: func(k Knobs) Plan {
		return Plan{
			Score:  Score{Kind: ScoreColumns, PerQuery: true},
			Reduce: Reduce{ReduceKind(k["group"])},
			Decode: capRule,
		}
	},
}

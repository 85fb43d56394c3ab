package policy

// expected keeps what queries to come are expected to look at (Expected Attention, NVIDIA kvpress): queries before RoPE
// are taken as normally distributed, turned by the mean rotation of the next positions, and the expected logits' softmax
// is multiplied by the length of the value. The prompt's end has no special part.
var expected = Method{
	Name: "expected", Title: "Expected attention",
	Rule:  "Keeps what queries to come are expected to look at.",
	Paper: "arXiv 2510.00636",
	Looks: "distribution of queries, keys, values", When: "once, after the prompt", Granularity: "tokens, by KV head",
	Lossy: true,
	Knobs: []Knob{
		{Name: "future", Kind: KnobInt, Min: 1, Max: 2048, Default: 512, Help: "How many positions ahead."},
		{Name: "sinks", Kind: KnobInt, Max: 16, Default: 4, Help: "So many first tokens always stay."},
		{Name: "covariance", Kind: KnobBool, Max: 1, Default: 1, Help: "How queries vary counts too, not only their mean."},
		{Name: "values", Kind: KnobBool, Max: 1, Default: 1, Help: "Times the length of the value."},
		{Name: "epsilon", Kind: KnobFloat, Max: 1, Default: 0, Help: "Added before that, so that long values stay by themselves."},
	},
	plan: func(k Knobs) Plan {
		return Plan{
			Score: Score{
				Kind: ScoreExpected, Future: k.integer("future"), Covariance: k.is("covariance"),
				ValueNorm: k.is("values"), Epsilon: k["epsilon"],
			},
			Protect: Protect{Sinks: k.integer("sinks")},
			Decode:  capRule,
		}
	},
}

package policy

// h2o keeps heavy hitters and recent tokens (H2O, arXiv 2306.14048): every token has the attention that all queries gave
// it so far, and with each token of the answer the one with the least leaves, of those that are not recent. Without
// decay, which is ours, a new token starts from nothing against sums of the whole prompt, so that the set soon freezes. The
// original selects for each query head; here a KV head's sums are the means of its query heads'.
var h2o = Method{
	Name: "h2o", Title: "H2O",
	Rule:  "Keeps recent tokens and those that got the most attention so far.",
	Paper: "arXiv 2306.14048",
	Looks: "attention of all tokens", When: "every token", Granularity: "tokens, by KV head",
	Lossy: true,
	Knobs: []Knob{
		{Name: "recent", Kind: KnobFloat, Max: 1, Default: 0.5, Help: "Part of the budget that the newest tokens have."},
		{Name: "decay", Kind: KnobFloat, Min: 0.5, Max: 1, Default: 1, Help: "What is left of a sum with each token; 1 forgets nothing."},
		knobGroup(),
	},
	plan: func(k Knobs) Plan {
		return Plan{
			Score:   Score{Kind: ScoreColumns},
			Reduce:  Reduce{ReduceKind(k["group"])},
			Protect: Protect{Recent: 1, Part: k["recent"]},
			Decode:  Decode{Kind: DecodeSums, Decay: k["decay"]},
		}
	},
}

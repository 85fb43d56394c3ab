package policy

// knorm keeps keys of small norm (arXiv 2406.11430): they tend to be those that get much attention. It needs no queries.
// Published code leaves the first two layers alone, in which that isn't so: they keep everything in parity with it, and the
// newest tokens under a cap.
var knorm = Method{
	Name: "knorm", Title: "Key norm",
	Rule:  "Keeps the keys of smallest norm.",
	Paper: "arXiv 2406.11430",
	Looks: "keys", When: "once, after the prompt", Granularity: "tokens, by KV head",
	Lossy: true,
	Knobs: []Knob{{
		Name: "skip", Kind: KnobInt, Max: 8, Default: 0,
		Help: "So many first layers keep the newest tokens instead; published code has 0 or 2.",
	}},
	plan: func(k Knobs) Plan {
		return Plan{
			Score:  Score{Kind: ScoreNorm, SkipLayers: k.integer("skip")},
			Decode: capRule,
		}
	},
}

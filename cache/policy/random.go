package policy

// random keeps tokens by chance: what any method should beat.
var random = Method{
	Name: "random", Title: "Random",
	Rule:  "Keeps tokens by chance.",
	Looks: "nothing", When: "once, after the prompt", Granularity: "tokens, by KV head",
	Lossy: true,
	Knobs: []Knob{{Name: "seed", Kind: KnobInt, Max: 1 << 31, Default: 1, Help: "The same seed keeps the same tokens."}},
	plan: func(k Knobs) Plan {
		return Plan{Score: Score{Kind: ScoreRandom, Seed: uint64(k["seed"])}, Decode: capRule}
	},
}

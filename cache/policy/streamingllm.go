package policy

// streamingllm keeps the first tokens, on which attention rests when it has nothing to look at, and the newest ones
// (StreamingLLM, arXiv 2309.17453). Published, a token's position is its rank among those that are kept: keys are stored
// before RoPE and rotated when they are read. The variant that many ports have keeps original positions.
var streamingllm = Method{
	Name: "streamingllm", Title: "StreamingLLM",
	Rule:  "Keeps the first tokens and the newest ones.",
	Paper: "arXiv 2309.17453",
	Looks: "positions", When: "every token", Granularity: "same tokens in all heads",
	Lossy: true,
	Knobs: []Knob{
		knobSinks(4),
		{Name: "rank", Kind: KnobBool, Max: 1, Default: 1, Help: "Tokens are numbered anew as others leave, so that no position is beyond what the model knows."},
	},
	plan: func(k Knobs) Plan {
		return Plan{
			Protect: Protect{Sinks: k.integer("sinks"), Recent: 1},
			Store:   Store{Rank: k.is("rank")},
			Decode:  Decode{Kind: DecodeOldest},
		}
	},
}

// knobSinks is the number of first tokens that stay.
func knobSinks(published int) Knob {
	return Knob{Name: "sinks", Kind: KnobInt, Max: 256, Default: float64(published), Help: "How many of the first tokens always stay."}
}

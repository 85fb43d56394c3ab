package policy

// razor keeps everything in the KV heads that retrieve, measured as those that continue a repetition (induction) or look
// at earlier copies of a token (echo), and sinks, a window and one compensation token in the others (RazorAttention, arXiv
// 2407.15891). The compensation token is the mean of the keys and of the values that left and counts as often as they
// were many. Under a cap the other heads share what the retrieval heads leave them, at most the published window.
var razor = Method{
	Name: "razor", Title: "RazorAttention",
	Rule:  "Keeps everything in heads that retrieve; elsewhere the first and the newest tokens and the mean of the rest.",
	Paper: "arXiv 2407.15891",
	Looks: "measured induction and echo scores; positions", When: "after the prompt, then every token", Granularity: "tokens, by KV head",
	Lossy: true, Needs: Needs{Induction: true},
	Knobs: []Knob{
		knobSinks(4),
		{Name: "retrieval", Kind: KnobFloat, Max: 1, Default: 0.14, Help: "The part of all KV heads that keeps everything for its induction score."},
		{Name: "echo", Kind: KnobFloat, Max: 1, Default: 0.01, Help: "The part of all KV heads that keeps everything for its echo score."},
		{Name: "local", Kind: KnobInt, Min: 1, Max: 8192, Default: 4000, Help: "The window of the other heads, at most this or the part below."},
		{Name: "part", Kind: KnobFloat, Max: 1, Default: 0.2, Help: "The window of the other heads as a part of the text, where that is more."},
		{Name: "compensation", Kind: KnobBool, Max: 1, Default: 1, Help: "One token with the mean of what left stands for it."},
	},
	plan: func(k Knobs) Plan {
		return Plan{
			Heads: Heads{
				Kind: HeadsMask, Retrieval: k["retrieval"], Echo: k["echo"],
				Local: k.integer("local"), LocalPart: k["part"],
			},
			Protect: Protect{Sinks: k.integer("sinks"), Recent: 1},
			Store:   Store{Virtual: k.is("compensation")},
			Decode:  capRule,
		}
	},
}

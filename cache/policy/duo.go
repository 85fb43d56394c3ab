package policy

// duo keeps everything in the KV heads that retrieve, and sinks and a window in the others (DuoAttention, arXiv
// 2410.10819). The published method learns which heads those are; here they are those with the highest measured
// retrieval scores. Under a cap the other heads share what the retrieval heads leave them, at most the published window.
var duo = Method{
	Name: "duo", Title: "DuoAttention",
	Rule:  "Keeps everything in heads that retrieve; elsewhere the first and the newest tokens.",
	Paper: "arXiv 2410.10819",
	Looks: "measured retrieval scores; positions", When: "after the prompt, then every token", Granularity: "tokens, by KV head",
	Lossy: true, Needs: Needs{Retrieval: true},
	Knobs: []Knob{
		knobSinks(128),
		{Name: "retrieval", Kind: KnobFloat, Max: 1, Default: 0.5, Help: "The part of all KV heads that keeps everything."},
		{Name: "local", Kind: KnobInt, Min: 1, Max: 8192, Default: 256, Help: "The window of the other heads, at most."},
	},
	plan: func(k Knobs) Plan {
		return Plan{
			Heads:   Heads{Kind: HeadsMask, Duo: true, Retrieval: k["retrieval"], Local: k.integer("local")},
			Protect: Protect{Sinks: k.integer("sinks"), Recent: 1},
			Decode:  capRule,
		}
	},
}

package policy

// cake keeps what the last tokens look at much or unsteadily, and gives layers room by how spread and how unsteady their
// attention is (CAKE, arXiv 2503.12491). A token's worth is the mean of the window's attention plus gamma times its
// variance. A layer's preference is entropy^(1/tau1) · variance^(1/tau2); with every layer that the prompt reaches the
// budget is shared anew and earlier layers give up tokens. In the answer each layer drops the token that the newest one
// looks at least. Tokens are pooled in the order of their positions.
var cake = Method{
	Name: "cake", Title: "CAKE",
	Rule:  "Keeps what the last tokens look at most or most unsteadily, more of it in layers whose attention is spread.",
	Paper: "arXiv 2503.12491",
	Looks: "attention of the last tokens, its variance and entropy", When: "layer after layer, then every token",
	Granularity: "tokens, by KV head; budgets by layer",
	Lossy:       true, Question: true,
	Knobs: []Knob{
		knobWindow(32), knobKernel(5),
		{Name: "gamma", Kind: KnobFloat, Max: 1000, Default: 200, Help: "How much unsteady attention counts."},
		{Name: "tau1", Kind: KnobFloat, Min: 0.1, Max: 10, Default: 1, Help: "How little a layer's entropy counts for its budget."},
		{Name: "tau2", Kind: KnobFloat, Min: 0.1, Max: 10, Default: 1, Help: "How little a layer's variance counts for its budget."},
		knobRounding("exact", "original"),
	},
	plan: func(k Knobs) Plan {
		w := k.integer("window")
		pool := Pool{Kind: PoolAvg, Size: k.integer("kernel")}
		return Plan{
			Score:   Score{Kind: ScoreIndicator, Window: w, Gamma: k["gamma"]},
			Pool:    pool,
			Layers:  Layers{Kind: LayersCake, Tau1: k["tau1"], Tau2: k["tau2"], Reference: k.is("rounding")},
			Protect: Protect{Recent: w},
			Decode:  Decode{Kind: DecodeRow, Pool: pool, Recent: w},
		}
	},
}

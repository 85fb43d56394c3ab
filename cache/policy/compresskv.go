package policy

// compresskv asks only the heads of each layer that were measured to look at a whole passage when they copy from it
// (CompressKV, arXiv 2508.02401): the first of its semantic retrieval heads. Their window scores, each pooled, make one
// mean, and all KV heads of the layer keep the same tokens. Layers get room by their measured errors at 32 tokens,
// between a floor and a multiple of the mean.
var compresskv = Method{
	Name: "compresskv", Title: "CompressKV",
	Rule:  "Keeps what the semantic retrieval heads of each layer look at, more of it in layers that suffer from losing tokens.",
	Paper: "arXiv 2508.02401",
	Looks: "attention of the last tokens in a few heads; measured heads and errors", When: "once, after the prompt",
	Granularity: "same tokens in all heads; budgets by layer",
	Lossy:       true, Question: true, Needs: Needs{Semantic: true, Errors: true},
	Knobs: append(compressKnobs(), errorKnobs()...),
	plan:  func(k Knobs) Plan { return errorAware(compressPlan(k), k) },
}

func compressKnobs() []Knob {
	return []Knob{
		knobWindow(8), knobKernel(5), knobPool(PoolAvg),
		{Name: "heads", Kind: KnobInt, Min: 1, Max: 64, Default: 4, Help: "How many semantic retrieval heads of each layer are asked."},
	}
}

// compressPlan is the scoring of CompressKV, with equal budgets.
func compressPlan(k Knobs) Plan {
	w := k.integer("window")
	return Plan{
		Score:   Score{Kind: ScoreWindow, Window: w, Heads: k.integer("heads")},
		Pool:    Pool{Kind: PoolKind(k["pool"]), Size: k.integer("kernel")},
		Reduce:  Reduce{ReduceLayer},
		Protect: Protect{Recent: w},
		Decode:  capRule,
	}
}

func errorKnobs() []Knob {
	return []Knob{
		{Name: "floor", Kind: KnobInt, Min: 1, Max: 256, Default: 32, Help: "The least tokens of a layer; less where the mean is less."},
		{Name: "ceiling", Kind: KnobInt, Min: 1, Max: 16, Default: 3, Help: "The most tokens of a layer, as a multiple of the mean."},
		{Name: "ties", Kind: KnobChoice, Max: 1, Choices: []string{"code", "paper"}, Help: "Who gets what is clipped elsewhere: all layers in turn, as the published code has it, or the most needy one, as the paper has it."},
	}
}

// errorAware makes budgets of layers follow their errors.
func errorAware(p Plan, k Knobs) Plan {
	p.Layers = Layers{Kind: LayersError, Floor: k.integer("floor"), Ceiling: k.integer("ceiling"), Argmax: k.is("ties")}
	return p
}

package policy

// pyramidkv scores like SnapKV and gives low layers more room than high ones (PyramidKV, arXiv 2406.02069), along a line
// from 2b − b/beta down to b/beta for a mean of b tokens beside the window. The published integers exceed the sum that
// they should have; here the line is rounded by largest remainder.
var pyramidkv = Method{
	Name: "pyramidkv", Title: "PyramidKV",
	Rule:  "Keeps what the last tokens of the prompt look at, more of it in low layers.",
	Paper: "arXiv 2406.02069",
	Looks: "attention of the last tokens", When: "once, after the prompt", Granularity: "tokens, by KV head; budgets by layer",
	Lossy: true, Question: true,
	Knobs: append(pyramidKnobs(8), knobRounding("exact", "original", "kvpress")),
	plan: func(k Knobs) Plan {
		p := pyramidPlan(k)
		p.Layers.Reference, p.Layers.KVPress = k["rounding"] == 1, k["rounding"] == 2
		return p
	},
}

// pyramidKnobs are those of SnapKV with published numbers for pyramids, and the line's.
func pyramidKnobs(window int) []Knob {
	return []Knob{
		knobWindow(window), knobKernel(7), knobPool(PoolMax), knobGroup(), knobAfter(true),
		{Name: "beta", Kind: KnobInt, Min: 1, Max: 100, Default: 20, Help: "How steep: beside its window the highest layer gets the mean divided by this; 1 is flat."},
	}
}

func pyramidPlan(k Knobs) Plan {
	p := snapPlan(k)
	p.Layers = Layers{Kind: LayersPyramid, Beta: k["beta"]}
	return p
}

// knobRounding chooses how real budgets become integers.
func knobRounding(choices ...string) Knob {
	return Knob{
		Name: "rounding", Kind: KnobChoice, Max: float64(len(choices) - 1), Choices: choices,
		Help: "How budgets become whole tokens: so that they meet the sum exactly, or as other code has it.",
	}
}

package policy

// adakv shares a layer's room among its KV heads by the scores of whatever it wraps (AdaKV, arXiv 2407.11550): a head
// whose attention is spread over many tokens gets more. Heads are sure of the part alpha of an equal share; the published
// rounding drifts from the sum where budgets are small, ours is by largest remainder.
var adakv = Method{
	Name: "adakv", Title: "AdaKV",
	Rule:  "Gives heads whose scores are spread over many tokens more room.",
	Paper: "arXiv 2407.11550",
	Looks: "scores of all heads of a layer", When: "with what it wraps", Granularity: "budgets by KV head",
	Lossy: true, Wrapper: true,
	Knobs: adaKnobs(),
	wrap:  adaptive,
}

func adaKnobs() []Knob {
	return []Knob{
		{Name: "alpha", Kind: KnobFloat, Max: 1, Default: 0.2, Help: "The part of an equal share that every head is sure of; 1 is an equal share."},
		{Name: "normalise", Kind: KnobBool, Max: 1, Help: "Scores count by how much of its attention a head has on its best tokens."},
		knobRounding("exact", "original", "kvpress"),
	}
}

// adaptive makes budgets of KV heads follow their scores.
func adaptive(p Plan, k Knobs) Plan {
	p.Heads = Heads{
		Kind: HeadsAdaptive, Alpha: k["alpha"], Normalise: k.is("normalise"),
		Reference: k["rounding"] == 1, KVPress: k["rounding"] == 2,
	}
	return ownSets(p)
}

// ownSets lets every KV head choose for itself.
func ownSets(p Plan) Plan {
	if p.Reduce.Kind == ReduceLayer {
		p.Reduce.Kind = ReduceMean
	}
	if p.Decode.Reduce.Kind == ReduceLayer {
		p.Decode.Reduce.Kind = ReduceMean
	}
	return p
}

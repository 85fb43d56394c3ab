package policy

// headkv scores like SnapKV and gives heads room by how well they retrieve (HeadKV-R, arXiv 2410.19258): of a mean of b
// tokens beside the window each has b·(1−1/beta), the rest goes by the head table's retrieval scores, over all layers.
// A KV head's importance is the mean of its query heads'.
var headkv = Method{
	Name: "headkv", Title: "HeadKV",
	Rule:  "Keeps what the last tokens of the prompt look at, more of it in heads that retrieve.",
	Paper: "arXiv 2410.19258",
	Looks: "attention of the last tokens; measured retrieval scores", When: "once, after the prompt", Granularity: "tokens, by KV head; budgets by KV head",
	Lossy: true, Question: true, Needs: Needs{Retrieval: true},
	Knobs: []Knob{knobWindow(8), knobKernel(7), knobPool(PoolMax), knobGroup(), knobAfter(true), knobBeta(), knobRounding("exact", "original")},
	plan:  func(k Knobs) Plan { return important(snapPlan(k), k) },
}

// knobBeta is HeadKV's.
func knobBeta() Knob {
	return Knob{Name: "beta", Kind: KnobFloat, Min: 1.005, Max: 10, Default: 1.5, Help: "The smaller, the more of the room goes by importance."}
}

// important makes budgets of KV heads follow their importance.
func important(p Plan, k Knobs) Plan {
	p.Heads = Heads{Kind: HeadsImportance, Beta: k["beta"], Reference: k.is("rounding")}
	return ownSets(p)
}

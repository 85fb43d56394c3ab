package policy

// Knobs that several methods share.

// knobWindow is the observation window, by its published size.
func knobWindow(published int) Knob {
	return Knob{
		Name: "window", Kind: KnobInt, Min: 1, Max: 256, Default: float64(published),
		Help: "How many of the last tokens say what matters; they always stay.",
	}
}

// knobKernel is the size of pooling; odd, so that it is centred.
func knobKernel(published int) Knob {
	return Knob{
		Name: "kernel", Kind: KnobInt, Min: 1, Max: 31, Step: 2, Default: float64(published),
		Help: "How many neighbouring tokens share a score, so that whole phrases stay; 1 is none.",
	}
}

// knobPool is the kind of pooling.
func knobPool(published PoolKind) Knob {
	return Knob{
		Name: "pool", Kind: KnobChoice, Max: 2, Default: float64(published), Choices: []string{"none", "average", "maximum"},
		Help: "How neighbouring tokens share a score.",
	}
}

// knobGroup is the reduction over query heads.
func knobGroup() Knob {
	return Knob{
		Name: "group", Kind: KnobChoice, Max: 2, Choices: []string{"mean", "maximum", "sum"},
		Help: "How the query heads that read the same keys make one score.",
	}
}

// knobAfter is the order of reduction and pooling.
func knobAfter(published bool) Knob {
	k := Knob{
		Name: "after", Kind: KnobBool, Max: 1,
		Help: "Neighbours share scores after the query heads' scores became one, not before.",
	}
	if published {
		k.Default = 1
	}
	return k
}

// poolOf reads knobKernel, knobPool and knobAfter.
func poolOf(k Knobs) Pool {
	return Pool{Kind: PoolKind(k["pool"]), Size: k.integer("kernel"), After: k.is("after")}
}

// capRule is our rule for one-shot methods: at B + reserve back to B, by the moving average of attention.
var capRule = Decode{Kind: DecodeCap, Decay: 0.9}

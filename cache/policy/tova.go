package policy

// tova keeps what the last token looks at (TOVA, arXiv 2401.06104): its attention, averaged over all query heads of a
// layer, so that all of them keep the same tokens; again with every token of the answer.
var tova = Method{
	Name: "tova", Title: "TOVA",
	Rule:  "Drops what the newest token looks at least.",
	Paper: "arXiv 2401.06104",
	Looks: "attention of the newest token", When: "every token", Granularity: "same tokens in all heads",
	Lossy: true, Question: true,
	plan: func(Knobs) Plan {
		return Plan{
			Score:   Score{Kind: ScoreWindow, Window: 1},
			Reduce:  Reduce{ReduceLayer},
			Protect: Protect{Recent: 1},
			Decode:  Decode{Kind: DecodeRow, Reduce: Reduce{ReduceLayer}},
		}
	},
}

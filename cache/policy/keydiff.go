package policy

// keydiff keeps keys that differ from the mean direction of all (KeyDiff, arXiv 2504.15364): similar keys stand for each
// other. It needs no queries.
var keydiff = Method{
	Name: "keydiff", Title: "KeyDiff",
	Rule:  "Keeps the keys that are least like the others.",
	Paper: "arXiv 2504.15364",
	Looks: "keys", When: "once, after the prompt", Granularity: "tokens, by KV head",
	Lossy: true,
	plan: func(Knobs) Plan {
		return Plan{Score: Score{Kind: ScoreKeyDiff}, Decode: capRule}
	},
}

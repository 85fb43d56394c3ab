package policy

// window keeps the newest tokens, at their own positions. Without the first tokens, on which attention rests when it
// has nothing to look at, it fails as soon as they leave (StreamingLLM, arXiv 2309.17453, shows how).
var window = Method{
	Name: "window", Title: "Sliding window",
	Rule:  "Keeps the newest tokens.",
	Paper: "arXiv 2004.05150",
	Looks: "positions", When: "every token", Granularity: "same tokens in all heads",
	Lossy: true,
	plan: func(Knobs) Plan {
		return Plan{Protect: Protect{Recent: 1}, Decode: Decode{Kind: DecodeOldest}}
	},
}

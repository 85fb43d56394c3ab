package policy

// quest keeps everything and reads little (Quest, arXiv 2406.10774): a page's element-wise bounds of keys bound what any
// of its tokens could score with a query, and each query reads the pages with the highest bounds. The first two layers, in
// which attention is spread, read everything, as published; that the page of the newest token is always read is ours. It
// saves reading, not memory.
var quest = Method{
	Name: "quest", Title: "Quest",
	Rule:  "Keeps every token, but each query reads only the pages that could matter to it.",
	Paper: "arXiv 2406.10774",
	Looks: "bounds of keys by page", When: "every token", Granularity: "pages, by query head",
	Lossy: true, Stops: true,
	Knobs: []Knob{
		{Name: "page", Kind: KnobInt, Min: 2, Max: 32, Default: 16, Help: "Tokens of a page."},
		{Name: "read", Kind: KnobInt, Min: 16, Max: 4096, Default: 128, Help: "Tokens that a query reads."},
		{Name: "skip", Kind: KnobInt, Max: 8, Default: 2, Help: "So many first layers read everything."},
	},
	plan: func(k Knobs) Plan {
		return Plan{Store: Store{Page: k.integer("page"), Read: k.integer("read"), Whole: k.integer("skip")}}
	},
}

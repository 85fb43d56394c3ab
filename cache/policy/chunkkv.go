package policy

// chunkkv keeps whole chunks (ChunkKV, arXiv 2502.00299): neighbouring tokens stay or leave together, by the mean of
// their scores over all KV heads.
var chunkkv = Method{
	Name: "chunkkv", Title: "ChunkKV",
	Rule:  "Keeps or drops whole chunks of neighbouring tokens.",
	Paper: "arXiv 2502.00299",
	Looks: "the method's scores", When: "with the method", Granularity: "chunks, same in all heads",
	Lossy: true, Wrapper: true,
	Knobs: []Knob{{Name: "chunk", Kind: KnobInt, Min: 2, Max: 64, Default: 20, Help: "Tokens of a chunk."}},
	wrap: func(p Plan, k Knobs) Plan {
		p.Select = Select{Kind: SelectChunks, Chunk: k.integer("chunk")}
		return p
	},
}

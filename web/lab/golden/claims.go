package golden

// Claim says where a kind of vectors is compared.
type Claim struct {
	File string
	// Path names the kind: keys joined by dots, [] for the elements of a list, {} for the values of an object, [X] for
	// those elements whose class, or name if they have none, is X. What a path names is one case per match, and a list
	// counts its elements.
	Path string
	Test string // "package folder TestName", several joined by "; ", or
	Why  string // the reason why no test compares it
}

// Reasons why a kind has no test.
const (
	context  = "context: says what the vectors are of, or how to compare them"
	input    = "input of vectors in other files"
	info     = "information, not a test: measured facts for demonstrations and calibration"
	rounded  = "information: the same from llama.cpp, whose activations are rounded to 8 bits"
	interval = "scoring the whole cache again every few tokens of an answer is not among our rules"
	codes    = "quantised keys and values are not built yet"
	sparse   = "attention that skips blocks of the prompt is not among our methods"
	unlisted = "a method that is not among ours"
	defect   = "documents a defect of a reference, not to be imitated"
)

// Tests by short names.
const (
	testTokenizer = "wasm/tokenizer TestGoldenTokenizer"
	testChat      = "wasm/chat TestGoldenChat"
	testGGUF      = "wasm/weights TestGoldenGGUF"
	testDequant   = "wasm/weights TestGoldenDequant"
	testLogits    = "wasm/llama TestGoldenModelLogits"
	testHidden    = "wasm/llama TestGoldenHidden"
	testGreedy    = "wasm/llama TestGoldenGreedy"
	testAttention = "wasm/llama TestGoldenAttention"
	testNLL       = "wasm/llama TestGoldenNLL"
	testTiny      = "wasm/llama TestGoldenTiny"
	testTeach     = "wasm/llama TestGoldenTeach"
	testPress     = "cache/policy TestGoldenKVPress; wasm/llama TestGoldenKVPressRuns; wasm/kernel TestGoldenPresses"
	testSelect    = "cache/policy TestGoldenSelect; wasm/kernel TestGoldenSelections"
	testCake      = "cache/policy TestGoldenCakeScores; wasm/kernel TestGoldenCake"
	testQuest     = "cache/policy/stage TestGoldenQuest; wasm/kernel TestGoldenPages"
	testAlloc     = "cache/policy/stage TestGoldenAlloc"
	testAdaptive  = "cache/policy/stage TestGoldenAlloc; wasm/kernel TestGoldenAdaptive"
	testH2O       = "cache/policy TestGoldenH2O; wasm/kernel TestGoldenHeavyHitters"
	testStreaming = "cache/policy TestGoldenStreamingLLM; wasm/kernel TestGoldenStreaming"
	testCakeRuns  = "cache/policy TestGoldenCakePrefill; wasm/llama TestGoldenCakeRuns"
	testStreams   = "wasm/llama TestGoldenStreamingRuns"
)

// Claims covers every value of every file exactly once.
var Claims = []Claim{
	{File: "tokenizer_cases.json", Path: "source", Why: context},
	{File: "tokenizer_cases.json", Path: "note", Why: context},
	{File: "tokenizer_cases.json", Path: "cases[]", Test: testTokenizer},

	{File: "chat_template.json", Path: "source", Why: context},
	{File: "chat_template.json", Path: "cases[]", Test: testChat},

	{File: "gguf.json", Path: "source", Why: context},
	{File: "gguf.json", Path: "file", Why: context},
	{File: "gguf.json", Path: "file_size", Test: testGGUF},
	{File: "gguf.json", Path: "file_crc32", Test: testGGUF},
	{File: "gguf.json", Path: "gguf_version", Test: testGGUF},
	{File: "gguf.json", Path: "kv[]", Test: testGGUF},
	{File: "gguf.json", Path: "tensors[]", Test: testGGUF},
	{File: "gguf.json", Path: "dequant_samples[]", Test: testDequant},

	{File: "model.json", Path: "source", Why: context},
	{File: "model.json", Path: "at64_vocab_ids", Why: context},
	{File: "model.json", Path: "eos_id", Why: context},
	{File: "model.json", Path: "prompts[].name", Why: context},
	{File: "model.json", Path: "prompts[].chat", Why: input},
	{File: "model.json", Path: "prompts[].input", Why: input},
	{File: "model.json", Path: "prompts[].ids", Why: input},
	{File: "model.json", Path: "prompts[].logits_last", Test: testLogits},
	{File: "model.json", Path: "prompts[].hidden_last", Test: testHidden},
	{File: "model.json", Path: "prompts[].greedy", Test: testGreedy},
	{File: "model.json", Path: "prompts[].llama_cpp", Why: rounded},

	{File: "attention.json", Path: "source", Why: context},
	{File: "attention.json", Path: "text", Why: input},
	{File: "attention.json", Path: "ids", Why: input},
	{File: "attention.json", Path: "rows_note", Why: context},
	{File: "attention.json", Path: "intermediates_note", Why: context},
	{File: "attention.json", Path: "rows{}", Test: testAttention},
	{File: "attention.json", Path: "intermediates_last_position{}", Test: testAttention},

	{File: "nll.json", Path: "source", Why: context},
	{File: "nll.json", Path: "note", Why: context},
	{File: "nll.json", Path: "text", Why: input},
	{File: "nll.json", Path: "ids", Why: input},
	{File: "nll.json", Path: "nll", Test: testNLL},
	{File: "nll.json", Path: "mean_nll", Test: testNLL},
	{File: "nll.json", Path: "perplexity", Why: context},
	{File: "nll.json", Path: "llama_cpp", Why: rounded},

	{File: "teach.json", Path: "source", Why: context},
	{File: "teach.json", Path: "tolerance", Why: context},
	{File: "teach.json", Path: "sha256", Test: testTeach},
	{File: "teach.json", Path: "prompts[]", Test: testTeach},

	{File: "kvpress_inputs.json", Path: "source", Why: context},
	{File: "kvpress_inputs.json", Path: "note", Why: context},
	{File: "kvpress_inputs.json", Path: "model", Why: context},
	{File: "kvpress_inputs.json", Path: "prompt_ids", Why: input},
	{File: "kvpress_inputs.json", Path: "layers[]", Why: input},

	{File: "kvpress.json", Path: "source", Why: context},
	{File: "kvpress.json", Path: "prompt_ids", Why: input},
	{File: "kvpress.json", Path: "full_cache[]", Test: testTiny},
	{File: "kvpress.json", Path: "cases[SnapKVPress]", Test: testPress},
	{File: "kvpress.json", Path: "cases[PyramidKVPress]", Test: testPress},
	{File: "kvpress.json", Path: "cases[StreamingLLMPress]", Test: testPress},
	{File: "kvpress.json", Path: "cases[KeyRerotationPress(StreamingLLMPress)]", Test: testPress},
	{File: "kvpress.json", Path: "cases[TOVAPress]", Test: testPress},
	{File: "kvpress.json", Path: "cases[ObservedAttentionPress]", Test: testPress},
	{File: "kvpress.json", Path: "cases[AdaKVPress(SnapKVPress)]", Test: testPress},
	{File: "kvpress.json", Path: "cases[AdaKVPress(KnormPress)]", Test: testPress},
	{File: "kvpress.json", Path: "cases[KnormPress]", Test: testPress},
	{File: "kvpress.json", Path: "cases[KeyDiffPress]", Test: testPress},
	{File: "kvpress.json", Path: "cases[ExpectedAttentionPress]", Test: testPress},
	{File: "kvpress.json", Path: "cases[CriticalKVPress(SnapKVPress)]", Test: testPress},
	{File: "kvpress.json", Path: "cases[CriticalAdaKVPress(SnapKVPress)]", Test: testPress},
	{File: "kvpress.json", Path: "cases[DuoAttentionPress]", Test: testPress},
	{File: "kvpress.json", Path: "cases[ChunkKVPress(SnapKVPress)]", Test: testPress},
	{File: "kvpress.json", Path: "cases[KeyRerotationPress(SnapKVPress)]", Test: testPress},
	{File: "kvpress.json", Path: "cases[ThinKPress]", Why: unlisted},
	{File: "kvpress.json", Path: "cases[LagKVPress]", Why: unlisted},
	{File: "kvpress.json", Path: "cases[CURPress]", Why: unlisted},
	{File: "kvpress.json", Path: "cases[MergingPress(SnapKVPress)]", Why: unlisted},
	{File: "kvpress.json", Path: "decoding[]", Why: interval},

	{File: "original_select.json", Path: "source", Why: context},
	{File: "original_select.json", Path: "L", Why: context},
	{File: "original_select.json", Path: "group_size", Why: context},
	{File: "original_select.json", Path: "cases[snapkv_per_query_head]", Test: testSelect},
	{File: "original_select.json", Path: "cases[snapkv_kv_head]", Test: testSelect},
	{File: "original_select.json", Path: "cases[pyramidkv_kv_head]", Test: testSelect},
	{File: "original_select.json", Path: "cases[h2o_oneshot_kv_head]", Test: testSelect},
	{File: "original_select.json", Path: "cases[l2norm_skip0]", Test: testSelect},
	{File: "original_select.json", Path: "cases[streamingllm_oneshot]", Test: testSelect},
	{File: "original_select.json", Path: "cases[adakv_gqa]", Test: testSelect},
	{File: "original_select.json", Path: "cases[adakv_pyramid_gqa]", Test: testSelect},
	{File: "original_select.json", Path: "cases[headkv_per_query_head]", Test: testSelect},
	{File: "original_select.json", Path: "cases[headkv_kv_head]", Test: testSelect},
	{File: "original_select.json", Path: "cases[compresskv]", Test: testSelect},
	{File: "original_select.json", Path: "cases[compresskv_baseline_streamingllm]", Why: defect},
	{File: "original_select.json", Path: "cases[compresskv_baseline_snapkv_WRONG_AXIS]", Why: defect},

	{File: "original_alloc.json", Path: "source", Why: context},
	{File: "original_alloc.json", Path: "error_aware[]", Test: testAlloc},
	{File: "original_alloc.json", Path: "cake_adjust_budgets[]", Test: testAlloc},
	{File: "original_alloc.json", Path: "pyramid_layers[]", Test: testAlloc},
	{File: "original_alloc.json", Path: "adakv_head_budgets[]", Test: testAdaptive},
	{File: "original_alloc.json", Path: "headkv_capacity[]", Test: testAlloc},

	{File: "original_h2o.json", Path: "source", Why: context},
	{File: "original_h2o.json", Path: "note", Why: context},
	{File: "original_h2o.json", Path: "runs[]", Test: testH2O},
	{File: "original_h2o.json", Path: "fixed_logit_golden", Test: testH2O},

	{File: "original_streamingllm.json", Path: "source", Why: context},
	{File: "original_streamingllm.json", Path: "per_step[]", Test: testStreaming},
	{File: "original_streamingllm.json", Path: "evict_for_space[]", Test: testStreaming},

	{File: "original_streaming_e2e.json", Path: "source", Why: context},
	{File: "original_streaming_e2e.json", Path: "note", Why: context},
	{File: "original_streaming_e2e.json", Path: "prompt_ids", Why: input},
	{File: "original_streaming_e2e.json", Path: "runs[]", Test: testStreams},

	{File: "original_cake.json", Path: "source", Why: context},
	{File: "original_cake.json", Path: "prompt_ids", Why: input},
	{File: "original_cake.json", Path: "indicator_prompt0_w8_gamma200", Test: testCake},
	{File: "original_cake.json", Path: "runs[]", Test: testCakeRuns},

	{File: "original_kivi.json", Path: "source", Why: context},
	{File: "original_kivi.json", Path: "attention_inputs", Why: input},
	{File: "original_kivi.json", Path: "pack[]", Why: codes},
	{File: "original_kivi.json", Path: "attention[]", Why: codes},
	{File: "original_kivi.json", Path: "bookkeeping[]", Why: codes},
	{File: "original_kivi.json", Path: "constant_group", Why: defect},

	{File: "original_kivi_e2e.json", Path: "source", Why: context},
	{File: "original_kivi_e2e.json", Path: "gqa_short_prompt_bug", Why: defect},
	{File: "original_kivi_e2e.json", Path: "runs[]", Why: codes},

	{File: "original_sparse.json", Path: "source", Why: context},
	{File: "original_sparse.json", Path: "quest[]", Test: testQuest},
	{File: "original_sparse.json", Path: "xattention[]", Why: sparse},
	{File: "original_sparse.json", Path: "defect_no_padding_two_chunks", Why: defect},

	{File: "behaviour.json", Path: "*", Why: info},
}

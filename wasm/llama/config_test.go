package llama

import (
	"context"
	"errors"
	"math"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref"
	"kvlens/wasm/weights"
)

// A hostile file gives a typed error that names the field, and leaves nothing allocated.
func TestHostileFiles(t *testing.T) {
	set := func(key string, v any) func(*testFile) { return func(f *testFile) { f.set(key, v) } }
	drop := func(name string) func(*testFile) { return func(f *testFile) { f.drop(name) } }
	cases := []struct {
		field  string
		change func(*testFile)
	}{
		{"general.architecture", set("general.architecture", "mamba")},
		{"llama.block_count", drop("llama.block_count")},
		{"llama.block_count", set("llama.block_count", uint32(0))},
		{"llama.block_count", set("llama.block_count", uint32(513))},
		{"llama.block_count", set("llama.block_count", "two")},
		{"llama.embedding_length", set("llama.embedding_length", uint32(math.MaxUint32))},
		{"llama.context_length", set("llama.context_length", uint32(0))},
		{"llama.attention.head_count", set("llama.attention.head_count", uint32(5))},
		{"llama.attention.head_count_kv", set("llama.attention.head_count_kv", uint32(3))},
		{"llama.attention.head_count_kv", set("llama.attention.head_count_kv", []uint32{2, 4})},
		{"llama.attention.head_count_kv", set("llama.attention.head_count_kv", []uint32{2})},
		{"llama.attention.value_length", set("llama.attention.value_length", uint32(8))},
		{"llama.rope.dimension_count", set("llama.rope.dimension_count", uint32(15))},
		{"llama.rope.dimension_count", set("llama.rope.dimension_count", uint32(18))},
		{"llama.attention.layer_norm_rms_epsilon", drop("llama.attention.layer_norm_rms_epsilon")},
		{"llama.attention.layer_norm_rms_epsilon", set("llama.attention.layer_norm_rms_epsilon", float32(0))},
		{"llama.attention.layer_norm_rms_epsilon", set("llama.attention.layer_norm_rms_epsilon", float32(math.NaN()))},
		{"llama.rope.freq_base", set("llama.rope.freq_base", float32(math.Inf(1)))},
		{"llama.rope.scaling.type", set("llama.rope.scaling.type", "yarn")},
		{"llama.rope.scaling.factor", set("llama.rope.scaling.type", "linear")},
		{"llama.rope.scaling.type", set("llama.rope.scaling.type", uint32(2))},
		{"llama.rope.scale_linear", set("llama.rope.scale_linear", "two")},
		{"llama.expert_count", set("llama.expert_count", uint32(8))},
		{"llama.expert_count", set("llama.expert_count", "8")},
		{"llama.vocab_size", set("llama.vocab_size", "40")},
		{"llama.attention.key_length", set("llama.attention.key_length", uint32(maxHeadDim+1))},
		{"llama.attention.head_count", func(f *testFile) {
			f.set("llama.embedding_length", uint32(2*(maxHeadDim+1)))
			f.set("llama.attention.head_count", uint32(2))
		}},
		{"llama.attention.layer_norm_rms_epsilon", set("llama.attention.layer_norm_rms_epsilon", 1e300)},
		{"llama.vocab_size", set("llama.vocab_size", uint32(41))},
		{"tokenizer.ggml.tokens", set("tokenizer.ggml.tokens", make([]uint32, 41))},
		{"token_embd.weight", drop("token_embd.weight")},
		{"blk.1.ffn_down.weight", drop("blk.1.ffn_down.weight")},
		{"blk.0.attn_k.weight", func(f *testFile) { f.tensor("blk.0.attn_k.weight").rows = 64 }},
		{"blk.1.attn_norm.weight", func(f *testFile) { f.tensor("blk.1.attn_norm.weight").kind = quant.F16 }},
		{"blk.0.attn_q.bias", func(f *testFile) {
			f.add("blk.0.attn_q.bias", quant.F32, 1, 64)
		}},
		{"rope_freqs.weight", func(f *testFile) {
			f.add("rope_freqs.weight", quant.F32, 1, 7)
		}},
	}
	for _, c := range cases {
		f := newTestFile()
		c.change(f)
		led := new(cache.Ledger)
		_, err := Load(context.Background(), f.open(t), ref.New(led), Options{Ledger: led})
		var format *weights.FormatError
		if !errors.As(err, &format) || format.Field != c.field {
			t.Errorf("%s: got %v", c.field, err)
		}
		expectEmpty(t, led)
	}
}

// Numbers that are not finite are found while they are packed.
func TestLoadRefusesNaN(t *testing.T) {
	b := newTestFile().bytes()
	for i := range 4 { // the last weight of output_norm.weight, which is the last tensor
		b[len(b)-4+i] = 0xFF
	}
	led := new(cache.Ledger)
	_, err := Load(context.Background(), openBytes(t, b), ref.New(led), Options{Ledger: led})
	var format *weights.FormatError
	if !errors.As(err, &format) || format.Field != "output_norm.weight" {
		t.Errorf("got %v", err)
	}
	expectEmpty(t, led)
}

func expectEmpty(t *testing.T, led *cache.Ledger) {
	t.Helper()
	for kind, row := range led.Rows() {
		if row.Logical != 0 || row.Allocated != 0 {
			t.Errorf("kind %d still has %d bytes", kind, row.Allocated)
		}
	}
}

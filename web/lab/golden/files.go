package golden

import (
	"encoding/json"
	"testing"
)

// GGUF is what a reference reader found in SmolLM2's file.
type GGUF struct {
	Size    int64  `json:"file_size"`
	CRC32   uint32 `json:"file_crc32"`
	Version uint32 `json:"gguf_version"`
	KV      []GGUFKey
	Tensors []struct {
		Name, Type string
		Dims       []int64 `json:"ne"` // fastest axis first
		Bytes      int64   `json:"n_bytes"`
		Offset     int64   `json:"offset_in_file"`
		CRC32      uint32  `json:"crc32"` // of the raw bytes
	}
	Samples []struct {
		Name, Type string
		Shape      [2]int `json:"shape_rows_cols"`
		Rows       []struct {
			Row      int
			RawBlock string    `json:"raw_first_block_hex"`
			First32  []float64 // 1e-6 relative, as all of a row
			Last4    []float64
			Sum      float64 `json:"sum_f64"`
			L2       float64 `json:"l2_f64"`
		}
		Sum    float64 `json:"tensor_sum_f64"`
		AbsMax float64 `json:"tensor_abs_max"`
	} `json:"dequant_samples"`
}

// GGUFKey is one metadata pair. Long arrays have Len, First8, Last8 and CRC32 instead of Value.
type GGUFKey struct {
	Key    string
	Types  []string // GGUF's names; ARRAY and the type of its elements for an array
	Value  json.RawMessage
	Len    int
	First8 []json.RawMessage
	Last8  []json.RawMessage
	CRC32  uint32 `json:"crc32_of_newline_joined"`
}

// SmolLM2File reads gguf.json.
func SmolLM2File(t testing.TB) *GGUF {
	t.Helper()
	return load(t, "gguf.json", func(g *GGUF) int { return len(g.Tensors) })
}

// TeachPrompt is a prompt of the built-in model and what the reference made of it.
type TeachPrompt struct {
	Name, Text string
	BOS        int32
	IDs        []int32       // BOS first
	Logits     []float64     `json:"logits_last"`        // the whole vocabulary; 2e-3
	HiddenRMS  []float64     `json:"hidden_rms_last"`    // after the embedding and each block; the last after the final norm
	Attention  [][][]float64 `json:"attention_last_row"` // [layer][query head][key]; 1e-4
	Greedy     []int32
	Margin     []float64
}

// Teach reads teach.json and the SHA-256 of the model file it is of.
func Teach(t testing.TB) (prompts []TeachPrompt, sha256 string) {
	t.Helper()
	type file struct {
		SHA256  string
		Prompts []TeachPrompt
	}
	f := load(t, "teach.json", func(f *file) int { return len(f.Prompts) })
	return f.Prompts, f.SHA256
}

// TinyFull is a full-cache run of the tiny model: no policy, f32. Logits 2e-3.
type TinyFull struct {
	IDs     []int32
	Prefill []float64 // logits after the prompt
	Step1   []float64 // after the first greedy token
	Step2   []float64
	Tokens  []int32 // 16 greedy tokens
	Margin  []float64
}

// Tiny reads the full-cache runs of kvpress.json.
func Tiny(t testing.TB) []TinyFull {
	t.Helper()
	type file struct {
		PromptIDs [][]int32 `json:"prompt_ids"`
		Full      []struct {
			Prefill []float64 `json:"logits_prefill_last"`
			Step1   []float64 `json:"logits_step1"`
			Step2   []float64 `json:"logits_step2"`
			Tokens  []int32
			Margin  []float64
		} `json:"full_cache"`
	}
	f := load(t, "kvpress.json", func(f *file) int { return len(f.Full) })
	if len(f.PromptIDs) != len(f.Full) {
		t.Fatalf("golden: kvpress.json: %d prompts, %d full-cache runs", len(f.PromptIDs), len(f.Full))
	}
	runs := make([]TinyFull, len(f.Full))
	for i, r := range f.Full {
		runs[i] = TinyFull{f.PromptIDs[i], r.Prefill, r.Step1, r.Step2, r.Tokens, r.Margin}
	}
	return runs
}

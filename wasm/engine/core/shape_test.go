//go:build !js

package core

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kvlens/wasm/proto"
	"kvlens/wasm/quant"
	"kvlens/wasm/weights"
	"kvlens/web/lab/golden"
)

// shaped writes a model of random weights with the tokens of the built-in one, and gives the path of its manifest.
func shaped(t *testing.T, layers, heads, kvHeads, headDim int) string {
	t.Helper()
	f, err := weights.OpenPath(golden.TeachModel(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tokens, _ := f.Meta.Strings("tokenizer.ggml.tokens")
	merges, _ := f.Meta.Strings("tokenizer.ggml.merges")
	types, _ := f.Meta.Ints("tokenizer.ggml.token_type")

	var head, body bytes.Buffer
	le := func(vs ...any) {
		for _, v := range vs {
			if s, ok := v.(string); ok {
				_ = binary.Write(&head, binary.LittleEndian, uint64(len(s)))
				head.WriteString(s)
				continue
			}
			_ = binary.Write(&head, binary.LittleEndian, v)
		}
	}
	const u32, f32, array, i32, text = uint32(4), uint32(6), uint32(9), uint32(5), uint32(8)
	hidden, ffn := heads*headDim, 16
	pairs := []any{
		"general.architecture", text, "llama", "tokenizer.ggml.model", text, "gpt2", "tokenizer.ggml.pre", text, "smollm",
		"llama.block_count", u32, uint32(layers), "llama.embedding_length", u32, uint32(hidden),
		"llama.feed_forward_length", u32, uint32(ffn), "llama.context_length", u32, uint32(4096),
		"llama.attention.head_count", u32, uint32(heads), "llama.attention.head_count_kv", u32, uint32(kvHeads),
		"llama.attention.layer_norm_rms_epsilon", f32, float32(1e-5),
		"tokenizer.ggml.bos_token_id", u32, uint32(0), "tokenizer.ggml.eos_token_id", u32, uint32(1),
	}
	const tensors = 9
	le([]byte("GGUF"), uint32(3), uint64(2+tensors*layers), uint64(len(pairs)/3+3))
	le(pairs...)
	for key, list := range map[string][]string{"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": merges} {
		le(key, array, text, uint64(len(list)))
		for _, s := range list {
			le(s)
		}
	}
	le("tokenizer.ggml.token_type", array, i32, uint64(len(types)))
	for _, n := range types {
		le(int32(n))
	}
	random := rand.New(rand.NewPCG(1, 1))
	tensor := func(name string, rows, cols int) {
		if le(name); rows == 1 {
			le(uint32(1), uint64(cols))
		} else {
			le(uint32(2), uint64(cols), uint64(rows))
		}
		le(uint32(quant.F32), uint64(body.Len()))
		for range rows * cols {
			x := float32(random.NormFloat64() / math.Sqrt(float64(cols)))
			if rows == 1 {
				x = 1
			}
			_ = binary.Write(&body, binary.LittleEndian, x)
		}
		body.Write(make([]byte, (32-body.Len()%32)%32))
	}
	tensor("token_embd.weight", len(tokens), hidden)
	tensor("output_norm.weight", 1, hidden)
	for l := range layers {
		for _, w := range []struct {
			name       string
			rows, cols int
		}{
			{"attn_norm", 1, hidden},
			{"attn_q", hidden, hidden},
			{"attn_k", kvHeads * headDim, hidden},
			{"attn_v", kvHeads * headDim, hidden},
			{"attn_output", hidden, hidden},
			{"ffn_norm", 1, hidden},
			{"ffn_gate", ffn, hidden},
			{"ffn_up", ffn, hidden},
			{"ffn_down", hidden, ffn},
		} {
			tensor(fmt.Sprintf("blk.%d.%s.weight", l, w.name), w.rows, w.cols)
		}
	}
	head.Write(make([]byte, (32-head.Len()%32)%32))
	data := append(head.Bytes(), body.Bytes()...)

	dir := t.TempDir()
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	manifest := fmt.Sprintf(`{"format":1,"id":"x","name":"x","licence":"x","source":"x","size":%[1]d,"sha256":"%[2]s",`+
		`"parts":[{"name":"x.gguf","size":%[1]d,"sha256":"%[2]s"}],"prompt":{"mode":"story","templates":{"en":"{story}{question}"}}}`, len(data), sum)
	path := filepath.Join(dir, "x.json")
	for file, text := range map[string][]byte{path: []byte(manifest), filepath.Join(dir, "x.gguf"): data} {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// A token of a model with SmolLM2's heads takes at most 320 KiB with everything that can be watched: rows of 1,024 tokens,
// and beyond them pooled ones, summaries, and evictions from every list.
func TestStepsAreSmall(t *testing.T) {
	const most, layers, heads, kvHeads = 320 << 10, 30, 9, 3
	p := newPage(t, hooks{})
	o := p.ask(proto.Open{Manifest: shaped(t, layers, heads, kvHeads, 4), Backend: "ref"}).ok()
	if m := o.opened; m.Layers != layers || m.Heads != heads || m.KVHeads != kvHeads {
		t.Fatalf("%+v", m)
	}
	m := under("snapkv", 0.9)
	m.Memory.Explain, m.Memory.Shadow, m.Memory.Undo = true, true, true
	p.ask(m).ok()
	const answer = 40
	p.last++
	p.send(p.last, proto.Generate{Text: strings.Repeat("7", 1024-answer/2), Max: answer, Rows: true, Forced: slices.Repeat([]uint32{57}, answer)})
	largest, cells, left := 0, map[int]bool{}, 0
	o = p.wait(p.last, func(e event) {
		if s, ok := e.msg.(proto.Step); ok {
			largest = max(largest, len(proto.Encode(e.id, s)))
			cells[len(s.Rows)/(layers*heads)] = true
			left = max(left, len(s.Evictions.Layer))
		}
	}).ok()
	if largest > most || !cells[1024] || !cells[513] || left < layers*kvHeads || len(o.steps) != answer {
		t.Errorf("%d steps of at most %d bytes, rows of %v cells, %d evictions", len(o.steps), largest, cells, left)
	}
	t.Logf("%d bytes a token at most, with %d evictions", largest, left)
}

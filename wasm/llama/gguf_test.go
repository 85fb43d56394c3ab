package llama

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"kvlens/wasm/quant"
	"kvlens/wasm/weights"
)

// testFile is a model file to be: metadata and tensors, changed by a test before it is written.
type testFile struct {
	keys    []string
	meta    map[string]any
	tensors []testTensor
}

type testTensor struct {
	name       string
	kind       quant.Type
	rows, cols int
	seed       string // of the random weights
}

func (f *testFile) set(key string, v any) {
	if _, ok := f.meta[key]; !ok {
		f.keys = append(f.keys, key)
	}
	f.meta[key] = v
}

func (f *testFile) drop(name string) {
	for i, t := range f.tensors {
		if t.name == name {
			f.tensors = append(f.tensors[:i], f.tensors[i+1:]...)
			return
		}
	}
	for i, k := range f.keys {
		if k == name {
			f.keys = append(f.keys[:i], f.keys[i+1:]...)
			return
		}
	}
	panic(name)
}

func (f *testFile) add(name string, kind quant.Type, rows, cols int) {
	f.tensors = append(f.tensors, testTensor{name, kind, rows, cols, name})
}

func (f *testFile) tensor(name string) *testTensor {
	for i := range f.tensors {
		if f.tensors[i].name == name {
			return &f.tensors[i]
		}
	}
	panic(name)
}

// newTestFile describes a random model of 2 layers, hidden 64, 4 query and 2 KV heads of 16, ffn 96, vocabulary 40.
func newTestFile() *testFile {
	f := &testFile{meta: map[string]any{}}
	f.set("general.architecture", "llama")
	for key, n := range map[string]int{
		"llama.block_count": 2, "llama.embedding_length": 64, "llama.feed_forward_length": 96, "llama.context_length": 32,
		"llama.attention.head_count": 4, "llama.attention.head_count_kv": 2,
	} {
		f.set(key, uint32(n))
	}
	f.set("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
	add := f.add
	add("token_embd.weight", quant.Q8_0, 40, 64)
	for i := range 2 {
		w := func(name string) string { return fmt.Sprintf("blk.%d.%s.weight", i, name) }
		add(w("attn_norm"), quant.F32, 1, 64)
		add(w("attn_q"), quant.Q8_0, 64, 64)
		add(w("attn_k"), quant.Q8_0, 32, 64)
		add(w("attn_v"), quant.F32, 32, 64)
		add(w("attn_output"), quant.Q8_0, 64, 64)
		add(w("ffn_norm"), quant.F32, 1, 64)
		add(w("ffn_gate"), quant.Q8_0, 96, 64)
		add(w("ffn_up"), quant.Q8_0, 96, 64)
		add(w("ffn_down"), quant.Q8_0, 64, 96)
	}
	add("output_norm.weight", quant.F32, 1, 64)
	return f
}

// bytes writes the file, with weights that depend on the tensors' names only.
func (f *testFile) bytes() []byte {
	var b, data bytes.Buffer
	le := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	str := func(s string) { le(uint64(len(s))); b.WriteString(s) }
	b.WriteString("GGUF")
	le(uint32(3))
	le(uint64(len(f.tensors)))
	le(uint64(len(f.keys)))
	for _, k := range f.keys {
		str(k)
		switch v := f.meta[k].(type) {
		case uint32:
			le(uint32(4))
			le(v)
		case float32:
			le(uint32(6))
			le(v)
		case float64:
			le(uint32(12))
			le(v)
		case string:
			le(uint32(8))
			str(v)
		case []uint32:
			le(uint32(9))
			le(uint32(4))
			le(uint64(len(v)))
			le(v)
		default:
			panic(k)
		}
	}
	for _, t := range f.tensors {
		str(t.name)
		if t.rows == 1 {
			le(uint32(1))
			le(uint64(t.cols))
		} else {
			le(uint32(2))
			le(uint64(t.cols))
			le(uint64(t.rows))
		}
		le(uint32(t.kind))
		le(uint64(data.Len()))
		data.Write(t.random())
		data.Write(make([]byte, (32-data.Len()%32)%32))
	}
	b.Write(make([]byte, (32-b.Len()%32)%32))
	b.Write(data.Bytes())
	return b.Bytes()
}

// random makes weights that depend on the seed name only. Those of a matrix are Q8_0 numbers, whatever type they are
// written in, so that files of different types hold the same model.
func (t *testTensor) random() []byte {
	rng := rand.New(rand.NewPCG(uint64(crc32.ChecksumIEEE([]byte(t.seed))), 1))
	if t.rows == 1 {
		out := make([]float32, t.cols)
		for i := range out {
			out[i] = float32(1 + 0.2*rng.NormFloat64())
			if strings.Contains(t.name, "rope") {
				out[i] = 2
			}
		}
		return t.write(out)
	}
	var blocks []byte
	for range t.rows * t.cols / 32 {
		blocks = binary.LittleEndian.AppendUint16(blocks, quant.ToHalf(0.002*(1+rng.Float32())))
		for range 32 {
			blocks = append(blocks, byte(rng.IntN(255)-127))
		}
	}
	if t.kind == quant.Q8_0 {
		return blocks
	}
	out := make([]float32, t.rows*t.cols)
	if err := quant.Dequantize(quant.Q8_0, out, blocks); err != nil {
		panic(err)
	}
	return t.write(out)
}

func (t *testTensor) write(x []float32) []byte {
	var out []byte
	for _, v := range x {
		if t.kind == quant.F16 {
			out = binary.LittleEndian.AppendUint16(out, quant.ToHalf(v))
		} else {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		}
	}
	return out
}

func (f *testFile) open(t *testing.T) *weights.File {
	t.Helper()
	return openBytes(t, f.bytes())
}

func openBytes(t *testing.T, b []byte) *weights.File {
	t.Helper()
	return openReader(t, bytes.NewReader(b), int64(len(b)))
}

func openReader(t *testing.T, r io.ReaderAt, size int64) *weights.File {
	t.Helper()
	f, err := weights.Open(r, size)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

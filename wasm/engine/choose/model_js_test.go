package choose

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"kvlens/wasm/quant"
)

// Sizes of a random model: small, with the proportions of a real one.
const (
	layers, hidden, heads, kvHeads, ffn, vocab, length = 2, 64, 4, 2, 96, 192, 64
)

// model writes a GGUF file of a random model, whose matrices have the given types in turn.
func model(types []quant.Type) []byte {
	w := writer{r: rand.New(rand.NewPCG(11, uint64(types[0]))), types: types}
	w.matrix("token_embd.weight", vocab, hidden)
	for i := range layers {
		name := func(of string) string { return fmt.Sprintf("blk.%d.%s.weight", i, of) }
		w.norm(name("attn_norm"))
		w.matrix(name("attn_q"), hidden, hidden)
		w.matrix(name("attn_k"), hidden/heads*kvHeads, hidden)
		w.matrix(name("attn_v"), hidden/heads*kvHeads, hidden)
		w.matrix(name("attn_output"), hidden, hidden)
		w.norm(name("ffn_norm"))
		w.matrix(name("ffn_gate"), ffn, hidden)
		w.matrix(name("ffn_up"), ffn, hidden)
		w.matrix(name("ffn_down"), hidden, ffn)
	}
	w.norm("output_norm.weight")

	const pairs = 8
	var f writer
	f.data = append(f.data, "GGUF"...)
	f.u32(3)
	f.u64(uint64(w.tensors))
	f.u64(pairs)
	f.text("general.architecture")
	f.u32(8) // a string
	f.text("llama")
	for _, p := range []struct {
		key   string
		value uint32
	}{
		{"block_count", layers},
		{"embedding_length", hidden},
		{"feed_forward_length", ffn},
		{"context_length", length},
		{"attention.head_count", heads},
		{"attention.head_count_kv", kvHeads},
	} {
		f.text("llama." + p.key)
		f.u32(4) // an unsigned integer
		f.u32(p.value)
	}
	f.text("llama.attention.layer_norm_rms_epsilon")
	f.u32(6) // a float
	f.u32(math.Float32bits(1e-5))
	f.data = append(f.data, w.head...)
	f.align()
	return append(f.data, w.data...)
}

// writer collects the table of tensors and their data.
type writer struct {
	r          *rand.Rand
	types      []quant.Type
	tensors    int
	head, data []byte
}

func (w *writer) u32(v uint32) { w.data = binary.LittleEndian.AppendUint32(w.data, v) }
func (w *writer) u64(v uint64) { w.data = binary.LittleEndian.AppendUint64(w.data, v) }
func (w *writer) half(x float64) {
	w.data = binary.LittleEndian.AppendUint16(w.data, quant.ToHalf(float32(x)))
}
func (w *writer) float(x float64) { w.u32(math.Float32bits(float32(x))) }

func (w *writer) text(s string) {
	w.u64(uint64(len(s)))
	w.data = append(w.data, s...)
}

func (w *writer) align() {
	for len(w.data)%32 != 0 {
		w.data = append(w.data, 0)
	}
}

// tensor enters a tensor in the table.
func (w *writer) tensor(name string, t quant.Type, rows, cols int) {
	w.align()
	var line writer
	line.text(name)
	line.u32(2)
	line.u64(uint64(cols))
	line.u64(uint64(rows))
	line.u32(uint32(t))
	line.u64(uint64(len(w.data)))
	w.head = append(w.head, line.data...)
	w.tensors++
}

func (w *writer) norm(name string) {
	w.tensor(name, quant.F32, 1, hidden)
	for range hidden {
		w.float(1 + 0.2*w.r.NormFloat64())
	}
}

// matrix writes weights around 1/√cols. Codes of quantised types are random, and their scales make the weights that
// large.
func (w *writer) matrix(name string, rows, cols int) {
	t := w.types[w.tensors%len(w.types)]
	w.tensor(name, t, rows, cols)
	size := 1 / math.Sqrt(float64(cols))
	per, bytes := t.Block()
	for range rows * cols / per {
		scale := size * (0.5 + w.r.Float64())
		switch t {
		case quant.F32:
			w.float(size * w.r.NormFloat64())
			continue
		case quant.F16:
			w.half(size * w.r.NormFloat64())
			continue
		case quant.Q8_0:
			w.half(scale / 64)
		case quant.Q4_0:
			w.half(scale / 4)
		case quant.Q4_1:
			w.half(scale / 4)
			w.half(-2 * scale)
		}
		head := 2
		if t == quant.Q4_1 {
			head = 4
		}
		for range bytes - head {
			w.data = append(w.data, byte(w.r.Uint32()))
		}
	}
}

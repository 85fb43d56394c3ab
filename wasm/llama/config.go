package llama

import (
	"fmt"
	"math"

	"kvlens/wasm/step"
	"kvlens/wasm/weights"
)

// maxSize bounds every size that a file states, so that products of three of them cannot overflow. Real models stay
// far below; the tensors' true shapes are compared with the sizes afterwards.
const maxSize = 1 << 20

// Layers and head dimension have bounds of their own: the first stands for many tensors, and a table of rotations, which
// no tensor bounds, is as wide as the second. Real models have up to 256 of either.
const maxBlocks, maxHeadDim = 512, 4096

// Config is what a model's metadata says, checked.
type Config struct {
	step.Shape
	Context   int     // context_length, tokens the model was trained for
	RopeBase  float64 // rope.freq_base
	RopeScale float64 // linear rope scaling: positions are divided by it; 1 is none
}

// meta is the part of a GGUF file's metadata that the config needs.
type meta interface {
	Uint(key string) (uint64, bool)
	Float(key string) (float64, bool)
	String(key string) (string, bool)
	Ints(key string) ([]int64, bool)
	Has(key string) bool
}

// readConfig reads and checks the metadata of a llama model. Vocab stays 0: the embedding's shape gives it.
// Errors are *weights.FormatError and name the key.
func readConfig(m meta) (Config, error) {
	arch, _ := m.String("general.architecture")
	if arch != "llama" {
		return Config{}, bad("general.architecture", "%q is not known, only llama is", arch)
	}
	r := reader{m: m}
	c := Config{RopeScale: 1}
	c.Layers = r.size("llama.block_count", maxBlocks, 0)
	c.Hidden = r.size("llama.embedding_length", maxSize, 0)
	c.FFN = r.size("llama.feed_forward_length", maxSize, 0)
	c.Heads = r.size("llama.attention.head_count", maxSize, 0)
	c.Context = r.size("llama.context_length", math.MaxInt32, 0)
	c.KVHeads = r.perLayer("llama.attention.head_count_kv", c.Layers, c.Heads)
	if r.err != nil {
		return Config{}, r.err
	}
	if c.Hidden%c.Heads != 0 && !m.Has("llama.attention.key_length") {
		return Config{}, bad("llama.attention.head_count", "%d does not divide embedding_length %d", c.Heads, c.Hidden)
	}
	if c.Heads%c.KVHeads != 0 {
		return Config{}, bad("llama.attention.head_count_kv", "%d does not divide head_count %d", c.KVHeads, c.Heads)
	}
	c.HeadDim = r.size("llama.attention.key_length", maxHeadDim, c.Hidden/c.Heads)
	if c.HeadDim > maxHeadDim {
		return Config{}, bad("llama.attention.head_count", "%d heads of %d, at most %d are read", c.Heads, c.HeadDim, maxHeadDim)
	}
	if v := r.size("llama.attention.value_length", maxSize, c.HeadDim); r.err == nil && v != c.HeadDim {
		return Config{}, bad("llama.attention.value_length", "%d differs from key_length %d", v, c.HeadDim)
	}
	c.RotDim = r.size("llama.rope.dimension_count", maxSize, c.HeadDim)
	if r.err == nil && (c.RotDim%2 != 0 || c.RotDim > c.HeadDim) {
		return Config{}, bad("llama.rope.dimension_count", "%d is odd or above the head dim %d", c.RotDim, c.HeadDim)
	}
	c.Eps = float32(r.positive("llama.attention.layer_norm_rms_epsilon", 0))
	if r.err == nil && (c.Eps == 0 || math.IsInf(float64(c.Eps), 0)) {
		return Config{}, bad("llama.attention.layer_norm_rms_epsilon", "is no float32 above 0")
	}
	c.RopeBase = r.positive("llama.rope.freq_base", 10000)
	c.RopeScale = r.ropeScale()
	if n, ok := m.Uint("llama.expert_count"); m.Has("llama.expert_count") && (!ok || n > 0) {
		return Config{}, bad("llama.expert_count", "mixtures of experts are not supported")
	}
	return c, r.err
}

// reader reads numbers and keeps the first error.
type reader struct {
	m   meta
	err error
}

// size reads a positive integer up to limit. A def of 0 makes the key mandatory.
func (r *reader) size(key string, limit uint64, def int) int {
	n, ok := r.m.Uint(key)
	switch {
	case r.err != nil:
		return 1
	case !ok && !r.m.Has(key) && def > 0:
		return def
	case !ok:
		r.err = bad(key, "is missing or not an unsigned integer")
		return 1
	case n == 0 || n > limit:
		r.err = bad(key, "%d is not in 1…%d", n, limit)
		return 1
	}
	return int(n)
}

// perLayer reads a size that may be an array with one entry per layer. Layers of different sizes are refused.
func (r *reader) perLayer(key string, layers, def int) int {
	list, ok := r.m.Ints(key)
	if r.err != nil || !ok {
		return r.size(key, maxSize, def)
	}
	if len(list) != layers {
		r.err = bad(key, "has %d entries for %d layers", len(list), layers)
		return 1
	}
	for _, n := range list {
		if n != list[0] || n < 1 || n > maxSize {
			r.err = bad(key, "layers with different or impossible numbers of heads are not supported")
			return 1
		}
	}
	return int(list[0])
}

// positive reads a finite number above 0. A def of 0 makes the key mandatory.
func (r *reader) positive(key string, def float64) float64 {
	x, ok := r.m.Float(key)
	switch {
	case r.err != nil:
		return 1
	case !ok && !r.m.Has(key) && def > 0:
		return def
	case !ok:
		r.err = bad(key, "is missing or not a number")
		return 1
	case !(x > 0) || math.IsInf(x, 0):
		r.err = bad(key, "%g is not a finite number above 0", x)
		return 1
	}
	return x
}

// ropeScale reads the linear scaling factor; other kinds of scaling are refused, because ignoring them would give a
// model that is wrong in a way that is hard to see.
func (r *reader) ropeScale() float64 {
	kind, ok := r.m.String("llama.rope.scaling.type")
	switch {
	case r.err != nil:
		return 1
	case !ok && r.m.Has("llama.rope.scaling.type"):
		r.err = bad("llama.rope.scaling.type", "is not a string")
		return 1
	case !ok:
		return r.positive("llama.rope.scale_linear", 1)
	case kind == "none" || kind == "":
		return 1
	case kind == "linear":
		return r.positive("llama.rope.scaling.factor", 0)
	}
	r.err = bad("llama.rope.scaling.type", "%q is not known", kind)
	return 1
}

func bad(field, format string, args ...any) *weights.FormatError {
	return &weights.FormatError{Field: field, Msg: fmt.Sprintf(format, args...)}
}

package llama_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/quant"
	"kvlens/wasm/weights"
	"kvlens/web/lab/golden"
)

// masked is the model once more, in plain loops in float64 that share no code with any backend. It keeps all keys and
// values and never drops a token; what a query may look at is told from outside.
type masked struct {
	llama.Config
	w     map[string][]float64
	k, v  [][][][]float64 // [layer][KV head][position][head_dim]
	alive [][][]bool      // [layer][KV head][position]
	// virtual: a token that may not be looked at counts in the mean that stands for all of them.
	virtual bool
	// rank: positions are ranks among the tokens that may be looked at; keys are kept before their rotation.
	rank bool
	// seen and would are the attention of all queries, if it is noted: [layer][head][query][key], to what may be looked at
	// (what a mean stands for has the rest), and to everything.
	note        bool
	seen, would [][][][]float64
}

func newMasked(t testing.TB, path string, c llama.Config) *masked {
	t.Helper()
	f, err := weights.OpenPath(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o := &masked{Config: c, w: map[string][]float64{}}
	for _, tensor := range f.Tensors {
		raw, x := make([]byte, tensor.Size), make([]float32, tensor.Rows*tensor.Cols)
		if _, err := f.ReadAt(raw, tensor.Off); err != nil {
			t.Fatal(err)
		}
		if err := quant.Dequantize(tensor.Type, x, raw); err != nil {
			t.Fatal(err)
		}
		w := make([]float64, len(x))
		for i, v := range x {
			w[i] = float64(v)
		}
		o.w[tensor.Name] = w
	}
	o.reset()
	return o
}

func (o *masked) reset() {
	o.k, o.v, o.alive = make([][][][]float64, o.Layers), make([][][][]float64, o.Layers), make([][][]bool, o.Layers)
	for l := range o.k {
		o.k[l], o.v[l], o.alive[l] = make([][][]float64, o.KVHeads), make([][][]float64, o.KVHeads), make([][]bool, o.KVHeads)
	}
	o.seen, o.would = make([][][][]float64, o.Layers), make([][][][]float64, o.Layers)
	for l := range o.seen {
		o.seen[l], o.would[l] = make([][][]float64, o.Heads), make([][][]float64, o.Heads)
	}
}

// fork is a copy that goes on by itself.
func (o *masked) fork() *masked {
	c := *o
	c.reset()
	for l := range o.k {
		for h := range o.k[l] {
			c.k[l][h] = append([][]float64(nil), o.k[l][h]...)
			c.v[l][h] = append([][]float64(nil), o.v[l][h]...)
			c.alive[l][h] = append([]bool(nil), o.alive[l][h]...)
		}
		for h := range o.seen[l] {
			c.seen[l][h], c.would[l][h] = slices.Clone(o.seen[l][h]), slices.Clone(o.would[l][h])
		}
	}
	return &c
}

// look says which positions may be looked at from now on.
func (o *masked) look(held [][][]int32) {
	for l := range o.alive {
		for h := range o.alive[l] {
			clear(o.alive[l][h])
			for _, p := range held[l][h] {
				o.alive[l][h][p] = true
			}
		}
	}
}

// token computes the logits after one more token.
func (o *masked) token(id int32) []float64 {
	x := append([]float64(nil), o.w["token_embd.weight"][int(id)*o.Hidden:][:o.Hidden]...)
	pos, d, group := len(o.k[0][0]), o.HeadDim, o.Heads/o.KVHeads
	for l := range o.Layers {
		w := func(name string) []float64 { return o.w[fmt.Sprintf("blk.%d.%s.weight", l, name)] }
		in := o.norm(x, w("attn_norm"))
		q, k, v := times(w("attn_q"), in), times(w("attn_k"), in), times(w("attn_v"), in)
		for h := range o.Heads {
			if !o.rank {
				o.rope(q[h*d:][:d], pos)
			}
		}
		att := make([]float64, o.Heads*d)
		for kv := range o.KVHeads {
			if !o.rank {
				o.rope(k[kv*d:][:d], pos)
			}
			o.k[l][kv] = append(o.k[l][kv], k[kv*d:][:d])
			o.v[l][kv] = append(o.v[l][kv], v[kv*d:][:d])
			o.alive[l][kv] = append(o.alive[l][kv], true)
			for h := kv * group; h < (kv+1)*group; h++ {
				seen := o.attend(att[h*d:][:d], q[h*d:][:d], l, kv)
				if o.note {
					o.seen[l][h] = append(o.seen[l][h], seen)
					o.would[l][h] = append(o.would[l][h], o.everything(q[h*d:][:d], l, kv))
				}
			}
		}
		add(x, times(w("attn_output"), att))
		in = o.norm(x, w("ffn_norm"))
		gate, up := times(w("ffn_gate"), in), times(w("ffn_up"), in)
		for i, g := range gate {
			up[i] *= g / (1 + math.Exp(-g))
		}
		add(x, times(w("ffn_down"), up))
	}
	head := o.w["output.weight"]
	if head == nil {
		head = o.w["token_embd.weight"]
	}
	return times(head, o.norm(x, o.w["output_norm.weight"]))
}

func (o *masked) attend(out, q []float64, l, kv int) (seen []float64) {
	keys, values := o.k[l][kv], o.v[l][kv]
	if o.rank {
		keys, q = o.ranked(keys, q, o.alive[l][kv])
	}
	logits := make([]float64, len(keys)+1)
	most, gone := math.Inf(-1), 0.0
	meanK, meanV := make([]float64, len(q)), make([]float64, len(q))
	for j, key := range keys {
		logits[j] = math.Inf(-1)
		if o.alive[l][kv][j] {
			logits[j] = dot(q, key) / math.Sqrt(float64(len(q)))
			most = max(most, logits[j])
			continue
		}
		gone++
		add(meanK, key)
		add(meanV, values[j])
	}
	last := len(keys)
	logits[last] = math.Inf(-1)
	if o.virtual && gone > 0 {
		for c := range meanK {
			meanK[c] /= gone
			meanV[c] /= gone
		}
		logits[last] = dot(q, meanK)/math.Sqrt(float64(len(q))) + math.Log(gone)
		most = max(most, logits[last])
	}
	var sum float64
	for j := range logits {
		logits[j] = math.Exp(logits[j] - most)
		sum += logits[j]
	}
	for j, p := range logits {
		value := meanV
		if j < last {
			value = values[j]
		}
		for c := range out {
			out[c] += p / sum * value[c]
		}
		logits[j] = p / sum
	}
	return logits[:last]
}

// everything is the softmax over all keys, each at its position.
func (o *masked) everything(q []float64, l, kv int) []float64 {
	keys, sum := o.k[l][kv], 0.0
	if o.rank {
		keys, q = o.ranked(keys, q, slices.Repeat([]bool{true}, len(keys)))
	}
	out := make([]float64, len(keys))
	for j, key := range keys {
		out[j] = math.Exp(dot(q, key) / math.Sqrt(float64(len(q))))
		sum += out[j]
	}
	for j := range out {
		out[j] /= sum
	}
	return out
}

// ranked turns the keys that may be looked at to their ranks, and the query to the last of them.
func (o *masked) ranked(keys [][]float64, q []float64, alive []bool) ([][]float64, []float64) {
	out, rank := make([][]float64, len(keys)), 0
	for j, key := range keys {
		out[j] = slices.Clone(key)
		if alive[j] {
			o.rope(out[j], rank)
			rank++
		}
	}
	q = slices.Clone(q)
	o.rope(q, rank-1)
	return out, q
}

func (o *masked) norm(x, w []float64) []float64 {
	scale := 1 / math.Sqrt(dot(x, x)/float64(len(x))+float64(o.Eps))
	out := make([]float64, len(x))
	for i := range x {
		out[i] = x[i] * scale * w[i]
	}
	return out
}

// rope turns pairs (2c, 2c+1), as GGUF files of llama models have them.
func (o *masked) rope(x []float64, pos int) {
	for c := 0; c < o.RotDim; c += 2 {
		sin, cos := math.Sincos(float64(pos) * math.Pow(o.RopeBase, -float64(c)/float64(o.RotDim)) / o.RopeScale)
		x[c], x[c+1] = x[c]*cos-x[c+1]*sin, x[c]*sin+x[c+1]*cos
	}
}

func times(w, x []float64) []float64 {
	out := make([]float64, len(w)/len(x))
	for i := range out {
		out[i] = dot(w[i*len(x):][:len(x)], x)
	}
	return out
}

func dot(a, b []float64) (sum float64) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

func add(to, x []float64) {
	for i, v := range x {
		to[i] += v
	}
}

// Whatever a recipe that keeps positions drops, the compacted cache answers like a cache of everything in which what was
// dropped is masked from the step of its eviction: in the answer, in a second prompt and in the answer to that. The first
// token is the full cache's. Rows 9, 16 and 18 of the pitfalls: masks as long as the prompt, positions counted from what
// is stored, masks from slots.
func TestPitfalls9And16And18MaskEquivalence(t *testing.T) {
	needsScorer(t)
	const prompt, answer, budget = 60, 30, 16
	m := ownTeach(t)
	full := newMasked(t, golden.TeachModel(t), m.Config())
	ids := prose(t, 2*(prompt+answer))
	var first []float64
	for _, id := range ids[:prompt] {
		first = full.token(id)
	}
	tested := 0
	for _, r := range evicting(t) {
		if plan(t, r).Store.Rank {
			continue
		}
		tested++
		t.Run(r.name, func(t *testing.T) {
			s := session(t, m, llama.SessionOptions{
				F32: true, Recipe: r.Recipe, Tables: anyTables(m), Budget: budget, Tokens: prompt + answer,
			})
			o := full.fork()
			o.virtual = s.Plan().Store.Virtual
			prefill(t, s, ids[:prompt])
			golden.Close(t, "first", s.Logits(), first, logitAbs, rel)
			dropped := steps(t, s, o, ids[prompt:][:answer])
			var want []float64
			second := ids[prompt+answer:][:prompt/2]
			for _, id := range second {
				want = o.token(id)
			}
			prefill(t, s, second)
			golden.Close(t, "second prompt", s.Logits(), want, logitAbs, rel)
			dropped += steps(t, s, o, ids[2*prompt:][:answer])
			if dropped < answer/2 {
				t.Errorf("only %d tokens left while decoding", dropped)
			}
		})
	}
	if tested < 8 {
		t.Errorf("%d recipes", tested)
	}
}

// Row 25: positions by rank, with keys rotated when they are read, over a stream that is ten times as long as the cache.
func TestPitfall25StreamByRank(t *testing.T) {
	const budget = 16
	m := teach(t)
	s := session(t, m, llama.SessionOptions{F32: true, Budget: budget, Recipe: policy.Recipe{Method: "streamingllm"}})
	o := newMasked(t, golden.TeachModel(t), m.Config())
	o.rank = true
	ids := prose(t, 10*budget)
	var want []float64
	for _, id := range ids[:budget] {
		want = o.token(id)
	}
	prefill(t, s, ids[:budget])
	golden.Close(t, "first", s.Logits(), want, logitAbs, rel)
	if dropped := steps(t, s, o, ids[budget:]); dropped != 9*budget*m.Config().Layers*m.Config().KVHeads {
		t.Errorf("%d tokens left", dropped)
	}
}

// steps decodes tokens and compares logits; it counts what left.
func steps(t *testing.T, s *llama.Session, o *masked, ids []int32) (dropped int) {
	t.Helper()
	for i, id := range ids {
		before := held(s)
		o.look(before)
		if err := s.Decode(ctx, id); err != nil {
			t.Fatal(err)
		}
		golden.Close(t, fmt.Sprint("step ", i), s.Logits(), o.token(id), logitAbs, rel)
		if t.Failed() {
			t.FailNow()
		}
		for l, heads := range held(s) {
			for h, now := range heads {
				was := append(before[l][h], int32(s.Position()-1))
				dropped += len(was) - len(now)
				for _, p := range now { // what left stays away
					if !slices.Contains(was, p) {
						t.Fatalf("step %d: layer %d, KV head %d: position %d came back", i, l, h, p)
					}
				}
			}
		}
	}
	o.look(held(s))
	return dropped
}

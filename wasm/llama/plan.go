package llama

import (
	"fmt"

	"kvlens/wasm/quant"
	"kvlens/wasm/step"
	"kvlens/wasm/weights"
)

// matrix is a packed matrix that a model needs: one tensor of the file, or several of one layout, one over the other.
type matrix struct {
	layout     quant.Layout
	rows, cols int
	from       []weights.Tensor
	buf        step.Buffer
	slab       int
	off        int64
}

func (m *matrix) tensor() step.Tensor {
	return step.Tensor{Buf: m.buf, Off: m.off, Layout: m.layout, Rows: m.rows, Cols: m.cols}
}

// block is the matrices of one layer.
type block struct {
	attnNorm, attnOut, ffnNorm, ffnDown *matrix
	qkv, gateUp                         []*matrix
}

// plan is every matrix of a model, in the order of the step program.
type plan struct {
	embed, norm, head *matrix
	blocks            []block
	all               []*matrix
	ropeFreqs         *weights.Tensor
}

// planner checks the tensors of a file against the config, and keeps the first error.
type planner struct {
	f    *weights.File
	used map[string]bool
	all  []*matrix
	err  error
}

// newPlan finds and checks every tensor of the model, and sets c.Vocab. Errors are *weights.FormatError and name the
// tensor. A tensor that the model would not use is an error too: leaving out a bias gives wrong answers, not a failure.
func newPlan(f *weights.File, c *Config) (*plan, error) {
	emb, ok := f.Tensor("token_embd.weight")
	if !ok {
		return nil, bad("token_embd.weight", "is missing")
	}
	c.Vocab = emb.Rows
	if n, ok := f.Meta.Uint("llama.vocab_size"); f.Meta.Has("llama.vocab_size") && (!ok || n != uint64(c.Vocab)) {
		return nil, bad("llama.vocab_size", "%d differs from the %d rows of token_embd.weight", n, c.Vocab)
	}
	if c.Vocab > maxSize {
		return nil, bad("token_embd.weight", "has %d rows, more than %d", c.Vocab, maxSize)
	}
	for _, pair := range f.Meta.Pairs() {
		if pair.Key == "tokenizer.ggml.tokens" && pair.Len > c.Vocab {
			return nil, bad(pair.Key, "has %d tokens for the %d rows of token_embd.weight", pair.Len, c.Vocab)
		}
	}
	p := planner{f: f, used: map[string]bool{}}
	out := &plan{blocks: make([]block, c.Layers)}
	out.embed = p.one("token_embd.weight", c.Vocab, c.Hidden)
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	for i := range out.blocks {
		w := func(name string) string { return fmt.Sprintf("blk.%d.%s.weight", i, name) }
		out.blocks[i] = block{
			attnNorm: p.norm(w("attn_norm"), c.Hidden),
			qkv:      p.stack(c.Hidden, part{w("attn_q"), q}, part{w("attn_k"), kv}, part{w("attn_v"), kv}),
			attnOut:  p.one(w("attn_output"), c.Hidden, q),
			ffnNorm:  p.norm(w("ffn_norm"), c.Hidden),
			gateUp:   p.stack(c.Hidden, part{w("ffn_gate"), c.FFN}, part{w("ffn_up"), c.FFN}),
			ffnDown:  p.one(w("ffn_down"), c.Hidden, c.FFN),
		}
	}
	out.norm = p.norm("output_norm.weight", c.Hidden)
	out.head = out.embed
	if _, ok := f.Tensor("output.weight"); ok {
		out.head = p.one("output.weight", c.Vocab, c.Hidden)
	}
	if t, ok := f.Tensor("rope_freqs.weight"); ok {
		t = p.tensor("rope_freqs.weight", 1, c.RotDim/2)
		if p.err == nil && t.Type != quant.F32 {
			return nil, bad(t.Name, "is not F32")
		}
		out.ropeFreqs = &t
	}
	if p.err != nil {
		return nil, p.err
	}
	for _, t := range f.Tensors {
		if !p.used[t.Name] {
			return nil, bad(t.Name, "is not a tensor of a llama model")
		}
	}
	out.all = p.all
	return out, nil
}

// part is a member of a stack.
type part struct {
	name string
	rows int
}

// tensor finds a tensor of the given shape.
func (p *planner) tensor(name string, rows, cols int) weights.Tensor {
	t, ok := p.f.Tensor(name)
	if p.err != nil {
		return t
	}
	if !ok {
		p.err = bad(name, "is missing")
	} else if t.Rows != rows || t.Cols != cols {
		p.err = bad(name, "is %d × %d, the metadata ask for %d × %d", t.Rows, t.Cols, rows, cols)
	}
	p.used[name] = true
	return t
}

// stack finds tensors that lie one over the other, and merges neighbours of one layout into one matrix.
func (p *planner) stack(cols int, parts ...part) []*matrix {
	var out []*matrix
	for _, part := range parts {
		t := p.tensor(part.name, part.rows, cols)
		if p.err != nil {
			return nil
		}
		layout, err := quant.LayoutOf(t.Type)
		if err != nil {
			p.err = bad(part.name, "%v", err)
			return nil
		}
		if n := len(out); n > 0 && out[n-1].layout == layout {
			out[n-1].rows += t.Rows
			out[n-1].from = append(out[n-1].from, t)
			continue
		}
		m := &matrix{layout: layout, rows: t.Rows, cols: cols, from: []weights.Tensor{t}}
		out = append(out, m)
		p.all = append(p.all, m)
	}
	return out
}

func (p *planner) one(name string, rows, cols int) *matrix {
	if s := p.stack(cols, part{name, rows}); s != nil {
		return s[0]
	}
	return nil
}

// norm finds the weights of a norm, which every known converter stores in F32.
func (p *planner) norm(name string, cols int) *matrix {
	m := p.one(name, 1, cols)
	if p.err == nil && m.layout != quant.LayoutF32 {
		p.err = bad(name, "is not F32")
	}
	return m
}

// slabAlign is the alignment of a matrix in its slab: what GPUs ask of a storage buffer's offset.
const slabAlign = 256

// place puts the matrices into as few slabs as maxBuffer allows (0: one slab) and returns the slabs' sizes in bytes. A
// matrix that is larger than maxBuffer gives a step.ErrMemory.
func (p *plan) place(maxBuffer int64) ([]int64, error) {
	sizes := []int64{0}
	for _, m := range p.all {
		need := m.layout.Size(m.rows, m.cols)
		last := len(sizes) - 1
		off := align(sizes[last], slabAlign)
		if maxBuffer > 0 && off+need > maxBuffer {
			if need > maxBuffer {
				return nil, fmt.Errorf("%s: %w: %d bytes in one buffer, the device allows %d", m.from[0].Name, step.ErrMemory, need, maxBuffer)
			}
			sizes, off, last = append(sizes, 0), 0, last+1
		}
		m.slab, m.off = last, off
		sizes[last] = off + need
	}
	return sizes, nil
}

func stackOf(ms []*matrix) step.Stack {
	s := make(step.Stack, len(ms))
	for i, m := range ms {
		s[i] = m.tensor()
	}
	return s
}

// ops is the model's step program. Embed comes first, then opsPerLayer operations a layer, then Norm and Head.
func (p *plan) ops() []step.Op {
	ops := []step.Op{step.Embed{Table: p.embed.tensor()}}
	for i, b := range p.blocks {
		ops = append(ops,
			step.QKV{Layer: i, Norm: b.attnNorm.tensor(), W: stackOf(b.qkv)},
			step.Store{Layer: i},
			step.Attend{Layer: i},
			step.Project{Layer: i, In: step.A, W: b.attnOut.tensor()},
			step.GateUp{Layer: i, Norm: b.ffnNorm.tensor(), W: stackOf(b.gateUp)},
			step.Project{Layer: i, In: step.F, W: b.ffnDown.tensor()},
		)
	}
	return append(ops, step.Norm{W: p.norm.tensor()}, step.Head{W: p.head.tensor()})
}

// Offsets of a layer's operations from layerOp.
const (
	opQKV = iota
	opStore
	opAttend
	opEnd       = 6
	opsPerLayer = 6
)

// layerOp is the index of the first operation of a layer in the program.
func layerOp(layer int) int { return 1 + layer*opsPerLayer }

package kernel

import (
	"fmt"
	"math"
	"strconv"

	"kvlens/shaders"
	"kvlens/wasm/gpu"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// attend is attention in prefill, and its three parts in decode.
func (e *exec) attend(layer int) *operation {
	s := &e.shape
	shape := looks(s, layer)
	out := &operation{kind: attending, layer: layer}
	parts, top := e.splits(), "top_lanes"
	if e.b.lib.Plain {
		top = "top"
	}
	e.add(&out.nodes, e.b.lib.attend(s, "gone"), shape...)
	grid := func() (x, y int) { return parts, s.Heads }
	e.add(&out.stored, node{
		variant: shaders.Variant{Kernel: "score", Includes: map[string]string{"reads": "all"}}, pages: true, grid: grid,
	}, shape...)
	e.add(&out.stored, node{
		variant: shaders.Variant{Kernel: "weigh", Includes: map[string]string{"top": top, "left": "gone"}}, pages: true, grid: grid,
	}, shape...)
	e.add(&out.stored, node{
		variant: shaders.Variant{Kernel: "reduce", Consts: map[string]string{"SPLITS": strconv.Itoa(parts) + "u"}},
		threads: func(int) int { return s.Heads * s.HeadDim },
	}, uint32(s.Heads), uint32(s.HeadDim))
	return out
}

// attend is attention in prefill; left says what stands for the tokens that left a list.
func (l *Library) attend(s *step.Shape, left string) node {
	merge, lanes := "merge", 16
	if l.Plain {
		merge, lanes = "alone", 1
	}
	return node{
		variant: shaders.Variant{
			Kernel: "attend", Includes: map[string]string{"merge": merge, "left": left},
			Consts: map[string]string{"PAIRS": strconv.Itoa(s.HeadDim/2) + "u"},
		},
		pages:   true,
		threads: func(rows int) int { return rows * s.Heads * lanes },
	}
}

// looks is how attention's parameters begin.
func looks(s *step.Shape, layer int) []uint32 {
	scale := float(float32(1 / math.Sqrt(float64(s.HeadDim))))
	return []uint32{uint32(layer), uint32(s.Heads), uint32(s.KVHeads), uint32(s.HeadDim), scale}
}

// attend adds a prompt's attention where a token stands for those that left a list; otherwise it is the program's own.
func (k *keeper) attend(layer int) {
	if !k.plan.Store.Virtual {
		return
	}
	n := k.e.b.lib.attend(&k.e.shape, "mean")
	var made *node
	k.add(&made, Stage{Variant: n.choose(k.s, 1), Params: looks(&k.e.shape, layer)}, source{})
	made.grid, made.threads = nil, n.threads
	k.layers[layer].attend = []*node{made}
}

// output is the output projection of the recorded step, which adds up the parts of attention.
func (e *exec) output(to *[]*node, t step.Tensor) error {
	s := &e.shape
	parts, err := e.b.weights(t, s.Hidden, s.Heads*s.HeadDim)
	if err != nil || len(parts) != 1 {
		return err // without a node of its own, the step falls back on reduce and matmul
	}
	file, lanes := e.b.lib.product(t.Layout)
	w := parts[0]
	e.add(to, node{
		variant: shaders.Variant{
			Kernel: "output", Includes: map[string]string{"layout": layoutNames[t.Layout], "product": file},
			Consts: map[string]string{"SPLITS": strconv.Itoa(e.splits()) + "u"},
		},
		codes: w.codes, scales: w.scales, y: step.X,
		threads: func(int) int { return w.rows * lanes },
	}, uint32(w.rows), uint32(t.Cols), w.codesAt, w.scalesAt, uint32(s.Heads), uint32(s.HeadDim))
	return nil
}

func (e *exec) splits() int {
	if e.b.lib.Plain {
		return plainSplits
	}
	return splits
}

func (e *exec) store(to *[]*node, layer int, recorded bool) {
	s := &e.shape
	e.add(to, node{
		variant: shaders.Variant{Kernel: "store", Consts: map[string]string{"RECORDED": strconv.FormatBool(recorded)}},
		pages:   true,
		threads: func(rows int) int { return rows * s.KVHeads * s.HeadDim / 2 },
	}, uint32(layer), uint32(s.KVHeads), uint32(s.HeadDim), uint32(s.RotDim), flag(s.Neox))
}

// AttentionRow writes the softmax row of one chunk row of Q over the layer's stored tokens: out is [n_heads][slots].
// Dead slots and tokens after the row's own position get 0.
func (e *exec) AttentionRow(a *step.Args, layer, row int, out [][]float32) error {
	if len(out) != e.shape.Heads {
		return failed("attention row: for %d of %d heads", len(out), e.shape.Heads)
	}
	logits, err := e.rowLogits(a, layer, row)
	if err != nil {
		return err
	}
	for h := range out {
		n := a.Cache.List(layer, h/(e.shape.Heads/e.shape.KVHeads)).Slots
		if len(out[h]) < n {
			return failed("attention row: %d numbers for %d slots", len(out[h]), n)
		}
		softmax(out[h][:n], logits[h])
	}
	return nil
}

// rowLogits computes and reads the logits [n_heads][slots] of one chunk row.
func (e *exec) rowLogits(a *step.Args, layer, row int) ([][]float32, error) {
	if a.Cache == nil || a.Arena == 0 {
		return nil, failed("attention row: no cache")
	}
	if row < 0 || row >= e.chunk || layer < 0 || layer >= e.shape.Layers {
		return nil, failed("attention row %d of %d in layer %d", row, e.chunk, layer)
	}
	s, err := e.session(a)
	if err != nil {
		return nil, err
	}
	e.endOn(s)
	var score *node
	for _, o := range e.ops {
		if o.kind == attending && o.layer == layer {
			score = o.stored[0]
		}
	}
	if score == nil {
		return nil, failed("attention row: the program has no attention in layer %d", layer)
	}
	err = e.header(s, func(h []uint32) {
		h[wordRows], h[wordQuery], h[wordStep] = 1, uint32(row), 0
		h[wordLast] = uint32(a.Pos + a.From + row)
	})
	if err == nil {
		err = e.lengths(s, a.Cache, layer)
	}
	if err == nil {
		err = e.tables(s, a.Cache, extent{})
	}
	if err != nil {
		return nil, err
	}
	d, err := e.dispatch(score, s, 1)
	if err != nil {
		return nil, err
	}
	if err := e.b.dev.Run([]gpu.Dispatch{d}); err != nil {
		return nil, fmt.Errorf("webgpu: attention row: %w", err)
	}
	capacity := s.capacity()
	logits := make([]float32, e.shape.Heads*capacity)
	if err := e.b.dev.Read(s.scores.buf, 0, quant.Bytes(logits)); err != nil {
		return nil, fmt.Errorf("webgpu: attention row: %w", err)
	}
	out := make([][]float32, e.shape.Heads)
	for h := range out {
		n := a.Cache.List(layer, h/(e.shape.Heads/e.shape.KVHeads)).Slots
		out[h] = logits[h*capacity:][:n]
	}
	return out, nil
}

// softmax in float64; logits of slots that do not count give 0.
func softmax(out, logits []float32) {
	top := math.Inf(-1)
	for _, v := range logits {
		top = max(top, float64(v))
	}
	sum := 0.0
	for _, v := range logits {
		if v > lowest {
			sum += math.Exp(float64(v) - top)
		}
	}
	for i, v := range logits {
		out[i] = 0
		if v > lowest {
			out[i] = float32(math.Exp(float64(v)-top) / sum)
		}
	}
}

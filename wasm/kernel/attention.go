package kernel

import (
	"math"
	"strconv"

	"kvlens/shaders"
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

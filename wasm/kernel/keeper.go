package kernel

import (
	"fmt"
	"slices"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/shaders"
	"kvlens/wasm/gpu"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// keeper is a plan's kernels at work in one session: a node for each stage of each layer, and what they work on, which
// ends with the plan or the session.
type keeper struct {
	e       *exec
	s       *session
	plan    *policy.Plan
	tables  *policy.Tables
	layers  []planned
	gather  *node // positions of all lists
	nodes   []*node
	params  *memory
	buffers map[string]*memory // by the variables of the shaders
	earlier [2][]*memory       // what was noted of each layer: what its tokens are worth, and their weights
	wanted  map[string]bool    // of them, those that some node binds

	lists []list       // what the device knows of each list
	from  *cache.Cache // whose ranks it has
	epoch int          // at which
	c     Candidates   // of the layer at work
	a     step.Args    // of the last call
	layer int          // that was begun last
	seen  int          // rows of it that were observed
	kept  []bool       // layers that were stored in this prompt
	lost  int          // the layer of which what leaves has not joined its sums yet; −1 between Keep and Select

	turn    []step.Rule     // of the token that is decoded operation by operation; nil between tokens
	again   bool            // it is one that the lists have already
	entries int             // tokens of a list that a step's log has room for
	leave   [][]int         // what left the lists of its layers
	plain   map[*node]*node // nodes of the program as they leave keys before RoPE
}

// planned is the nodes of one layer, by the fields of Scoring and Selection.
type planned struct {
	*Scoring
	observe, input, share, choose, absorb, store, compact []*node
	noted                                                 []*node // after choose, where layers share a budget
	again, shareAgain, notedAgain                         []*node // choose, share and noted of a layer that shrinks
	stored, query, logits, values, row, rule, attend      []*node
}

// list is how long a list is on the device.
type list struct{ live, slots, absorbed int }

// source says where a node of a plan finds what other nodes find elsewhere.
type source struct {
	k       *keeper
	layer   int
	past    bool // queries are those of the window, not those of the chunk
	earlier bool // worth, and weights, are what was noted of the layer
	weights bool // it is weights that are noted, in place of worth
	apart   bool // stays and kept are others: those of a layer that was selected are still to be stored
}

// keeper finds or makes the kernels of the plan that is followed.
func (e *exec) keeper(s *session) (*keeper, error) {
	if e.plan == nil {
		return nil, failed("no plan is followed")
	}
	if s.keeper != nil {
		return s.keeper, nil
	}
	k := &keeper{
		e: e, s: s, plan: e.plan, tables: e.headTables, layers: make([]planned, e.shape.Layers), layer: -1,
		buffers: map[string]*memory{}, wanted: map[string]bool{}, lists: make([]list, s.geo.Layers*s.geo.KVHeads),
		kept: make([]bool, e.shape.Layers), leave: make([][]int, e.shape.Layers), plain: map[*node]*node{},
	}
	for layer := range k.layers {
		if err := k.stages(layer); err != nil {
			return nil, err
		}
	}
	k.add(&k.gather, Stage{
		Variant: shaders.Variant{Kernel: "positions"},
		threads: func(c *Candidates) int { return c.Stride() * len(k.lists) },
	}, source{})
	if err := k.open(); err != nil {
		k.close()
		return nil, err
	}
	e.endOn(s)
	e.unrecord(s)
	s.keeper = k
	return k, nil
}

// stages makes the nodes of a layer.
func (k *keeper) stages(layer int) error {
	e, p := k.e, &k.layers[layer]
	lib, shape := e.b.lib, &e.shape
	sc := lib.Scoring(k.plan, shape, &k.s.geo, layer)
	var output step.Tensor
	if layer < len(e.outputs) {
		output = e.outputs[layer]
	}
	outputs, err := sc.Outputs(e.b, output)
	if err != nil {
		return err
	}
	sel := lib.Selection(k.plan, shape, &k.s.geo, layer, k.plan.OneSet())
	all := func(to *[]*node, stages []Stage, from source) {
		for _, st := range stages {
			var n *node
			k.add(&n, st, from)
			*to = append(*to, n)
		}
	}
	p.Scoring = sc
	kind := k.plan.Score.Kind
	all(&p.observe, sc.Observe, source{})
	all(&p.input, sc.Input, source{past: kind == policy.ScoreWindow || kind == policy.ScoreIndicator})
	all(&p.input, outputs, source{})
	all(&p.share, sel.Share, source{})
	all(&p.choose, sel.Store[:1], source{})
	all(&p.absorb, sel.Store[1:len(sel.Store)-1], source{})
	all(&p.store, sel.Store[len(sel.Store)-1:], source{})
	all(&p.compact, sel.Compact, source{apart: true})
	all(&p.stored, sc.Stored, source{})
	all(&p.query, sc.Query, source{})
	all(&p.logits, sel.Logits, source{})
	all(&p.values, sel.Values, source{})
	all(&p.row, sc.Row, source{})
	all(&p.rule, sel.Rule, source{})
	k.attend(layer)
	if k.plan.Layers.Kind != policy.LayersCake {
		return nil
	}
	earlier := source{earlier: true, layer: layer}
	all(&p.again, sel.Store[:1], earlier)
	all(&p.shareAgain, sel.Share, earlier)
	for again, to := range map[string]*[]*node{"false": &p.noted, "true": &p.notedAgain} {
		note := []Stage{{
			Variant: shaders.Variant{Kernel: "remember", Consts: map[string]string{"AGAIN": again}},
			Params:  []uint32{uint32(layer), uint32(shape.KVHeads)}, groups: [2]int{shape.KVHeads, 1},
		}}
		all(to, note, source{layer: layer})
		if k.plan.Select.Kind == policy.SelectCritical {
			all(to, note, source{layer: layer, weights: true})
		}
	}
	return nil
}

// add makes the node of a stage.
func (k *keeper) add(to **node, st Stage, from source) {
	from.k = k
	for name, on := range map[string]bool{"queries": from.past, "moved to": from.apart, "moved from": from.apart} {
		if on {
			k.wanted[name] = true
		}
	}
	n := &node{
		variant: st.Variant, params: st.Params, at: int64(len(k.nodes)) * paramAlign, codes: st.codes, scales: st.scales,
		groups: map[groupKey]boundGroup{}, from: from,
	}
	if st.threads != nil {
		n.threads = func(int) int { return st.threads(&k.c) }
	} else {
		n.grid = func() (x, y int) { return st.groups[0], st.groups[1] }
	}
	k.nodes = append(k.nodes, n)
	*to = n
}

// open compiles the kernels and writes their parameters.
func (k *keeper) open() (err error) {
	variants := make([]shaders.Variant, len(k.nodes))
	words := make([]uint32, len(k.nodes)*paramAlign/4)
	for i, n := range k.nodes {
		variants[i] = n.variant
		copy(words[i*paramAlign/4:], n.params)
	}
	lib := k.e.b.lib
	if err := lib.compile(variants...); err != nil {
		return err
	}
	for _, v := range variants {
		p, err := lib.get(v)
		if err != nil {
			return err
		}
		for _, b := range p.bindings {
			k.wanted[b.Name] = true
		}
	}
	if k.params, err = k.e.b.alloc(cache.Aux, "parameters of the plan", int64(len(words))*4); err != nil {
		return err
	}
	return k.e.b.dev.Write(k.params.buf, 0, quant.Bytes(words))
}

// close frees what the plan took.
func (k *keeper) close() {
	if k == nil {
		return
	}
	if k.e.weighed == k {
		k.e.weighed = nil
	}
	k.e.b.release(k.params)
	for _, m := range k.buffers {
		k.e.b.release(m)
	}
	for _, m := range slices.Concat(k.earlier[0], k.earlier[1]) {
		k.e.b.release(m)
	}
}

// match drops the kernels of a session that are of another plan than the one that is followed. Those of sessions that rest
// stay, so that sessions can take turns.
func (e *exec) match(s *session) {
	k := s.keeper
	if k == nil || e.plan != nil && *e.plan == *k.plan && e.headTables == k.tables {
		return
	}
	e.endOn(s)
	e.unrecord(s)
	k.close()
	s.keeper = nil
}

// reserve makes room in all buffers for the candidates at work.
func (k *keeper) reserve() error {
	for name := range k.wanted {
		words, kind := k.words(name)
		if m := k.buffers[name]; words == 0 || m != nil && m.size >= int64(words)*4 {
			continue
		}
		k.e.b.release(k.buffers[name])
		delete(k.buffers, name)
		m, err := k.e.b.alloc(kind, name, int64(words)*4)
		if err != nil {
			return fmt.Errorf("webgpu: plan: %w", err)
		}
		k.buffers[name] = m
	}
	for i, wanted := range [2]bool{k.wanted["earlier"], k.wanted["earlier"] && k.wanted["weights"]} {
		for wanted && len(k.earlier[i]) < len(k.layers) {
			m, err := k.e.b.alloc(cache.Scratch, "earlier", int64(k.e.shape.KVHeads*k.s.capacity())*4)
			if err != nil {
				return fmt.Errorf("webgpu: plan: %w", err)
			}
			k.earlier[i] = append(k.earlier[i], m)
		}
	}
	return nil
}

// words is how long a buffer is, 0 if it is none of the plan's. Most follow from the cap; what belongs to the candidates
// of a layer is as long as its keys and values are.
func (k *keeper) words(name string) (int, cache.Kind) {
	s, capacity := &k.e.shape, k.s.capacity()
	row := max(k.c.Stride(), capacity)
	switch name {
	case "tokens":
		return len(k.c.Words()), cache.Aux
	case "lists":
		return len(k.lists)*ListWords + logRoom(len(k.lists)), cache.Aux
	case "ranks":
		return len(k.lists) * capacity, cache.Aux
	case "positions":
		return len(k.lists) * capacity, cache.Aux
	case "stays", "by_rank":
		return s.KVHeads * row, cache.Scratch
	case "moved to", "moved from":
		return s.KVHeads * capacity, cache.Scratch
	case "kept":
		return s.KVHeads * (row + 1), cache.Scratch
	case "counts":
		return s.KVHeads, cache.Scratch
	case "queries":
		return k.plan.Score.Window * s.Heads * s.HeadDim, cache.Scratch
	}
	c, words := k.c, 0
	c.Queries = max(1, k.plan.Score.Window)
	if k.plan.Score.Kind == policy.ScoreColumns {
		c.Queries = k.e.chunk
	}
	c.Scored = make([]int, s.Heads)
	for layer := range k.layers {
		words = max(words, k.layers[layer].Floats(name, &c, capacity))
	}
	return words, cache.Scratch
}

// binding finds the buffer behind a variable of a plan's kernel, if the plan has it.
func (f *source) binding(name string, n *node) (gpu.Binding, bool) {
	k := f.k
	switch {
	case name == "p":
		return gpu.Binding{Buf: k.params.buf, Off: n.at, Size: paramAlign}, true
	case name == "q" && f.past:
		name = "queries"
	case f.apart && (name == "stays" || name == "kept"):
		name = map[string]string{"stays": "moved to", "kept": "moved from"}[name]
	case name == "earlier" && f.weights, name == "weights" && f.earlier:
		return gpu.Binding{Buf: k.earlier[1][f.layer].buf}, true
	case name == "earlier", name == "worth" && f.earlier:
		return gpu.Binding{Buf: k.earlier[0][f.layer].buf}, true
	case name == "worth" && f.weights:
		name = "weights"
	}
	if m := k.buffers[name]; m != nil {
		return gpu.Binding{Buf: m.buf}, true
	}
	return gpu.Binding{}, false
}

// forget drops the groups that bind a buffer.
func (k *keeper) forget(buf gpu.Buffer) {
	if k == nil {
		return
	}
	drop := func(n *node) {
		for key, g := range n.groups {
			if slices.Contains(g.buffers, buf) {
				k.e.endOn(k.s)
				k.e.unrecord(k.s)
				delete(n.groups, key)
			}
		}
	}
	for _, n := range k.nodes {
		drop(n)
	}
	for _, n := range k.plain {
		drop(n)
	}
}

// bounds are what keeps the bounds of a layer's pages after rows were stored.
func (e *exec) bounds(s *session, a *step.Args, layer int) ([]*node, error) {
	if e.plan == nil || e.plan.Store.PageIn(layer) < 1 || s.geo.Bound < 1 {
		return nil, nil
	}
	k, err := e.keeper(s)
	if err != nil {
		return nil, err
	}
	k.c.Slots = 0
	for h := range e.shape.KVHeads {
		k.c.Slots = max(k.c.Slots, a.Cache.List(layer, h).Slots)
	}
	return k.layers[layer].stored, nil
}

// run submits nodes.
func (k *keeper) run(nodes ...[]*node) error {
	var list []gpu.Dispatch
	for _, n := range slices.Concat(nodes...) {
		d, err := k.e.dispatch(n, k.s, 1)
		if err != nil {
			return err
		}
		list = append(list, d)
	}
	if len(list) == 0 {
		return nil
	}
	if err := k.e.b.dev.Run(list); err != nil {
		return fmt.Errorf("webgpu: plan: %w", err)
	}
	return nil
}

// write sets words of one of the plan's buffers.
func (k *keeper) write(name string, at int, words []uint32) error {
	m := k.buffers[name]
	if m == nil || int64(at+len(words))*4 > m.size {
		return failed("%d words at %d of %s", len(words), at, name)
	}
	if err := k.e.b.dev.Write(m.buf, int64(at)*4, quant.Bytes(words)); err != nil {
		return fmt.Errorf("webgpu: plan: %w", err)
	}
	return nil
}

package kernel_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/cache/policy/stage"
	"kvlens/wasm/gpu/gputest"
	"kvlens/wasm/kernel"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref"
	"kvlens/wasm/ref/reftest"
	"kvlens/wasm/step"
)

// What scoring and selection keep of a layer is what a run keeps, under every registered recipe and wrapper, in at most five
// dispatches; expected attention, adaptive head budgets and the weight of values take one more each.
func TestRecipes(t *testing.T) {
	dev := gputest.Open(t)
	libs := map[bool]*kernel.Library{false: newLibrary(dev), true: newLibrary(dev)}
	libs[false].Plain, libs[true].Plain = false, true
	for _, m := range policy.Methods() {
		if m.Wrapper {
			continue
		}
		wraps := [][]policy.Wrap{nil}
		for _, w := range policy.Methods() {
			if w.Wrapper {
				wraps = append(wraps, []policy.Wrap{{Name: w.Name}})
			}
		}
		for _, w := range wraps {
			recipe := policy.Recipe{Method: m.Name, Wraps: w}
			p, err := recipe.Plan()
			if err != nil {
				continue // a wrapper that this method refuses
			}
			for alike, tokens := range map[bool]int{false: 8, true: 5} {
				r := newScoreRig(t, libs[alike], dev, cache.F16, alike, false, false)
				r.keep(fmt.Sprintf("%s %v, alike %v", m.Name, w, alike), *p, tokens)
				r.close()
			}
		}
	}
}

// short is a plan for prompts as short as the tests'.
func short(p policy.Plan) *policy.Plan {
	w := p.Score.Window
	p.Score.Window, p.Score.Future, p.Score.SkipLayers = min(w, 4), min(p.Score.Future, 5), 0
	if w > 0 && p.Protect.Recent == w {
		p.Protect.Recent = p.Score.Window
	}
	p.Protect.Sinks, p.Select.Chunk = min(p.Protect.Sinks, 2), min(p.Select.Chunk, 3)
	return &p
}

// keep scores and selects a layer on the device, with as many tokens of each list as a run keeps.
func (r *scoreRig) keep(name string, plan policy.Plan, tokens int) {
	r.t.Helper()
	s, p := &r.shape, short(plan)
	rows := func() [][]float32 {
		out := make([][]float32, s.Layers)
		for l := range out {
			for range s.Heads {
				out[l] = append(out[l], r.rng.Float32())
			}
		}
		return out
	}
	tables := &policy.Tables{
		Retrieval: rows(), Semantic: rows(), Induction: rows(), Echo: rows(), Sink: rows(), Local: rows(), Errors: []float32{.3, .7},
	}
	if p.Heads.Kind == policy.HeadsMask { // fewer sinks where there is little room
		p.Protect.Sinks = min(p.Protect.Sinks, max(1, tokens/4))
	}
	stride := r.c.Stride()
	for h := range r.heads {
		c := &r.heads[h]
		for range c.Pos {
			c.OutL1 = append(c.OutL1, r.rng.Float32())
		}
	}
	in := r.worth(p, tables)
	run, err := policy.NewRun(p, r.policyShape(), policy.Budget{Tokens: tokens, Reserve: 1}, tables)
	r.must(err)
	run.Prompt(r.rows)
	var keeps []policy.Keep
	for layer := range s.Layers {
		keeps, err = run.Layer(layer, in, policy.GoLoops)
		r.must(err)
	}
	kept := keeps[len(keeps)-1].Heads
	if p.Score.Kind == policy.ScoreRandom || p.Score.Kind == policy.ScoreNone {
		r.upload("worth", quant.Bytes(r.known(p, stride)))
	}

	x := r.lib.Selection(p, s, &r.geo, scoreLayer, false)
	sc := r.lib.Scoring(p, s, &r.geo, scoreLayer)
	most, n := 5, len(sc.Observe)+len(sc.Input)+len(x.Share)+len(x.Store)
	if p.Score.Kind == policy.ScoreExpected {
		most++
	}
	if p.Heads.Kind == policy.HeadsAdaptive {
		most++
	}
	if p.Select.Kind == policy.SelectCritical {
		most, n = most+1, n+1 // outputs, which takes a model's weights
	}
	if n > most {
		r.t.Errorf("%s: %d dispatches", name, n)
	}
	quotas := make([]kernel.Quota, s.KVHeads)
	weights := make([]float32, s.KVHeads*stride)
	for h := range quotas {
		c := &r.heads[h]
		quotas[h] = r.quota(p, c, len(kept[h]))
		copy(weights[h*stride:], c.OutL1)
	}
	if p.Reduce.Kind == policy.ReduceLayer && r.c.Same { // values of one set count as their mean
		for j := range r.heads[0].OutL1 {
			mean := (weights[j] + weights[stride+j]) / 2
			weights[j], weights[stride+j] = mean, mean
		}
	}
	r.upload("weights", quant.Bytes(weights))
	r.tell(quotas)
	for h, got := range r.choose(x, sc) {
		if want := kept[h]; !slices.Equal(got, want) {
			r.t.Errorf("%s: list %d keeps %v, want %v", name, h, got, want)
		}
	}
}

// tell uploads what the host tells of the layer's lists.
func (r *scoreRig) tell(quotas []kernel.Quota) {
	r.t.Helper()
	s, stride := &r.shape, r.c.Stride()
	var lists []uint32
	ranks := slices.Repeat([]uint32{kernel.NoRank}, s.Layers*s.KVHeads*r.room)
	for i := range s.Layers * s.KVHeads {
		h := i % s.KVHeads
		l, q := r.cache.List(scoreLayer, h), quotas[h]
		q.Live, q.Slots, q.New, q.Stride = l.Live, l.Slots, r.rows, stride
		lists = append(lists, q.Words()...)
		for rank, slot := range r.c.Stored[h] {
			ranks[i*r.room+int(slot)] = uint32(rank)
		}
	}
	r.upload("lists", quant.Bytes(lists))
	r.upload("ranks", quant.Bytes(ranks))
	for _, name := range []string{"stays", "kept"} {
		r.upload(name, quant.Bytes(make([]uint32, s.KVHeads*(max(stride, r.room)+1))))
	}
}

// choose selects on the device, and gives what stays of each list.
func (r *scoreRig) choose(x *kernel.Selection, sc *kernel.Scoring) [][]int32 {
	r.t.Helper()
	r.run(sc, x.Store[:1])
	heads, stride := r.shape.KVHeads, r.c.Stride()
	got := make([]int32, heads*(stride+1))
	r.must(r.dev.Read(r.bufs["kept"], 0, quant.Bytes(got)))
	kept := make([][]int32, heads)
	for h := range kept {
		kept[h] = got[h*stride:][:min(int(got[heads*stride+h]), stride)]
	}
	return kept
}

// quota is what the host tells of a list that keeps so many tokens.
func (r *scoreRig) quota(p *policy.Plan, c *policy.Candidates, limit int) kernel.Quota {
	n, first, recent := len(c.Pos), 0, max(p.Protect.Recent, int(p.Protect.Part*float64(limit)))
	if p.Score.Kind == policy.ScoreNone {
		recent = limit
	}
	for first < n && int(c.Pos[first]) < p.Protect.Sinks {
		first++
	}
	q := kernel.Quota{Limit: limit}
	q.Oldest, q.Newest = stage.Guard(n, first, recent, limit)
	q.Lead = max(0, int(p.Select.First*float64(limit))-min(n, q.Oldest+q.Newest))
	return q
}

// known is what the host knows tokens to be worth: a hash, or nothing.
func (r *scoreRig) known(p *policy.Plan, stride int) []float32 {
	worth := slices.Repeat([]float32{kernel.Invalid}, r.shape.KVHeads*stride)
	for h, c := range r.heads {
		row := worth[h*stride:][:len(c.Pos)]
		clear(row)
		if p.Score.Kind == policy.ScoreRandom {
			stage.Random(row, c.Pos, p.Score.Seed, scoreLayer, h)
		}
	}
	if p.Select.Kind == policy.SelectChunks && p.Heads.Kind == policy.HeadsUniform && r.c.Same {
		for j := range stride {
			mean := (worth[j] + worth[stride+j]) / 2
			worth[j], worth[stride+j] = mean, mean
		}
	}
	return worth
}

// recipes are all methods under which tokens leave, and each wrapper around some of them.
func recipes(t *testing.T) (out []policy.Recipe) {
	var wrapped []policy.Recipe
	for at, m := range policy.Methods() {
		r := policy.Recipe{Method: m.Name}
		p, err := r.Plan()
		if err != nil || p.Decode.Kind == policy.DecodeStop {
			continue // a wrapper, or nothing ever leaves, and the host gives slots
		}
		out = append(out, r)
		for i, w := range policy.Methods() {
			r.Wraps = []policy.Wrap{{Name: w.Name}}
			if _, err := r.Plan(); err == nil && (at+i)%5 < 2 {
				wrapped = append(wrapped, r)
			}
		}
	}
	names := map[string]bool{}
	for _, r := range wrapped {
		names[r.Wraps[0].Name] = true
	}
	for _, m := range policy.Methods() {
		if m.Wrapper && !names[m.Name] {
			t.Errorf("no method is wrapped in %s", m.Name)
		}
	}
	return append(out, wrapped...)
}

// Where positions are ranks, keys are stored as they are before RoPE: in the first layer a token's key is the same wherever it
// comes, of every KV head, from a prompt, decoded operation by operation and in recorded steps.
func TestKeysBeforeRope(t *testing.T) {
	p, err := policy.Recipe{Method: "streamingllm"}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	for i, layouts := range [][]quant.Layout{{quant.Layout8}, {quant.LayoutF32, quant.LayoutF16, quant.Layout8}} {
		shape := step.Shape{Layers: 1, Hidden: 32, Heads: 4, KVHeads: 2, HeadDim: 8, FFN: 32, Vocab: 3, RotDim: 8, Neox: i > 0, Eps: 1e-5}
		m := reftest.NewModel(rand.New(rand.NewPCG(1, 2)), shape, 8, layouts...)
		c := newTalk(t, "keys before RoPE", newLibrary(gputest.Open(t)), m, p, 12, 12, 1)
		c.ids = 1 // every token is the same
		c.prompt(2)
		for range 3 {
			c.token()
		}
		c.steps(4)
		arena := make([]byte, c.cache.Cap())
		c.must(c.b.Read(c.arena, 0, arena))
		for h := range shape.KVHeads {
			pages := &ref.Pages{Arena: arena, List: c.cache.List(0, h), Geo: c.cache.Geometry()}
			first := unpack(pages.Key(0), cache.F16, shape.HeadDim)
			for slot := 1; slot < pages.List.Slots; slot++ {
				reftest.Compare(t, fmt.Sprintf("KV head %d, slot %d", h, slot), unpack(pages.Key(slot), cache.F16, shape.HeadDim), first, reftest.Tolerance{Abs: 1e-3, Rel: 2e-3})
			}
		}
		c.close()
	}
}

// steps decodes tokens of id 0 in recorded steps.
func (c *talk) steps(n int) {
	c.Helper()
	a := &step.Answer{Cache: c.cache, Arena: c.arena, Pos: c.pos}
	most := 0
	for i, old := range c.all() {
		q, full := c.run.Rule(i/c.model.Shape.KVHeads, i%c.model.Shape.KVHeads, len(old))
		a.Rules = append(a.Rules, step.Rule{Limit: q.Limit, Full: full, Oldest: q.Oldest, Newest: q.Newest})
		most = max(most, len(old)+n)
	}
	lent := &step.Args{Cache: c.cache, Arena: c.arena, Pos: c.pos}
	stepper := c.exec.(step.Stepper)
	c.must(c.device.Lend(lent, &step.Loan{Most: most}), stepper.Begin(a))
	for range n {
		c.must(stepper.Submit(0))
		_, err := stepper.Next(context.Background())
		c.must(err)
	}
	stepper.End()
	c.must(c.device.Return(lent))
	c.pos += n
}

// A view of a decoded token shows the softmax that the plan made, in which what stands for tokens that left has its share:
// both variants of what threads share leave it.
func TestViewUnderPlan(t *testing.T) {
	shape := step.Shape{Layers: 2, Hidden: 16, Heads: 4, KVHeads: 2, HeadDim: 8, FFN: 16, Vocab: 50, RotDim: 6, Eps: 1e-5}
	m := reftest.NewModel(rand.New(rand.NewPCG(1, 2)), shape, 8, quant.LayoutF32)
	p := &policy.Plan{Protect: policy.Protect{Sinks: 1, Recent: 1}, Store: policy.Store{Virtual: true}, Decode: policy.Decode{Kind: policy.DecodeOldest}}
	for _, plain := range []bool{true, false} {
		lib := newLibrary(gputest.Open(t))
		lib.Plain = plain
		c := newTalk(t, "views", lib, m, p, 8, 20, 1)
		c.prompt(20)
		const stride, looks = 32, 2
		dst, err := c.b.Alloc(cache.Views, "view", stride*4)
		c.must(err)
		shared := 0
		c.look = func(a *step.Args, layer int) {
			v := &step.View{Layer: layer, Heads: shape.Heads, Rows: 1, Pool: 1, Dst: dst, Stride: stride, Sums: -1}
			c.must(c.b.Upload(dst, 0, make([]byte, stride*4)), c.exec.(step.Viewer).Look(a, v))
			got, rows := make([]byte, stride*4), make([][]float32, shape.Heads)
			c.must(c.b.Read(dst, 0, got))
			for h := range rows {
				rows[h] = make([]float32, a.Pos+1)
			}
			c.must(c.exec.AttentionRow(a, layer, 0, rows))
			for h, row := range rows {
				sum := float32(0)
				for pos, x := range row {
					sum += x
					if want := step.Code(float64(x)); max(want, got[h*stride+pos])-min(want, got[h*stride+pos]) > 1 {
						t.Errorf("plain %v: layer %d, head %d, position %d: %d, want %d", plain, layer, h, pos, got[h*stride+pos], want)
					}
				}
				if sum < 0.99 {
					shared++
				}
			}
		}
		for range looks {
			c.token()
		}
		if shared == 0 {
			t.Error("what left has no share")
		}
		c.close()
	}
}

package kernel_test

import (
	"fmt"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/cache/policy/stage"
	"kvlens/wasm/gpu/gputest"
	"kvlens/wasm/kernel"
	"kvlens/wasm/quant"
)

// What scoring and selection keep of a layer is what a run keeps, under every registered recipe and wrapper, in
// at most six dispatches; adaptive head budgets around expected attention take one more.
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
	run.Prompt(freshRows)
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
	most := 6
	if p.Score.Kind == policy.ScoreExpected && p.Heads.Kind == policy.HeadsAdaptive {
		most = 7
	}
	if n := len(sc.Observe) + len(sc.Input) + len(x.Share) + len(x.Store); n > most {
		r.t.Errorf("%s: %d dispatches", name, n)
	}
	var lists []uint32
	ranks := slices.Repeat([]uint32{kernel.NoRank}, s.Layers*s.KVHeads*roomSlots)
	weights := make([]float32, s.KVHeads*stride)
	for i := range s.Layers * s.KVHeads {
		h := i % s.KVHeads
		l := r.cache.List(scoreLayer, h)
		c := &r.heads[h]
		q := r.quota(p, c, len(kept[h]))
		q.Live, q.Slots, q.New, q.Stride = l.Live, l.Slots, freshRows, stride
		lists = append(lists, q.Words()...)
		for rank, slot := range r.c.Stored[h] {
			ranks[i*roomSlots+int(slot)] = uint32(rank)
		}
		copy(weights[h*stride:], c.OutL1)
	}
	if p.Reduce.Kind == policy.ReduceLayer && r.c.Same { // values of one set count as their mean
		for j := range r.heads[0].OutL1 {
			mean := (weights[j] + weights[stride+j]) / 2
			weights[j], weights[stride+j] = mean, mean
		}
	}
	r.upload("lists", quant.Bytes(lists))
	r.upload("ranks", quant.Bytes(ranks))
	r.upload("weights", quant.Bytes(weights))
	for _, name := range []string{"stays", "kept"} {
		r.upload(name, quant.Bytes(make([]uint32, s.KVHeads*(max(stride, roomSlots)+1))))
	}
	r.run(sc, x.Store[:1])
	got := make([]uint32, s.KVHeads*(stride+1))
	r.must(r.dev.Read(r.bufs["kept"], 0, quant.Bytes(got)))
	for h, want := range kept {
		n := min(int(got[s.KVHeads*stride+h]), stride)
		if !slices.EqualFunc(got[h*stride:][:n], want, func(a uint32, b int32) bool { return a == uint32(b) }) {
			r.t.Errorf("%s: list %d keeps %v, want %v", name, h, got[h*stride:][:n], want)
		}
	}
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

package kernel_test

import (
	"math"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/cache/policy/stage"
	"kvlens/wasm/gpu"
	"kvlens/wasm/kernel"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref/reftest"
)

// testEvict: step by step, the tokens that leave under each rule are those that a policy.Run names, and the slot of the next
// token is the one that the cache gives it.
func testEvict(t *testing.T, lib *kernel.Library, dev gpu.Device) {
	row := func(recent int, kind policy.PoolKind, reduce policy.ReduceKind, after bool) policy.Decode {
		return policy.Decode{
			Kind: policy.DecodeRow, Recent: recent, Pool: policy.Pool{Kind: kind, Size: 3, After: after}, Reduce: policy.Reduce{Kind: reduce},
		}
	}
	layer := policy.Reduce{Kind: policy.ReduceLayer}
	sums := policy.Decode{Kind: policy.DecodeSums}
	for name, c := range map[string]struct {
		plan    policy.Plan
		stored  []int
		reserve int
		oneSet  bool
		pins    []int32
	}{
		"window":     {policy.Plan{Protect: policy.Protect{Sinks: 2, Recent: 1}, Decode: policy.Decode{Kind: policy.DecodeOldest}}, []int{12, 14}, 1, false, nil},
		"H2O":        {policy.Plan{Protect: policy.Protect{Recent: 1, Part: 0.5}, Decode: sums}, []int{12, 14}, 1, false, nil},
		"sums alike": {policy.Plan{Reduce: layer, Decode: sums}, []int{0, 0}, 1, true, nil},
		"TOVA":       {policy.Plan{Protect: policy.Protect{Recent: 1}, Reduce: layer, Decode: row(0, policy.PoolNone, policy.ReduceLayer, false)}, []int{0, 0}, 1, true, nil},
		"TOVA apart": {policy.Plan{Protect: policy.Protect{Recent: 1}, Reduce: layer, Decode: row(0, policy.PoolNone, policy.ReduceLayer, false)}, []int{12, 14}, 1, false, nil},
		"row, sum":   {policy.Plan{Decode: row(2, policy.PoolNone, policy.ReduceSum, false)}, []int{12, 14}, 1, false, nil},
		"CAKE":       {policy.Plan{Protect: policy.Protect{Recent: 2}, Decode: row(4, policy.PoolAvg, policy.ReduceMean, false)}, []int{12, 14}, 1, false, nil},
		"mean, max":  {policy.Plan{Decode: row(1, policy.PoolAvg, policy.ReduceMax, false)}, []int{12, 14}, 1, false, nil},
		"max, mean":  {policy.Plan{Decode: row(1, policy.PoolMax, policy.ReduceMean, false)}, []int{12, 14}, 1, false, nil},
		"after":      {policy.Plan{Decode: row(2, policy.PoolMax, policy.ReduceMean, true)}, []int{100, 94}, 1, false, nil},
		"cap":        {policy.Plan{Protect: policy.Protect{Sinks: 1, Recent: 2}, Decode: policy.Decode{Kind: policy.DecodeCap}}, []int{12, 14}, 3, false, nil},
		"pins":       {policy.Plan{Protect: policy.Protect{Sinks: 2, Recent: 1}, Decode: policy.Decode{Kind: policy.DecodeOldest}}, []int{12, 14}, 1, false, []int32{0, 5, 203}},
		"pins, sums": {policy.Plan{Protect: policy.Protect{Recent: 1, Part: 0.3}, Decode: sums}, []int{12, 14}, 1, false, []int32{0, 3, 200, 201}},
		"wide":       {policy.Plan{Decode: sums}, []int{100, 94}, 1, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			defer func(was bool) { lib.Plain = was }(lib.Plain)
			for _, plain := range []bool{true, false}[:1+min(1, int(c.plan.Decode.Reduce.Kind)+c.plan.Decode.Pool.Size)] {
				lib.Plain = plain
				r := newKeepRig(t, lib, dev, cache.Geometry{Key: cache.F16, Scores: true})
				r.fill(c.stored...)
				r.pins = c.pins
				r.steps(&c.plan, max(6, r.list(0).Live), c.reserve, c.oneSet)
			}
		})
	}
}

// steps decodes tokens under a rule with a budget, on the device and by a Run.
func (r *keepRig) steps(p *policy.Plan, budget, reserve int, oneSet bool) {
	const steps = 12
	r.Helper()
	s := &keepShape
	run, err := policy.NewRun(p, policy.Shape{Layers: s.Layers, Heads: s.Heads, KVHeads: s.KVHeads, HeadDim: s.HeadDim},
		policy.Budget{Tokens: budget, Reserve: reserve}, nil)
	r.must(err)
	_, err = run.Pin(r.pins)
	r.must(err)
	run.Record(true)
	sel := r.lib.Selection(p, s, &r.geo, keepLayer, oneSet)
	for h := range s.KVHeads {
		l := r.list(h)
		*r.quota(h) = kernel.Quota{Live: l.Live, Slots: l.Slots, Limit: budget, Full: budget + reserve}
	}
	r.upload("lists", quant.Bytes(r.lists()))
	r.upload("ranks", quant.Bytes(r.ranks()))
	r.scratch(s.KVHeads*keepRoom, "stays", "by_rank")
	for at := range steps {
		pos := 200 + at
		in := &policy.StepInput{Pos: make([][]int32, s.KVHeads), Rows: make([][]float32, s.Heads), Sums: make([][]float32, s.KVHeads)}
		scores := r.worth(keepRoom)
		lists := r.words("lists", len(r.quotas)*kernel.ListWords)
		for h := range s.KVHeads {
			slots, err := r.cache.Put(keepLayer, h, []uint32{uint32(pos)})
			r.must(err)
			r.put(h, int(slots[0]), uint32(pos), r.draw(s.HeadDim), r.draw(s.HeadDim), 0)
			l := r.list(h)
			for rank, slot := range l.Order() {
				in.Pos[h] = append(in.Pos[h], int32(l.At[slot]))
				*r.pages(h).Score(int(slot)) = scores[(rank*7+at+31*h)%keepRoom]
				in.Sums[h] = append(in.Sums[h], *r.pages(h).Score(int(slot)))
			}
			// The host says what never leaves when limit stay; positions from 200 on are no sinks.
			words := lists[(keepLayer*s.KVHeads+h)*kernel.ListWords:]
			words[kernel.ListOldest], words[kernel.ListNewest] = r.guards(p, h, budget)
		}
		for h, row := range r.attention(p.Decode.Pool.Size > 1) {
			for _, slot := range r.list(h / (s.Heads / s.KVHeads)).Order() {
				in.Rows[h] = append(in.Rows[h], row[slot])
			}
		}
		session := r.session(pos, 1)
		session[kernel.WordStep], session[kernel.WordLog] = uint32(at), leaving
		for i := range r.quotas {
			ring := kernel.RingAt + 2*i
			copy(session[ring+2*at*len(r.quotas):], session[ring:ring+2])
		}
		r.upload("session", quant.Bytes(session))
		r.upload("lists", quant.Bytes(append(lists, make([]uint32, 4*len(r.quotas)*logRow)...)))
		r.upload("arena", r.arena)
		left := make([][]int32, s.KVHeads)
		for h, leave := range run.Step(keepLayer, in) {
			var slots []uint32
			for _, i := range leave {
				slots, left[h] = append(slots, r.list(h).Order()[i]), append(left[h], in.Pos[h][i])
			}
			r.evict(h, slots)
		}
		r.run(nil, sel.Rule...)
		r.same("after a step", at+1)
		r.logged(run, left, at)
		if r.Failed() {
			r.Fatalf("at step %d", at)
		}
	}
	// After the end of an answer nothing changes.
	session := r.words("session", kernel.RingAt+2*len(r.quotas)*32)
	session[kernel.WordHalt] = 1
	r.must(r.dev.Write(r.bufs["session"], 0, quant.Bytes(session)))
	r.run(nil, sel.Rule...)
	r.same("after the end", steps)
	if now := r.words("session", len(session)); !slices.Equal(now, session) {
		r.Error("after the end: the session changed")
	}
}

// attention sets the logits of a step and the sums of weights that weigh.wgsl leaves of them, and gives each head's softmax
// over its slots. Unless all are distinct, many are equal.
func (r *keepRig) attention(distinct bool) [][]float32 {
	s, splits := &keepShape, 16
	if r.lib.Plain {
		splits = 4
	}
	logits := slices.Repeat([]float32{9}, s.Heads*keepRoom) // beyond the slots, what earlier steps left
	parts := make([]float32, splits*s.Heads*(s.HeadDim+1))
	rows := make([][]float32, s.Heads)
	for h := range rows {
		l := r.list(h / (s.Heads / s.KVHeads))
		row := logits[h*keepRoom:][:l.Slots]
		sum := 0.0
		for slot, at := range l.At {
			row[slot] = kernel.Lowest
			if at == cache.DeadPosition {
				continue
			}
			row[slot] = float32(r.rng.NormFloat64())
			if !distinct && r.rng.IntN(2) == 0 {
				row[slot] = float32(r.rng.IntN(3) - 1)
			}
			sum += math.Exp(float64(row[slot]))
		}
		rows[h] = make([]float32, l.Slots)
		top := float64(slices.Max(row))
		for slot, x := range row {
			rows[h][slot] = float32(math.Exp(float64(x)) / sum)
			parts[splits*s.Heads*s.HeadDim+slot%splits*s.Heads+h] += float32(math.Exp(float64(x) - top))
		}
	}
	r.upload("scores", quant.Bytes(logits))
	r.upload("parts", quant.Bytes(parts))
	return rows
}

// leaving is how many tokens of a list the log has room for, logRow its words of a list.
const leaving, logRow = 3, 1 + 2*3

// logged compares what the log says of a step with what a run records.
func (r *keepRig) logged(run *policy.Run, left [][]int32, at int) {
	r.Helper()
	log := r.words("lists", len(r.quotas)*(kernel.ListWords+4*logRow))[len(r.quotas)*kernel.ListWords:]
	for h, positions := range left {
		row := log[(at%4*len(r.quotas)+keepLayer*len(left)+h)*logRow:][:logRow]
		got := map[int32]float32{}
		for i := range positions {
			got[int32(row[1+2*i])] = math.Float32frombits(row[2+2*i])
		}
		for _, p := range positions {
			want := run.Verdicts(keepLayer, h)[p]
			worth, there := got[p]
			switch {
			case !there:
				r.Errorf("list %d: %d is not among %v", h, p, got)
			case want.Score == want.Score: // otherwise age alone decides
				reftest.Compare(r, "worth and threshold", []float32{worth, math.Float32frombits(row[0])},
					[]float32{want.Score, want.Threshold}, reftest.Float32)
			}
		}
	}
}

// guards are how many tokens at a list's ends never leave.
func (r *keepRig) guards(p *policy.Plan, h, limit int) (oldest, newest uint32) {
	order, at := r.list(h).Order(), r.list(h).At
	first := 0
	for first < len(order) && int(at[order[first]]) < p.Protect.Sinks {
		first++
	}
	recent := max(p.Protect.Recent, int(p.Protect.Part*float64(limit)))
	if p.Decode.Kind == policy.DecodeRow {
		recent = max(recent, p.Decode.Recent)
	}
	if p.Decode.Kind == policy.DecodeOldest {
		recent = limit
	}
	a, b := stage.Guard(len(order), first, recent, limit)
	return uint32(a), uint32(b)
}

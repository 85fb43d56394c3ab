package kernel

import (
	"math"
	"strconv"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/shaders"
	"kvlens/wasm/step"
)

// The Go face of the kernels that recipes score by: lse, columns, indicator, norms, direction, keydiff, spread,
// expected and fold, and in decoding accrue, bounds and quest. Their twins are functions of package cache/policy/stage.
// What a layer of a prompt takes, beside selecting and storing:
//
//	score      after each chunk's Attend   after the last chunk          twins
//	window     –                           lse, columns, fold            Attention; PoolAvg, PoolMax; Sum, Mean, Max
//	indicator  –                           lse, indicator, fold          Indicator
//	columns    lse, columns                fold                          Attention, PerQuery
//	norm       –                           norms                         Norms
//	keydiff    –                           norms, direction, keydiff     KeyDiff
//	expected   spread                      expected, lse, fold           Expected
//	random     –                           –                             Random: the host writes worth
//
// and a layer of a step of decoding:
//
//	sums, cap   after weigh    accrue, before a victim is chosen
//	row         after weigh    accrue, before a victim is chosen
//	pages       before score   bounds, quest                            Bound; PageScores, Pages
//
// Buffers go by the names of the shaders' variables; [Scoring.Floats] says how long they are. worth has the scores by KV
// head, rows by query head.

// Stage is one dispatch of a recipe.
type Stage struct {
	Variant shaders.Variant
	Params  []uint32
	threads func(c *Candidates) int
	groups  [2]int // instead of threads, where they do not depend on the candidates
}

// Size is the stage's grid.
func (s *Stage) Size(l *Library, c *Candidates) (x, y, z uint32) {
	if s.threads == nil {
		return uint32(s.groups[0]), uint32(s.groups[1]), 1
	}
	n := node{threads: func(int) int { return s.threads(c) }}
	return n.size(l, 1)
}

// Scoring is what a layer takes of a recipe.
type Scoring struct {
	// Observe runs after each chunk's attention: the candidates' queries are the chunk's. Input runs after the last chunk:
	// they are the observation window's, or for expected attention, which looks at none, the newest row's alone.
	Observe, Input []Stage
	// Stored runs after rows were stored, Query in a step of decoding before its logits, Row after its values were weighed.
	Stored, Query, Row []Stage

	s     step.Shape
	plan  policy.Plan
	parts int
	lanes int
}

// Scoring is the stages that a plan takes in one layer of a model whose pages have the geometry's formats.
func (l *Library) Scoring(p *policy.Plan, s *step.Shape, geo *cache.Geometry, layer int) *Scoring {
	x := &Scoring{s: *s, plan: *p, parts: splits, lanes: 16}
	whole, top := "whole_lanes", "top_lanes"
	if l.Plain {
		x.parts, x.lanes, whole, top = plainSplits, 1, "whole", "top"
	}
	key := map[string]string{"KEY_F16": strconv.FormatBool(geo.Key == cache.F16)}
	value := map[string]string{"VALUE_F16": strconv.FormatBool(geo.Value == cache.F16)}
	shape := []uint32{uint32(layer), uint32(s.Heads), uint32(s.KVHeads), uint32(s.HeadDim)}
	scale := float(float32(1 / math.Sqrt(float64(s.HeadDim))))
	windowed := p.Score.Kind == policy.ScoreWindow || p.Score.Kind == policy.ScoreIndicator

	byHead := func(c *Candidates) int { return len(c.Scored) * c.Stride() }
	byKVHead := func(c *Candidates) int { return s.KVHeads * c.Stride() }
	stage := func(kernel string, consts map[string]string, threads func(*Candidates) int, params ...uint32) Stage {
		return Stage{
			Variant: shaders.Variant{Kernel: kernel, Consts: consts},
			Params:  append(shape[:4:4], params...), threads: threads,
		}
	}
	lse := func(of string) Stage {
		st := stage("lse", key, func(c *Candidates) int { return c.Queries * len(c.Scored) * x.lanes }, scale)
		st.Variant.Includes = map[string]string{"logits": of, "whole": whole}
		return st
	}
	columns := stage("columns", key, byHead, scale, flag(windowed), flag(windowed && p.Score.Mean))
	form := uint32(formPlain)
	switch sc := &p.Score; sc.Kind {
	case policy.ScoreWindow:
		x.Input = []Stage{lse("keys"), columns}
	case policy.ScoreIndicator:
		x.Input = []Stage{lse("keys"), stage("indicator", key, byHead, scale, float(float32(sc.Gamma)))}
	case policy.ScoreColumns:
		x.Observe = []Stage{lse("keys"), columns}
		if form = formSums; sc.PerQuery {
			form = formPerQuery
		}
	case policy.ScoreNorm:
		x.Input = []Stage{stage("norms", key, byKVHead, float(-1))}
	case policy.ScoreKeyDiff:
		consts := map[string]string{"KEY_F16": key["KEY_F16"], "PARTS": strconv.Itoa(x.parts) + "u"}
		x.Input = []Stage{
			stage("norms", key, byKVHead, float(1)),
			stage("direction", consts, func(*Candidates) int { return s.KVHeads * x.parts * s.HeadDim / 2 }),
			stage("keydiff", consts, byKVHead),
		}
	case policy.ScoreExpected:
		channels := s.Heads * s.HeadDim
		if sc.Covariance {
			channels *= s.HeadDim
		}
		rope := []uint32{uint32(s.RotDim), flag(s.Neox), uint32(p.Protect.Sinks), flag(sc.Covariance)}
		spread := stage("spread", nil, func(*Candidates) int { return channels })
		spread.Params = append(shape[1:4:4], rope...)
		consts := map[string]string{"KEY_F16": key["KEY_F16"], "DIM": strconv.Itoa(s.HeadDim) + "u"}
		x.Observe = []Stage{spread}
		x.Input = []Stage{stage("expected", consts, byHead, append([]uint32{scale}, rope...)...), lse("rows")}
		form = formLogits
	}
	switch p.Score.Kind {
	case policy.ScoreWindow, policy.ScoreIndicator, policy.ScoreColumns, policy.ScoreExpected:
		share := p.Select.Kind == policy.SelectChunks && p.Heads.Kind == policy.HeadsUniform
		pool := p.Pool.Kind
		if p.Pool.Size < 2 {
			pool = policy.PoolNone
		}
		x.Input = append(x.Input, stage("fold", value, byKVHead,
			form, flag(windowed), uint32(pool), uint32(max(1, p.Pool.Size)), flag(p.Pool.After), uint32(p.Reduce.Kind), flag(share),
			flag(form == formLogits && p.Score.ValueNorm), float(float32(p.Score.Epsilon)), flag(p.Score.Kind == policy.ScoreIndicator)))
	}
	x.decode(p, key, shape, top)
	return x
}

// The forms of rows that fold.wgsl knows.
const (
	formPlain = iota
	formLogits
	formSums
	formPerQuery
)

// decode adds what a step of decoding takes.
func (x *Scoring) decode(p *policy.Plan, key map[string]string, shape []uint32, top string) {
	s := &x.s
	if page := p.Store.Page; page > 0 {
		bounds := func(recorded bool, threads func(*Candidates) int) Stage {
			return Stage{
				Variant: shaders.Variant{Kernel: "bounds", Consts: map[string]string{
					"KEY_F16": key["KEY_F16"], "RECORDED": strconv.FormatBool(recorded),
				}},
				Params: []uint32{shape[0], shape[2], shape[3], uint32(page)}, threads: threads,
			}
		}
		one := s.KVHeads * s.HeadDim / 2
		x.Stored = []Stage{bounds(false, func(c *Candidates) int { return up(c.Slots, page) * one })}
		x.Query = []Stage{bounds(true, func(*Candidates) int { return one }), {
			Variant: shaders.Variant{Kernel: "quest"}, groups: [2]int{s.Heads, 1},
			Params: append(shape[:4:4], uint32(page), uint32(max(1, p.Store.Read/page))),
		}}
	}
	rule, weight := &p.Decode, 1.0
	reduce, decay, fold := policy.ReduceMean, rule.Decay, true
	switch rule.Kind {
	case policy.DecodeSums:
	case policy.DecodeCap:
		weight = 1 - rule.Decay
	case policy.DecodeRow:
		reduce, decay, fold = rule.Reduce.Kind, 0, false
	default:
		return
	}
	switch reduce {
	case policy.ReduceMean:
		weight /= float64(s.Heads / s.KVHeads)
	case policy.ReduceLayer:
		weight /= float64(s.Heads)
	}
	x.Row = []Stage{{
		Variant: shaders.Variant{Kernel: "accrue", Includes: map[string]string{"top": top}, Consts: map[string]string{
			"FOLD": strconv.FormatBool(fold), "SHARED": strconv.FormatBool(x.lanes > 1), "SPLITS": strconv.Itoa(x.parts) + "u",
		}},
		Params: append(shape[:4:4], flag(reduce == policy.ReduceLayer), flag(reduce == policy.ReduceMax),
			float(float32(decay)), float(float32(weight))),
		groups: [2]int{x.parts, s.KVHeads},
	}}
}

// Floats is how many numbers a buffer has, by its name in the shaders; capacity is the slots that rows of decoding have
// room for.
func (x *Scoring) Floats(name string, c *Candidates, capacity int) int {
	s := &x.s
	switch rows := len(c.Scored) * c.Stride(); name {
	case "lse":
		return len(c.Scored) * max(1, c.Queries)
	case "rows":
		if x.plan.Score.Kind == policy.ScoreIndicator {
			return 3 * rows // entropies and variances too
		}
		return rows
	case "worth":
		return max(s.KVHeads*c.Stride()+2*shaders.Group, s.KVHeads*capacity)
	case "directions":
		return s.KVHeads * x.parts * s.HeadDim
	case "spread":
		if x.plan.Score.Covariance {
			return s.Heads * s.HeadDim * (2 + s.HeadDim)
		}
		return s.Heads * s.HeadDim * 2
	case "turn":
		return s.RotDim
	case "most", "marks":
		return s.Heads * up(capacity, max(1, x.plan.Store.Page))
	}
	return 0
}

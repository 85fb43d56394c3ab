package kernel

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/shaders"
	"kvlens/wasm/gpu"
	"kvlens/wasm/step"
)

// The Go face of the kernels that recipes score by: lse, columns, indicator, norms, direction, keydiff, spread,
// expected and fold, and in decoding accrue, bounds and quest. Their twins are functions of package cache/policy/stage.
// What a layer of a prompt takes, beside selecting and storing:
//
//	score      after each chunk's Attend   after the last chunk          twins
//	window     –                           lse, columns, fold            Attention; PoolAvg, PoolMax; Sum, Mean, Max
//	indicator  –                           lse, indicator, fold          Indicator
//	columns    columns                     fold                          Attention, PerQuery
//	norm       –                           norms                         Norms
//	keydiff    –                           norms, direction, keydiff     KeyDiff
//	expected   spread                      expected, lse, fold           Expected
//	random     –                           –                             Random: the host writes worth, shared too
//
// The sums of attention's rows, lse, are those that attend.wgsl left of each chunk; a window's rows may be of several, and so
// have theirs from lse.wgsl. outputs comes with them for CriticalKV; its twin is Input of package ref.
//
// and a layer of a step of decoding:
//
//	sums, cap   after weigh    accrue, before a victim is chosen
//	pages       before score   bounds, quest; score skips the others    Bound; PageScores, Pages
//
// Buffers go by the names of the shaders' variables; [Scoring.Floats] says how long they are. worth has the scores by KV
// head, rows by query head.

// Stage is one dispatch of a recipe.
type Stage struct {
	Variant shaders.Variant
	Params  []uint32
	threads func(c *Candidates) int
	groups  [2]int // instead of threads, where they do not depend on the candidates

	codes, scales gpu.Binding // weights, of stages that read some
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
	// Stored runs after rows were stored, Query in a step of decoding before its logits, Row after its values were weighed
	// and the compensation token joined them.
	Stored, Query, Row []Stage

	s          step.Shape
	plan       policy.Plan
	parts      int // of sums that threads share
	lanes      int // threads of a row
	whole, top string
	key, value map[string]string
	shape      []uint32
}

// Scoring is the stages that a plan takes in one layer of a model whose pages have the geometry's formats.
func (l *Library) Scoring(p *policy.Plan, s *step.Shape, geo *cache.Geometry, layer int) *Scoring {
	x := &Scoring{s: *s, plan: *p, parts: splits, lanes: 16, whole: "whole_lanes", top: "top_lanes"}
	if l.Plain {
		x.parts, x.lanes, x.whole, x.top = plainSplits, 1, "whole", "top"
	}
	x.key = map[string]string{"KEY_F16": strconv.FormatBool(geo.Key == cache.F16)}
	x.value = map[string]string{"VALUE_F16": strconv.FormatBool(geo.Value == cache.F16)}
	x.shape = []uint32{uint32(layer), uint32(s.Heads), uint32(s.KVHeads), uint32(s.HeadDim)}
	if layer >= p.Score.SkipLayers {
		x.prompt()
	}
	x.quest(layer)
	x.row()
	return x
}

// byHead has a thread for each candidate of each scored head, byKVHead one for each of a KV head.
func (x *Scoring) byHead(c *Candidates) int   { return len(c.Scored) * c.Stride() }
func (x *Scoring) byKVHead(c *Candidates) int { return x.s.KVHeads * c.Stride() }

// stage is a kernel whose parameters begin with the layer's shape.
func (x *Scoring) stage(kernel string, consts map[string]string, threads func(*Candidates) int, params ...uint32) Stage {
	return Stage{
		Variant: shaders.Variant{Kernel: kernel, Consts: consts}, Params: slices.Concat(x.shape, params), threads: threads,
	}
}

// with is constants and one more.
func with(consts map[string]string, name, value string) map[string]string {
	out := map[string]string{name: value}
	maps.Copy(out, consts)
	return out
}

// scale is the factor of logits.
func (x *Scoring) scale() uint32 { return float(float32(1 / math.Sqrt(float64(x.s.HeadDim)))) }

// pairs are the constants of kernels that hold a query or a key.
func (x *Scoring) pairs() map[string]string {
	return with(x.key, "PAIRS", strconv.Itoa(x.s.HeadDim/2)+"u")
}

// lse is the first pass over keys or over rows of logits.
func (x *Scoring) lse(logits string) Stage {
	threads := func(c *Candidates) int { return c.Queries * len(c.Scored) * x.lanes }
	consts := x.key
	if logits == "keys" {
		consts = x.pairs()
	}
	st := x.stage("lse", consts, threads, x.scale())
	st.Variant.Includes = map[string]string{"logits": logits, "whole": x.whole}
	return st
}

// columns is the second pass.
func (x *Scoring) columns(windowed, mean uint32) Stage {
	tile := 2 // candidates of a thread, as far as their keys fit registers
	if x.s.HeadDim <= 32 {
		tile = 4
	}
	return x.stage("columns", with(x.pairs(), "TILE", strconv.Itoa(tile)+"u"), func(c *Candidates) int { return x.byHead(c) / tile }, x.scale(), windowed, mean)
}

// prompt adds what a prompt's layer takes.
func (x *Scoring) prompt() {
	s, sc := &x.s, &x.plan.Score
	switch sc.Kind {
	case policy.ScoreWindow:
		columns := x.columns(1, flag(sc.Mean))
		x.Input = []Stage{x.lse("keys"), columns, x.fold(formPlain, true)}
	case policy.ScoreIndicator:
		indicator := x.stage("indicator", x.pairs(), x.byHead, x.scale(), float(float32(sc.Gamma)))
		x.Input = []Stage{x.lse("keys"), indicator, x.fold(formPlain, true)}
	case policy.ScoreColumns:
		x.Observe = []Stage{x.columns(0, 0)}
		form := uint32(formSums)
		if sc.PerQuery {
			form = formPerQuery
		}
		x.Input = []Stage{x.fold(form, false)}
	case policy.ScoreNorm:
		x.Input = []Stage{x.stage("norms", x.key, x.byKVHead, x.share(), float(-1))}
	case policy.ScoreKeyDiff:
		consts := with(x.key, "PARTS", strconv.Itoa(x.parts)+"u")
		x.Input = []Stage{
			x.stage("norms", x.key, x.byKVHead, 0, float(1)),
			x.stage("direction", consts, func(*Candidates) int { return s.KVHeads * x.parts * s.HeadDim / 2 }),
			x.stage("keydiff", consts, x.byKVHead, x.share()),
		}
	case policy.ScoreExpected:
		pairs := s.Heads * s.HeadDim / 2
		if sc.Covariance {
			pairs *= s.HeadDim / 2
		}
		rope := []uint32{uint32(s.RotDim), flag(s.Neox), uint32(x.plan.Protect.Sinks), flag(sc.Covariance)}
		spread := x.stage("spread", nil, func(*Candidates) int { return pairs }, rope...)
		spread.Params = spread.Params[1:] // of any layer
		expected := x.stage("expected", with(x.key, "DIM", strconv.Itoa(s.HeadDim)+"u"), x.byHead,
			append([]uint32{x.scale()}, rope...)...)
		x.Observe = []Stage{spread}
		x.Input = []Stage{expected, x.lse("rows"), x.fold(formLogits, false)}
	}
}

// share says that all KV heads keep the same chunks.
func (x *Scoring) share() uint32 {
	return flag(x.plan.Select.Kind == policy.SelectChunks && x.plan.Heads.Kind == policy.HeadsUniform)
}

// fold reduces rows of a form.
func (x *Scoring) fold(form uint32, windowed bool) Stage {
	p := &x.plan
	pool := p.Pool.Kind
	if p.Pool.Size < 2 {
		pool = policy.PoolNone
	}
	return x.stage("fold", x.value, x.byKVHead,
		form, flag(windowed), uint32(pool), uint32(max(1, p.Pool.Size)), flag(p.Pool.After), uint32(p.Reduce.Kind),
		x.share(), flag(form == formLogits && p.Score.ValueNorm), float(float32(p.Score.Epsilon)),
		flag(p.Score.Kind == policy.ScoreIndicator))
}

// The forms of rows that fold.wgsl knows.
const (
	formPlain = iota
	formLogits
	formSums
	formPerQuery
)

// quest adds what pages of bounds take.
func (x *Scoring) quest(layer int) {
	s, page := &x.s, x.plan.Store.PageIn(layer)
	if page < 1 {
		return
	}
	bounds := func(recorded bool, threads func(*Candidates) int) Stage {
		return Stage{
			Variant: shaders.Variant{Kernel: "bounds", Consts: with(x.key, "RECORDED", strconv.FormatBool(recorded))},
			Params:  []uint32{x.shape[0], x.shape[2], x.shape[3], uint32(page)}, threads: threads,
		}
	}
	one := s.KVHeads * s.HeadDim / 2
	choice := x.stage("quest", nil, nil, uint32(page), uint32(max(1, x.plan.Store.Read/page)))
	choice.groups = [2]int{s.Heads, 1}
	x.Stored = []Stage{bounds(false, func(c *Candidates) int { return up(c.Slots, page) * one })}
	x.Query = []Stage{bounds(true, func(*Candidates) int { return one }), choice}
}

// row adds what a decode rule accumulates.
func (x *Scoring) row() {
	s, rule := &x.s, &x.plan.Decode
	weight := 1 / float64(s.Heads/s.KVHeads)
	switch rule.Kind {
	case policy.DecodeSums:
	case policy.DecodeCap:
		weight *= 1 - rule.Decay
	default:
		return
	}
	accrue := x.stage("accrue", map[string]string{
		"SHARED": strconv.FormatBool(x.lanes > 1), "SPLITS": strconv.Itoa(x.parts) + "u",
	}, nil, float(float32(rule.Decay)), float(float32(weight)))
	accrue.Variant.Includes = map[string]string{"top": x.top}
	accrue.groups = [2]int{x.parts, s.KVHeads}
	x.Row = []Stage{accrue}
}

// Floats is how many numbers a buffer has, by its name in the shaders; capacity is the slots that rows of decoding have
// room for.
func (x *Scoring) Floats(name string, c *Candidates, capacity int) int {
	s := &x.s
	switch rows := len(c.Scored) * c.Stride(); name {
	case "lse":
		if x.plan.Score.Kind == policy.ScoreColumns {
			return 0 // attention's own
		}
		return len(c.Scored) * max(1, c.Queries)
	case "rows":
		if x.plan.Score.Kind == policy.ScoreIndicator {
			return 3 * rows // entropies and variances too
		}
		return rows
	case "worth":
		n := s.KVHeads * max(c.Stride(), capacity)
		if x.plan.Score.Kind == policy.ScoreIndicator {
			n = max(n, s.KVHeads*c.Stride()+2*shaders.Group) // with the parts of entropy and variance
		}
		return n
	case "weights":
		return s.KVHeads * c.Stride()
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

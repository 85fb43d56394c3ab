package kernel

import (
	"math"
	"strconv"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/shaders"
	"kvlens/wasm/step"
)

// The Go face of the kernels by which recipes keep and drop tokens. What a layer takes, beside scoring:
//
//	prompt      adapt (adaptive head budgets only), a read of n_kv_heads words, then the host's quotas
//	            select; absorb (compensation only); keep
//	            compact, where a list shrank and whole pages are to come free
//	decoding    byrank instead of score (positions by rank), or score over the pages that were chosen
//	            weigh with the compensation token, where there is one
//	            after weigh: accrue (scoring.go), evict
//
// so that a decode rule takes at most two dispatches a layer, accrue and evict; windows, and rules that ask the newest
// token's attention alone, take one. The twins: stage.Adaptive's counts, stage.Protect with Top, Chunks or Critical,
// policy.Run's Step, cache.Cache's Evict, Put and Compact, and Store, Absorb, Move and attention of package ref.
//
// Buffers go by the names of the shaders' variables, beside those of scoring: lists has [Quota] words for every list and
// ranks the rank of every slot, [lists][capacity]; both are the session's. stays, kept and by_rank have
// n_kv_heads·max(stride, capacity) words, kept n_kv_heads more, counts n_kv_heads; a layer may use those of the one before.

// MaxAdaptedHeads is how many KV heads adapt.wgsl has room for.
const MaxAdaptedHeads = 64

// Selection is what a layer takes of a recipe to keep and drop tokens.
type Selection struct {
	// Share finds how many of the layer's highest scores each KV head has, for the host to read; nil where budgets do not
	// depend on scores.
	Share []Stage
	// Store selects and stores a layer's prompt, Compact frees the ends of its lists.
	Store, Compact []Stage
	// In a step of decoding: Logits takes the place of score.wgsl where positions are ranks or pages are chosen, Values weighs
	// values, those of the token that stands for what left among them, and Rule, after accrue.wgsl where the plan has that,
	// says what leaves and which slots come next.
	Logits, Values, Rule []Stage
}

// Selection is the stages that a plan takes in one layer of a model whose pages have the geometry's formats. oneSet says
// that all KV heads of a layer keep the same tokens; where they do not, a decode rule's mean over the layer is one over the
// group, as policy.Run has it.
func (l *Library) Selection(p *policy.Plan, s *step.Shape, geo *cache.Geometry, layer int, oneSet bool) *Selection {
	x := &Selection{}
	parts, top := splits, "top_lanes"
	if l.Plain {
		parts, top = plainSplits, "top"
	}
	lists := [2]int{s.KVHeads, 1}
	shape := []uint32{uint32(layer), uint32(s.KVHeads), uint32(s.HeadDim)}
	heads := []uint32{uint32(layer), uint32(s.Heads), uint32(s.KVHeads), uint32(s.HeadDim)}
	pages := func(consts map[string]string) map[string]string {
		consts["KEY_F16"] = strconv.FormatBool(geo.Key == cache.F16)
		consts["VALUE_F16"] = strconv.FormatBool(geo.Value == cache.F16)
		return consts
	}
	if h := &p.Heads; h.Kind == policy.HeadsAdaptive {
		x.Share = []Stage{{
			Variant: shaders.Variant{Kernel: "adapt"}, groups: [2]int{1, 1},
			Params: append(shape[:3:3], flag(h.Normalise && !h.KVPress), flag(h.KVPress)),
		}}
	}
	rule, chunk := "top", 1
	switch p.Select.Kind {
	case policy.SelectChunks:
		rule, chunk = "chunks", max(1, p.Select.Chunk)
	case policy.SelectCritical:
		rule = "critical"
	}
	x.Store = []Stage{{
		Variant: shaders.Variant{Kernel: "select", Includes: map[string]string{"rule": rule}}, groups: lists,
		Params: append(shape[:3:3], uint32(chunk), float(float32(p.Select.Epsilon))),
	}}
	if p.Store.Virtual {
		x.Store = append(x.Store, Stage{
			Variant: shaders.Variant{Kernel: "absorb", Consts: pages(map[string]string{})}, groups: lists, Params: shape,
		})
	}
	x.Store = append(x.Store, Stage{
		Variant: shaders.Variant{
			Kernel: "keep", Includes: map[string]string{"begin": beginning(p, layer)},
			Consts: pages(map[string]string{"UNTURN": strconv.FormatBool(p.Store.Rank), "ACCRUE": strconv.FormatBool(geo.Scores)}),
		},
		Params:  append(heads[:4:4], uint32(s.RotDim), flag(s.Neox)),
		threads: func(c *Candidates) int { return c.Slots * s.KVHeads * s.HeadDim / 2 },
	})
	x.Compact = []Stage{{
		Variant: shaders.Variant{Kernel: "compact", Consts: pages(map[string]string{"ACCRUE": strconv.FormatBool(geo.Scores)})},
		groups:  lists, Params: shape,
	}}
	scale := float(float32(1 / math.Sqrt(float64(s.HeadDim))))
	if p.Store.Rank {
		x.Logits = []Stage{{
			Variant: shaders.Variant{Kernel: "byrank", Consts: map[string]string{
				"KEY_F16": strconv.FormatBool(geo.Key == cache.F16), "PAIRS": strconv.Itoa(s.HeadDim/2) + "u",
			}},
			groups: [2]int{parts, s.Heads}, Params: append(heads[:4:4], uint32(s.RotDim), flag(s.Neox), scale),
		}}
	} else if page := p.Store.PageIn(layer); page > 0 {
		x.Logits = []Stage{{
			Variant: shaders.Variant{
				Kernel: "score", Includes: map[string]string{"reads": "marked"}, Consts: map[string]string{"KEY_F16": strconv.FormatBool(geo.Key == cache.F16)},
			},
			groups: [2]int{parts, s.Heads}, Params: append(heads[:4:4], scale, uint32(page)),
		}}
	}
	left := "gone"
	if p.Store.Virtual {
		left = "mean"
	}
	x.Values = []Stage{{
		Variant: shaders.Variant{
			Kernel: "weigh", Includes: map[string]string{"top": top, "left": left},
			Consts: map[string]string{"VALUE_F16": strconv.FormatBool(geo.Value == cache.F16)},
		},
		groups: [2]int{parts, s.Heads}, Params: append(heads[:4:4], scale),
	}}
	if p.Decode.Kind != policy.DecodeStop {
		x.Rule = []Stage{evict(p, s, pages(map[string]string{}), layer, top, parts, oneSet)}
	}
	return x
}

// beginning is how the accumulated attention of a prompt's tokens begins: with what all queries gave them, or for the moving
// average of the cap rule with their shares of what the candidates are worth, where that is attention.
func beginning(p *policy.Plan, layer int) string {
	if p.Decode.Kind == policy.DecodeSums {
		return "sums"
	}
	switch p.Score.Kind {
	case policy.ScoreWindow, policy.ScoreIndicator, policy.ScoreColumns, policy.ScoreExpected:
		if p.Decode.Kind == policy.DecodeCap && layer >= p.Score.SkipLayers {
			return "share"
		}
	}
	return "zero"
}

// evict is the kernel of a decode rule. top says how the largest logits of a step are found, parts in how many parts its
// values were weighed.
func evict(p *policy.Plan, s *step.Shape, consts map[string]string, layer int, top string, parts int, oneSet bool) Stage {
	worth, reduce, pool := "nothing", policy.ReduceMean, policy.Pool{Size: 1}
	switch d := &p.Decode; d.Kind {
	case policy.DecodeSums, policy.DecodeCap:
		worth, reduce = "sums", p.Reduce.Kind
	case policy.DecodeRow:
		worth, reduce = "row", d.Reduce.Kind
		if d.Pool.Size > 1 {
			pool = d.Pool
		}
		consts["SPLITS"] = strconv.Itoa(parts) + "u"
	}
	if worth == "sums" && reduce != policy.ReduceLayer || reduce == policy.ReduceLayer && !oneSet {
		reduce = policy.ReduceMean
	}
	consts["ABSORB"] = strconv.FormatBool(p.Store.Virtual)
	return Stage{
		Variant: shaders.Variant{Kernel: "evict", Includes: map[string]string{"worth": worth, "top": top}, Consts: consts},
		groups:  [2]int{s.KVHeads, 1},
		Params: []uint32{
			uint32(layer), uint32(s.Heads), uint32(s.KVHeads), uint32(s.HeadDim),
			uint32(reduce), uint32(pool.Kind), uint32(pool.Size), flag(pool.After), uint32(p.Decode.Recent),
		},
	}
}

package kernel_test

import (
	"math"
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
)

// eachDecode runs a test over both variants of what threads share, on half and float pages. Lists are alike where a layer's
// heads look at them together.
func eachDecode(t *testing.T, alike bool, do func(r *scoreRig)) {
	dev := gputest.Open(t)
	for _, plain := range []bool{true, false} {
		lib := newLibrary(dev)
		lib.Plain = plain
		f := cache.F16
		if plain {
			f = cache.F32
		}
		r := newScoreRig(t, lib, dev, f, alike, false, false)
		do(r)
		r.close()
	}
}

// list is a KV head's list on the host.
func (r *scoreRig) list(h int) *ref.Pages {
	return &ref.Pages{Arena: r.arena, List: r.cache.List(scoreLayer, h), Geo: r.geo}
}

// logits sets the logits of a step and the sums of weights that weigh.wgsl leaves of them, and gives each head's softmax
// over its slots.
func (r *scoreRig) logits() [][]float64 {
	s := &r.shape
	parts := 16
	if r.lib.Plain {
		parts = 4
	}
	logits := slices.Repeat([]float32{9}, s.Heads*r.room) // beyond the slots, what earlier steps left
	sums := make([]float32, parts*s.Heads*(s.HeadDim+1))
	rows := make([][]float64, s.Heads)
	for h := range rows {
		l := r.list(h / (s.Heads / s.KVHeads)).List
		row := logits[h*r.room:][:l.Slots]
		top := math.Inf(-1)
		for slot, at := range l.At {
			row[slot] = kernel.Lowest
			if at != cache.DeadPosition {
				row[slot] = 2 * float32(r.rng.NormFloat64())
				top = max(top, float64(row[slot]))
			}
		}
		rows[h] = make([]float64, l.Slots)
		sum := 0.0
		for slot, x := range row {
			if x > kernel.Lowest {
				rows[h][slot] = math.Exp(float64(x) - top)
				sum += rows[h][slot]
				sums[parts*s.Heads*s.HeadDim+slot%parts*s.Heads+h] += float32(rows[h][slot])
			}
		}
		for slot := range rows[h] {
			rows[h][slot] /= sum
		}
	}
	r.upload("scores", quant.Bytes(logits))
	r.upload("parts", quant.Bytes(sums))
	return rows
}

// The attention of a decoded token is folded into the accumulated attention where it lies, decayed by the rule; the newest
// token begins at 0, whatever its slot held. After the end of the answer nothing is written.
func TestScoringSums(t *testing.T) {
	eachDecode(t, false, func(r *scoreRig) {
		group := r.shape.Heads / r.shape.KVHeads
		for name, c := range map[string]struct {
			rule          policy.Decode
			decay, weight float64
			halt          bool
		}{
			"sums":    {policy.Decode{Kind: policy.DecodeSums, Decay: 1}, 1, 1, false},
			"decayed": {policy.Decode{Kind: policy.DecodeSums, Decay: .75}, .75, 1, false},
			"cap":     {policy.Decode{Kind: policy.DecodeCap, Decay: .9}, .9, .1, false},
			"halted":  {policy.Decode{Kind: policy.DecodeSums, Decay: .5}, 1, 0, true},
		} {
			x := r.lib.Scoring(&policy.Plan{Decode: c.rule}, &r.shape, &r.geo, scoreLayer)
			words := kernel.ScoringSession(r.cache, 0, 0, 1, 0, r.room)
			words[kernel.WordHalt] = map[bool]uint32{true: 1}[c.halt]
			r.upload("session", quant.Bytes(words))
			r.upload("arena", r.arena)
			rows := r.logits()
			r.run(x, x.Row)
			got := make([]byte, len(r.arena))
			r.must(r.dev.Read(r.bufs["arena"], 0, got))
			for h := range r.shape.KVHeads {
				before, after := r.list(h), r.list(h)
				after.Arena = got
				order := before.List.Order()
				for _, slot := range order {
					want := c.decay * float64(*before.Score(int(slot)))
					if slot == order[len(order)-1] && !c.halt {
						want = 0
					}
					for _, row := range rows[h*group:][:group] {
						want += c.weight / float64(group) * row[slot]
					}
					if g := float64(*after.Score(int(slot))); !(math.Abs(g-want) <= 1e-6+1e-5*want) {
						t.Errorf("%s: head %d, slot %d: %v, want %v", name, h, slot, g, want)
					}
				}
			}
		}
	})
}

// bounds are those of a page of slots by their definition, nil where all are dead.
func (r *scoreRig) bounds(h, page int) []float32 {
	p := r.list(h)
	var out []float32
	for slot := page * r.geo.Bound; slot < min(p.List.Slots, (page+1)*r.geo.Bound); slot++ {
		if p.List.At[slot] == cache.DeadPosition {
			continue
		}
		first := out == nil
		if first {
			out = make([]float32, 2*r.geo.HeadDim)
		}
		stage.Bound(out, unpack(p.Key(slot), r.geo.Key, r.geo.HeadDim), first)
	}
	return out
}

// boundsOf is what the arena says they are.
func (r *scoreRig) boundsOf(arena []byte, h, page int) []float32 {
	return quant.Float32s(arena[r.list(h).List.Bounds[page]*4:][:8*r.geo.HeadDim])
}

// Pages of bounds hold the extremes of the keys that are stored in their slots; a step of decoding sets those of the newest
// token's page alone.
func TestScoringBounds(t *testing.T) {
	eachDecode(t, false, func(r *scoreRig) {
		x := r.lib.Scoring(&policy.Plan{Store: policy.Store{Page: r.geo.Bound, Read: 4}}, &r.shape, &r.geo, scoreLayer)
		for _, recorded := range []bool{false, true} {
			r.upload("arena", r.arena)
			if recorded {
				r.run(x, x.Query[:1])
			} else {
				r.run(x, x.Stored)
			}
			got := make([]byte, len(r.arena))
			r.must(r.dev.Read(r.bufs["arena"], 0, got))
			for h := range r.shape.KVHeads {
				l := r.list(h).List
				order := l.Order()
				for page := range l.Bounds {
					want := r.bounds(h, page)
					if want == nil || recorded && page != int(order[len(order)-1])/r.geo.Bound {
						want = r.boundsOf(r.arena, h, page)
					}
					if !slices.Equal(r.boundsOf(got, h, page), want) {
						t.Errorf("recorded %v: head %d, page %d: %v, want %v", recorded, h, page, r.boundsOf(got, h, page), want)
					}
				}
			}
		}
	})
}

// A query reads the newest token's page and those with the largest bounds; of equals the first. Slots of other pages have
// no logit.
func TestScoringPages(t *testing.T) {
	eachDecode(t, false, func(r *scoreRig) {
		s, d := &r.shape, r.shape.HeadDim
		clear(r.q[s.Heads*d:][:d]) // to head 0 of row 1 all pages are alike
		r.upload("q", quant.Bytes(r.q))
		words := kernel.ScoringSession(r.cache, 0, 0, 1, 0, r.room)
		words[kernel.WordQuery] = 1
		r.upload("session", quant.Bytes(words))
		stride := (r.room + r.geo.Bound - 1) / r.geo.Bound
		for read := 1; read <= 4; read++ {
			p := &policy.Plan{Store: policy.Store{Page: r.geo.Bound, Read: read*r.geo.Bound + 1}}
			x := r.lib.Scoring(p, s, &r.geo, scoreLayer)
			r.run(x, x.Stored)
			r.run(x, x.Query)
			r.upload("scores", quant.Bytes(slices.Repeat([]float32{unread}, s.Heads*r.room)))
			r.run(x, r.lib.Selection(p, s, &r.geo, scoreLayer, false).Logits)
			scores := r.read("scores", s.Heads*r.room)
			marks := make([]uint32, s.Heads*stride)
			r.must(r.dev.Read(r.bufs["marks"], 0, quant.Bytes(marks)))
			arena := make([]byte, len(r.arena))
			r.must(r.dev.Read(r.bufs["arena"], 0, arena))
			for h := range s.Heads {
				kv := h / (s.Heads / s.KVHeads)
				l := r.list(kv).List
				most, want := make([]float32, len(l.Bounds)), make([]bool, len(l.Bounds))
				for page := range most {
					stage.PageScores(most[page:page+1], r.q[(s.Heads+h)*d:][:d], r.boundsOf(arena, kv, page))
				}
				order := l.Order()
				stage.Pages(want, most, int(order[len(order)-1])/r.geo.Bound, read, nil)
				for page, w := range want {
					if got := marks[h*stride+page]; got != map[bool]uint32{true: 1}[w] {
						t.Errorf("%d pages: head %d, page %d: marked %d, want %v of %v", read, h, page, got, w, most)
					}
				}
				for slot, at := range l.At {
					logit := scores[h*r.room+slot]
					if !want[slot/r.geo.Bound] || at == cache.DeadPosition {
						if logit != kernel.Lowest {
							t.Errorf("%d pages: head %d, slot %d is not read: %v", read, h, slot, logit)
						}
						continue
					}
					dot := make([]float32, 1)
					stage.Go{}.Dots(dot, r.q[(s.Heads+h)*d:][:d], unpack(r.list(kv).Key(slot), r.geo.Key, d), float32(1/math.Sqrt(float64(d))))
					reftest.Compare(t, "logit", []float32{logit}, dot, reftest.Float32)
				}
			}
		}
	})
}

// Layers that a plan leaves whole choose no pages.
func TestScoringWhole(t *testing.T) {
	lib := new(kernel.Library)
	geo := cache.Geometry{Layers: 2, KVHeads: 2, HeadDim: scoreShape.HeadDim, Bound: 2}
	p := &policy.Plan{Store: policy.Store{Page: 2, Read: 4, Whole: scoreLayer + 1}}
	if x := lib.Scoring(p, &scoreShape, &geo, scoreLayer); len(x.Stored)+len(x.Query) != 0 {
		t.Errorf("%d and %d stages for pages that nobody reads by", len(x.Stored), len(x.Query))
	}
	if x := lib.Selection(p, &scoreShape, &geo, scoreLayer, false); len(x.Logits) != 0 {
		t.Error("logits of some pages in a layer that reads everything")
	}
}

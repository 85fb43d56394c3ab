package kernel_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/cache/policy/stage"
	"kvlens/wasm/gpu"
	"kvlens/wasm/gpu/gputest"
	"kvlens/wasm/kernel"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
	"kvlens/web/lab/golden"
)

// How many of a layer's highest scores each head has, and AdaKV's budgets by them.
func TestGoldenAdaptive(t *testing.T) {
	n, dev := golden.Count(t), gputest.Open(t)
	lib := newLibrary(dev)
	for i, c := range golden.Alloc(t).Adaptive {
		heads, tokens := len(c.Scores), len(c.Scores[0])
		r := openScoreRig(t, lib, dev, step.Shape{Layers: 2, Heads: heads, KVHeads: heads, HeadDim: 2}, cache.Geometry{PageK: 2, PageV: 4}, 8)
		r.rows, r.room = tokens, tokens
		r.c = kernel.Candidates{Stored: make([][]uint32, heads), New: tokens}
		worth := make([]float32, heads*r.c.Stride())
		guards := make([]policy.Quota, heads)
		for h, row := range c.Scores {
			copy(worth[h*r.c.Stride():], row)
			guards[h].Limit = tokens // nothing is protected
		}
		r.upload("worth", quant.Bytes(worth))
		r.upload("arena", r.arena)
		r.upload("session", quant.Bytes(kernel.ScoringSession(r.cache, 0, 0, tokens, 0, r.room)))
		p := &policy.Plan{Heads: policy.Heads{Kind: policy.HeadsAdaptive, Normalise: c.Normalize}}
		won, err := counted{r, p}.Highest(scoreLayer, &policy.Contest{
			Guards: guards, Contest: stage.NewContest(heads*c.B, heads, c.Alpha, c.Normalize, true, false),
		})
		r.must(err)
		n.Case(1)
		if got := stage.AdaptiveReference(won, c.B, c.Alpha); !slices.Equal(got, c.Caps) {
			t.Errorf("%d: budgets %v, want %v", i, got, c.Caps)
		}
		r.close()
	}
}

// answer begins to decode on the device under a plan: the host stores tokens, and learns from their positions what left.
func (r *scoreRig) answer(p *policy.Plan, limit int) {
	r.t.Helper()
	s := &r.shape
	var lists []uint32
	ranks := slices.Repeat([]uint32{kernel.NoRank}, s.Layers*s.KVHeads*r.room)
	recent := p.Protect.Recent
	if p.Decode.Kind == policy.DecodeOldest {
		recent = limit
	}
	for i := range s.Layers * s.KVHeads {
		l := r.cache.List(scoreLayer, i%s.KVHeads)
		q := kernel.Quota{Live: l.Live, Slots: l.Slots, Limit: limit, Full: limit + 1}
		q.Oldest, q.Newest = stage.Guard(limit+1, p.Protect.Sinks, recent, limit)
		lists = append(lists, q.Words()...)
		for rank, slot := range l.Order() {
			ranks[i*r.room+int(slot)] = uint32(rank)
		}
	}
	r.upload("lists", quant.Bytes(lists))
	r.upload("ranks", quant.Bytes(ranks))
	for name, n := range map[string]int{
		"scores": s.Heads * r.room, "parts": 16 * s.Heads * (s.HeadDim + 1), "stays": s.KVHeads * r.room, "by_rank": s.KVHeads * r.room,
	} {
		r.upload(name, make([]byte, 4*n))
	}
}

// decode stores a token with a key for each KV head, looks with a query for each head, and lets the rule drop tokens.
func (r *scoreRig) decode(p *policy.Plan, pos int, keys, queries [][]float32) {
	r.t.Helper()
	for h, key := range keys {
		slots, err := r.cache.Put(scoreLayer, h, []uint32{uint32(pos)})
		r.must(err)
		pages := r.list(h)
		pack(pages.Key(int(slots[0])), r.geo.Key, key)
		*pages.Position(int(slots[0])) = uint32(pos)
	}
	r.upload("arena", r.arena)
	r.upload("session", quant.Bytes(kernel.ScoringSession(r.cache, pos, 0, 1, 0, r.room)))
	sc, sel := r.lib.Scoring(p, &r.shape, &r.geo, scoreLayer), r.lib.Selection(p, &r.shape, &r.geo, scoreLayer, false)
	if queries != nil {
		r.upload("q", quant.Bytes(slices.Concat(queries...)))
		r.run(sc, []kernel.Stage{r.lib.Logits(&r.shape, &r.geo, scoreLayer)})
		r.run(sc, sel.Values)
		r.run(sc, sc.Row)
	}
	r.run(sc, sel.Rule)
	r.must(r.dev.Read(r.bufs["arena"], 0, r.arena))
	for h := range keys {
		pages, l := r.list(h), r.cache.List(scoreLayer, h)
		var left []uint32
		for slot, at := range l.At {
			if at != cache.DeadPosition && *pages.Position(slot) == cache.DeadPosition {
				left = append(left, uint32(slot))
			}
		}
		r.cache.Evict(scoreLayer, h, left)
	}
}

// holds are the positions of a list's tokens, and what attention they have.
func (r *scoreRig) holds(h int) (pos []int32, acc []float32) {
	pages := r.list(h)
	for _, slot := range pages.List.Order() {
		pos = append(pos, int32(*pages.Position(int(slot))))
		if r.geo.Scores {
			acc = append(acc, *pages.Score(int(slot)))
		}
	}
	return pos, acc
}

// prompt scores, selects and stores a prompt of which all lists keep as many tokens.
func (r *scoreRig) prompt(p *policy.Plan, limit int) {
	r.t.Helper()
	r.scores(p, nil)
	quotas := slices.Repeat([]policy.Quota{r.guard(p, limit)}, r.shape.KVHeads)
	for h, kept := range r.keeps(p, quotas) {
		var positions []uint32
		for _, i := range kept {
			positions = append(positions, uint32(i))
		}
		_, err := r.cache.Put(scoreLayer, h, positions)
		r.must(err)
		r.c.Slots = max(r.c.Slots, len(kept))
	}
	// Select wrote the lists; now they have pages.
	words := kernel.ScoringSession(r.cache, 0, 0, r.rows, r.rows*r.shape.KVHeads*r.shape.HeadDim, r.room)
	r.upload("session", quant.Bytes(words))
	r.run(r.lib.Scoring(p, &r.shape, &r.geo, scoreLayer), r.lib.Selection(p, &r.shape, &r.geo, scoreLayer, false).Store[1:])
	r.must(r.dev.Read(r.bufs["arena"], 0, r.arena))
}

// H2O reads prompts and then token by token, K expanded to all query heads: what stays, and its accumulated attention.
func TestGoldenHeavyHitters(t *testing.T) {
	n, dev := golden.Count(t), gputest.Open(t)
	lib := newLibrary(dev)
	layers := golden.PolicyInputs(t)
	runs, fixed := golden.H2O(t)
	plan := func(recent int) *policy.Plan {
		return &policy.Plan{
			Score: policy.Score{Kind: policy.ScoreColumns}, Protect: policy.Protect{Recent: recent},
			Decode: policy.Decode{Kind: policy.DecodeSums, Decay: 1},
		}
	}
	for i, c := range runs {
		l, p := layers[c.Layer], plan(c.Recent)
		r := newGoldenRig(t, lib, dev, &l, golden.TinyHeads, c.P)
		r.prompt(p, c.HH+c.Recent)
		r.answer(p, c.HH+c.Recent)
		at := c.P - 1
		for _, want := range c.Steps {
			for ; at < want.T; at++ {
				var keys, queries [][]float32
				for h := range l.Q {
					keys, queries = append(keys, l.K[h*golden.TinyKVHeads/golden.TinyHeads][at+1]), append(queries, l.Q[h][at+1])
				}
				r.decode(p, at+1, keys, queries)
			}
			for h := range want.Kept {
				n.Case(1)
				what := fmt.Sprintf("run %d token %d head %d", i, want.T, h)
				pos, acc := r.holds(h)
				if !slices.Equal(pos, want.Kept[h]) {
					t.Fatalf("%s: kept %v, want %v", what, pos, want.Kept[h])
				}
				if want.Acc != nil {
					golden.Close(t, what, acc, want.Acc[h], 1e-4, 0)
				}
			}
		}
		r.close()
	}
	// One head whose logits depend on the key alone: q·k/√2 with q = (√2, 0).
	p, limit := plan(fixed.Recent), fixed.HH+fixed.Recent
	r := one(t, lib, dev, limit)
	r.answer(p, limit)
	for _, want := range fixed.Steps {
		r.decode(p, want.T, [][]float32{{fixed.Logits[want.T], 0}}, [][]float32{{math.Sqrt2, 0}})
		n.Case(1)
		pos, acc := r.holds(0)
		if !slices.Equal(pos, want.Kept) {
			t.Fatalf("fixed logits, token %d: kept %v, want %v", want.T, pos, want.Kept)
		}
		golden.Close(t, fmt.Sprintf("fixed logits, token %d", want.T), acc, want.Acc, 1e-4, 0)
	}
	r.close()
}

// one is a list of one head with room for some tokens.
func one(t *testing.T, lib *kernel.Library, dev gpu.Device, limit int) *scoreRig {
	r := openScoreRig(t, lib, dev, step.Shape{Layers: 2, Heads: 1, KVHeads: 1, HeadDim: 2}, cache.Geometry{PageK: 2, PageV: 4, Scores: true}, limit+1)
	r.room = limit + 1
	r.c = kernel.Candidates{Stored: make([][]uint32, 1)}
	return r
}

// StreamingLLM streams token by token, and makes room for several at once.
func TestGoldenStreaming(t *testing.T) {
	n, dev := golden.Count(t), gputest.Open(t)
	lib := newLibrary(dev)
	g := golden.StreamingLLM(t)
	for i, c := range g.PerStep {
		p := &policy.Plan{Protect: policy.Protect{Sinks: c.S}, Decode: policy.Decode{Kind: policy.DecodeOldest}}
		r := one(t, lib, dev, c.S+c.R)
		r.answer(p, c.S+c.R)
		for _, step := range c.Steps {
			before, _ := r.holds(0)
			n.Case(2)
			if attends := append(before, int32(step.T)); !slices.Equal(attends, step.Attends) {
				t.Errorf("run %d: token %d attends to %v, want %v", i, step.T, attends, step.Attends)
			}
			r.decode(p, step.T, [][]float32{{0, 0}}, nil)
			if pos, _ := r.holds(0); !slices.Equal(pos, step.Stored) {
				t.Fatalf("run %d: after token %d %v, want %v", i, step.T, pos, step.Stored)
			}
		}
		r.close()
	}
	for _, c := range g.Space {
		n.Case(1)
		if c.Coming >= c.R { // the original keeps no recent token at all; ours reads such a chunk in pieces
			n.Tie(1)
			continue
		}
		r := one(t, lib, dev, c.N)
		r.rows, r.c.New = c.N, c.N
		r.upload("arena", r.arena)
		r.upload("session", quant.Bytes(kernel.ScoringSession(r.cache, 0, 0, c.N, 0, r.room)))
		p := &policy.Plan{Protect: policy.Protect{Sinks: c.S}}
		kept := r.keeps(p, []policy.Quota{r.guard(p, c.S+c.R-c.Coming)})[0]
		if !slices.Equal(kept, c.Stored) {
			t.Errorf("%d + %d of %d, room for %d: %v, want %v", c.S, c.R, c.N, c.Coming, kept, c.Stored)
		}
		r.close()
	}
}

// Quest's page scores and best pages. The newest token, whose page is always read, has one of its own here.
func TestGoldenPages(t *testing.T) {
	n, dev := golden.Count(t), gputest.Open(t)
	lib := newLibrary(dev)
	layers := golden.PolicyInputs(t)
	const d = golden.TinyHeadDim
	for i, c := range golden.Quest(t) {
		layer := &layers[c.Layer]
		tokens := len(layer.K[0])
		prefix := tokens - c.Recent
		pages := (prefix + c.Page - 1) / c.Page
		s := step.Shape{Layers: 2, Heads: golden.TinyHeads, KVHeads: golden.TinyKVHeads, HeadDim: d}
		r := openScoreRig(t, lib, dev, s, cache.Geometry{PageK: 2, PageV: 4, Bound: c.Page}, (pages+1)*c.Page)
		r.room, r.rows = (pages+1)*c.Page, tokens
		r.c = kernel.Candidates{Stored: make([][]uint32, s.KVHeads), New: tokens, Slots: (pages + 1) * c.Page}
		for h := range s.KVHeads {
			var dead []uint32
			for slot := range pages*c.Page + 1 {
				_, err := r.cache.Put(scoreLayer, h, []uint32{uint32(slot)})
				r.must(err)
				p := &ref.Pages{Arena: r.arena, List: r.cache.List(scoreLayer, h), Geo: r.geo}
				*p.Position(slot) = uint32(slot)
				if slot < prefix {
					pack(p.Key(slot), r.geo.Key, layer.K[h][slot])
				} else if slot < pages*c.Page {
					*p.Position(slot) = cache.DeadPosition
					dead = append(dead, uint32(slot))
				}
			}
			r.cache.Evict(scoreLayer, h, dead)
		}
		var q []float32
		for h := range s.Heads {
			q = append(q, layer.Q[h][tokens-1]...)
		}
		r.upload("q", quant.Bytes(q))
		r.upload("arena", r.arena)
		r.upload("session", quant.Bytes(kernel.ScoringSession(r.cache, 0, 0, 1, 0, r.room)))
		x := lib.Scoring(&policy.Plan{Store: policy.Store{Page: c.Page, Read: (len(c.Pages[0]) + 1) * c.Page}}, &s, &r.geo, scoreLayer)
		r.run(x, x.Stored)
		r.run(x, x.Query)
		most := r.read("most", s.Heads*(pages+1))
		marks := make([]uint32, s.Heads*(pages+1))
		r.must(dev.Read(r.bufs["marks"], 0, quant.Bytes(marks)))
		for h := range s.Heads {
			what := fmt.Sprintf("%d layer %d head %d", i, c.Layer, h)
			if c.Scores != nil {
				golden.Close(t, what, most[h*(pages+1):][:pages], c.Scores[h], 1e-4, 1e-4)
				n.Case(1)
			}
			var read []int32
			for page := range pages {
				if marks[h*(pages+1)+page] != 0 {
					read = append(read, int32(page))
				}
			}
			if !slices.Equal(read, c.Pages[h]) {
				t.Errorf("%s: pages %v, want %v", what, read, c.Pages[h])
			}
			n.Case(1)
		}
		r.close()
	}
}

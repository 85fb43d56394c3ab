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
	"kvlens/wasm/ref"
	"kvlens/wasm/ref/reftest"
)

// device are the lists' pages as the device has them.
func (r *keepRig) device(h int) *ref.Pages {
	r.Helper()
	arena := make([]byte, len(r.arena))
	r.must(r.dev.Read(r.bufs["arena"], 0, arena))
	return &ref.Pages{Arena: arena, List: r.list(h), Geo: r.geo}
}

// testKeepShares: under the cap rule accumulated attention begins with shares of what all candidates are worth, and with
// nothing where that is no attention.
func testKeepShares(t *testing.T, lib *kernel.Library, dev gpu.Device) {
	for i, kind := range []policy.ScoreKind{policy.ScoreWindow, policy.ScoreNorm, policy.ScoreWindow} {
		r := newKeepRig(t, lib, dev, cache.Geometry{Scores: true})
		if i == 2 { // worth nothing at all
			r.flat = new(float32(0))
		}
		r.fill(12, 14)
		p := &policy.Plan{Score: policy.Score{Kind: kind}, Decode: policy.Decode{Kind: policy.DecodeCap}}
		x := r.selection(p, 9, 1, 2, []int{8, 12})
		stride := r.quota(0).Stride
		for h, kept := range x.kept {
			n := r.quota(h).Live + 9
			shares := make([]float32, n)
			if kind == policy.ScoreWindow {
				shares = stage.Normalised(x.worth[h*stride:][:n])
			}
			var got, want []float32
			for rank, slot := range r.list(h).Order() {
				got, want = append(got, *r.device(h).Score(int(slot))), append(want, shares[kept[rank]])
			}
			reftest.Compare(t, "shares", got, want, reftest.Float32)
		}
	}
}

// testKeepUnturned: keys of positions by rank are stored as they were before RoPE.
func testKeepUnturned(t *testing.T, lib *kernel.Library, dev gpu.Device) {
	for _, neox := range []bool{false, true} {
		keepShape.Neox = neox
		r := newKeepRig(t, lib, dev, cache.Geometry{})
		r.neox = neox
		x := r.selection(&policy.Plan{Store: policy.Store{Rank: true}}, 20, 2, 5, []int{9, 20})
		keepShape.Neox = false
		for h := range keepShape.KVHeads {
			p, d := r.device(h), keepShape.HeadDim
			for _, slot := range r.list(h).Order() {
				pos := int(r.list(h).At[slot])
				got := unpack(p.Key(int(slot)), cache.F32, d)
				r.turn(pos).Apply(got)
				reftest.Compare(t, "a key, turned again", got, x.kv[(pos*keepShape.KVHeads+h)*d:][:d], reftest.Float32)
			}
		}
	}
}

// testCompact: what the cache moves is moved, and nothing else is touched.
func testCompact(t *testing.T, lib *kernel.Library, dev gpu.Device) {
	for _, c := range []struct {
		geo    cache.Geometry
		stored []int
	}{{cache.Geometry{}, []int{12, 14}}, {cache.Geometry{Key: cache.F16, Value: cache.F16, Scores: true}, []int{9, 100}}} {
		r := newKeepRig(t, lib, dev, c.geo)
		r.fill(c.stored...)
		for h := range keepShape.KVHeads {
			l := r.list(h)
			r.evict(h, slices.Clone(l.Order()[1:4]))
			*r.quota(h) = kernel.Quota{Live: l.Live, Slots: l.Slots}
		}
		r.upload("arena", r.arena)
		r.upload("lists", quant.Bytes(r.lists()))
		r.upload("ranks", quant.Bytes(r.ranks()))
		r.upload("session", quant.Bytes(r.session(0, 1)))
		r.scratch(keepShape.KVHeads*keepRoom, "stays", "kept")
		for h := range keepShape.KVHeads {
			p := r.pages(h)
			for _, m := range r.cache.Compact(keepLayer, h) {
				from, to := int(m.From), int(m.To)
				copy(p.Key(to), p.Key(from))
				copy(p.Value(to), p.Value(from))
				*p.Position(to), *p.Position(from) = *p.Position(from), cache.DeadPosition
				if c.geo.Scores {
					*p.Score(to) = *p.Score(from)
				}
			}
		}
		r.run(nil, lib.Selection(&policy.Plan{}, &keepShape, &r.geo, keepLayer, false).Compact...)
		r.same("after compaction", 0)
	}
}

// testAbsorb: a list's sums are those of the keys and values that left it or were never stored, from a prompt, a later one
// and decoding, and their number.
func testAbsorb(t *testing.T, lib *kernel.Library, dev gpu.Device) {
	for _, f := range []cache.Format{cache.F32, cache.F16} {
		r := newKeepRig(t, lib, dev, cache.Geometry{Key: f, Value: f, Sums: true})
		p := &policy.Plan{
			Protect: policy.Protect{Sinks: 1, Recent: 1}, Store: policy.Store{Virtual: true}, Decode: policy.Decode{Kind: policy.DecodeOldest},
		}
		d := keepShape.HeadDim
		want := [2][]float64{make([]float64, 2*d+1), make([]float64, 2*d+1)}
		for _, limits := range [][]int{{6, 11}, {5, 9}} {
			before := [2][][]float32{}
			for h := range 2 {
				for _, slot := range r.list(h).Order() {
					pages := r.pages(h)
					before[h] = append(before[h], append(unpack(pages.Key(int(slot)), f, d), unpack(pages.Value(int(slot)), f, d)...))
				}
			}
			x := r.selection(p, 12, 1, 4, limits)
			r.arena = r.device(0).Arena // with the sums, and what is stored is tested elsewhere
			for h := range 2 {
				tokens := before[h]
				for t := range 12 {
					at := (t*2 + h) * d
					tokens = append(tokens, append(slices.Clone(x.kv[at:][:d]), x.kv[12*2*d+at:][:d]...))
				}
				left := 0
				for i, token := range tokens {
					if slices.Contains(x.kept[h], int32(i)) {
						continue
					}
					left++
					for c, v := range token {
						want[h][c] += float64(v)
					}
				}
				want[h][2*d] += float64(left)
				r.cache.Absorb(keepLayer, h, left)
			}
			r.sums("a prompt", want)
		}
		// In decoding the oldest after the sinks leaves.
		for h := range 2 {
			order := r.list(h).Order()
			pages := r.pages(h)
			limit := len(order) - 1
			*r.quota(h) = kernel.Quota{
				Live: limit, Slots: r.list(h).Slots, Limit: limit, Full: limit + 1, Oldest: 1, Newest: limit - 1, Absorbed: r.list(h).Absorbed,
			}
			leaves := int(order[1])
			for c, v := range append(unpack(pages.Key(leaves), f, d), unpack(pages.Value(leaves), f, d)...) {
				want[h][c] += float64(v)
			}
			want[h][2*d]++
		}
		r.upload("lists", quant.Bytes(r.lists()))
		r.upload("ranks", quant.Bytes(r.ranks()))
		r.upload("session", quant.Bytes(r.session(300, 1)))
		r.scratch(2*keepRoom, "stays", "by_rank")
		r.run(nil, lib.Selection(p, &keepShape, &r.geo, keepLayer, false).Rule...)
		r.sums("a step", want)
	}
}

// sums compares the lists' sums.
func (r *keepRig) sums(what string, want [2][]float64) {
	r.Helper()
	for h := range want {
		pages, n := r.device(h), len(want[h])
		got := quant.Float32s(pages.Arena[int(pages.List.Sums[0])*4:][:4*n])
		sums := make([]float32, n)
		for i, v := range want[h] {
			sums[i] = float32(v)
		}
		reftest.Compare(r, "sums after "+what, got, sums, reftest.Float32)
		lists := r.words("lists", len(r.quotas)*kernel.ListWords)
		if count := lists[(keepLayer*keepShape.KVHeads+h)*kernel.ListWords+kernel.ListCount]; float64(count) != want[h][n-1] {
			r.Errorf("list %d counts %d after %s, want %v", h, count, what, want[h][n-1])
		}
	}
}

// testVirtual: the compensation token joins the first part with its weight relative to the row's largest logit; without
// tokens that left nothing changes.
func testVirtual(t *testing.T, lib *kernel.Library, dev gpu.Device) {
	defer func(was bool) { lib.Plain = was }(lib.Plain)
	for _, plain := range []bool{true, false} {
		lib.Plain = plain
		r := newKeepRig(t, lib, dev, cache.Geometry{Sums: true})
		r.fill(12, 14)
		s, d := &keepShape, keepShape.HeadDim
		nan := float32(math.NaN()) // a record that no token has joined may hold anything
		sums := [2][]float32{append(r.draw(2*d), 5), append(slices.Repeat([]float32{nan}, 2*d), 0)}
		for h, x := range sums {
			copy(quant.Float32s(r.arena[int(r.list(h).Sums[0])*4:][:len(x)*4]), x)
			*r.quota(h) = kernel.Quota{Live: r.list(h).Live, Absorbed: int(x[2*d])}
		}
		q, scores := r.draw(3*s.Heads*d), r.draw(s.Heads*keepRoom)
		for h := range s.Heads {
			for slot := range keepRoom {
				if slot >= r.list(h/2).Slots { // of earlier rows
					scores[h*keepRoom+slot] = 100
				}
			}
		}
		splits := 16
		if plain {
			splits = 4
		}
		const query = 2
		session := r.session(300, 1)
		session[kernel.WordQuery] = query
		r.upload("session", quant.Bytes(session))
		r.upload("q", quant.Bytes(q))
		r.upload("scores", quant.Bytes(scores))
		r.upload("arena", r.arena)
		r.upload("lists", quant.Bytes(r.lists()))
		r.scratch(splits*s.Heads*(d+1), "parts")
		parts := func(virtual bool) []float32 {
			p := &policy.Plan{Store: policy.Store{Virtual: virtual}}
			r.run(nil, lib.Selection(p, s, &r.geo, keepLayer, false).Values...)
			return quant.Float32s(quant.Bytes(r.words("parts", splits*s.Heads*(d+1))))
		}
		want := parts(false)
		for h := range s.Heads {
			x := sums[h/2]
			n := float64(x[2*d])
			if n == 0 {
				continue
			}
			logit := 0.0
			for c := range d {
				logit += float64(q[(query*s.Heads+h)*d+c]) * float64(x[c]) / n
			}
			top := float64(slices.Max(scores[h*keepRoom:][:r.list(h/2).Slots]))
			w := n * math.Exp(logit/math.Sqrt(float64(d))-top)
			for c := range d {
				want[h*d+c] += float32(w * float64(x[d+c]) / n)
			}
			want[splits*s.Heads*d+h] += float32(w)
		}
		reftest.Compare(t, "parts", parts(true), want, reftest.Float32)
	}
}

// testByRank: the logits of a query and keys whose positions are their ranks, whether the newest token's rank is known or not.
func testByRank(t *testing.T, lib *kernel.Library, dev gpu.Device) {
	for i, f := range []cache.Format{cache.F32, cache.F16, cache.F32} {
		r := newKeepRig(t, lib, dev, cache.Geometry{Key: f})
		r.neox = i == 2
		s, d := keepShape, keepShape.HeadDim
		s.Neox = r.neox
		r.fill(12, 100)
		const pos, query = 120, 1
		ranks := r.ranks()
		for h := range s.KVHeads { // the newest token has a slot, and its rank is not known yet
			l := r.list(h)
			*r.quota(h) = kernel.Quota{Live: l.Live, Slots: l.Slots}
			slots, err := r.cache.Put(keepLayer, h, []uint32{pos})
			r.must(err)
			r.put(h, int(slots[0]), pos, r.draw(d), r.draw(d), 0)
		}
		raw := r.draw(2 * s.Heads * d)
		q := slices.Clone(raw)
		for h := range 2 * s.Heads {
			r.turn(pos).Apply(q[h*d:][:d])
		}
		session := r.session(pos, 1)
		session[kernel.WordQuery] = query
		for name, x := range map[string][]uint32{"session": session, "lists": r.lists(), "ranks": ranks} {
			r.upload(name, quant.Bytes(x))
		}
		r.upload("q", quant.Bytes(q))
		r.upload("arena", r.arena)
		r.scratch(s.Heads*keepRoom, "scores")
		run := func() []float32 {
			r.run(nil, lib.Selection(&policy.Plan{Store: policy.Store{Rank: true}}, &s, &r.geo, keepLayer, false).Logits...)
			return quant.Float32s(quant.Bytes(r.words("scores", s.Heads*keepRoom)))
		}
		got := run()
		for h := range s.KVHeads {
			r.quota(h).Live = r.list(h).Live
		}
		r.upload("ranks", quant.Bytes(r.ranks()))
		r.upload("lists", quant.Bytes(r.lists()))
		reftest.Compare(t, "logits with a rank that is known", run(), got, reftest.Tolerance{})
		for i := range r.quotas {
			session[kernel.RingAt+2*i] = math.MaxUint32
		}
		r.upload("session", quant.Bytes(session))
		reftest.Compare(t, "logits without a newest slot", run(), got, reftest.Tolerance{})
		for h := range s.Heads {
			l, p := r.list(h/2), r.pages(h/2)
			want := slices.Repeat([]float32{kernel.Lowest}, l.Slots)
			x := slices.Clone(raw[(query*s.Heads+h)*d:][:d])
			r.turn(l.Live - 1).Apply(x)
			for rank, slot := range l.Order() {
				key := unpack(p.Key(int(slot)), f, d)
				r.turn(rank).Apply(key)
				sum := 0.0
				for c := range d {
					sum += float64(x[c]) * float64(key[c])
				}
				want[slot] = float32(sum / math.Sqrt(float64(d)))
			}
			reftest.Compare(t, "logits", got[h*keepRoom:][:l.Slots], want, reftest.Float32)
			if quant.Uint32s(quant.Bytes(got))[h*keepRoom+l.Slots] != 77 {
				t.Error("a logit beyond the last slot")
			}
		}
	}
}

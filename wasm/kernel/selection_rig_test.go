package kernel_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy/stage"
	"kvlens/wasm/gpu"
	"kvlens/wasm/kernel"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
)

// Selection is tested on layer 1 of three, with lists of different lengths that have dead slots.
const keepLayer, keepRoom = 1, 160

var keepShape = step.Shape{Layers: 3, Heads: 4, KVHeads: 2, HeadDim: 8, RotDim: 6}

// keepRig holds lists on the device, and on the host as the cache and the reference have them.
type keepRig struct {
	*testing.T
	lib    *kernel.Library
	dev    gpu.Device
	rng    *rand.Rand
	cache  *cache.Cache
	geo    cache.Geometry
	arena  []byte
	quotas []kernel.Quota
	rope   []float32 // [position][rot/2][2]
	neox   bool
	flat   *float32 // all candidates are worth this, or its negative if it is 0
	pins   []int32
	bufs   map[string]gpu.Buffer
}

func newKeepRig(t *testing.T, lib *kernel.Library, dev gpu.Device, geo cache.Geometry) *keepRig {
	t.Helper()
	s := keepShape
	geo.Layers, geo.KVHeads, geo.HeadDim, geo.PageK, geo.PageV = s.Layers, s.KVHeads, s.HeadDim, 2, 4
	r := &keepRig{T: t, lib: lib, dev: dev, rng: rand.New(rand.NewPCG(5, 6)), geo: geo, bufs: map[string]gpu.Buffer{}}
	var err error
	r.cache, err = cache.New(geo, geo.FullBytes(keepRoom), new(cache.Ledger))
	r.must(err)
	t.Cleanup(func() {
		r.cache.Close()
		for _, b := range r.bufs {
			dev.Destroy(b)
		}
	})
	r.arena = make([]byte, r.cache.Cap())
	r.quotas = make([]kernel.Quota, s.Layers*s.KVHeads)
	for i := range r.quotas { // of other layers
		r.quotas[i] = kernel.Quota{Live: 7, Slots: 9, New: 3, Stride: 12, Limit: 5}
	}
	for pos := range 2 * keepRoom {
		for i := range s.RotDim / 2 {
			sin, cos := math.Sincos(float64(pos) * math.Pow(50, -2*float64(i)/float64(s.RotDim)))
			r.rope = append(r.rope, float32(cos), float32(sin))
		}
	}
	r.upload("rope", quant.Bytes(r.rope))
	return r
}

func (r *keepRig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *keepRig) draw(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.rng.NormFloat64())
	}
	return x
}

// worth draws numbers of which many are equal, zeros of both signs among them.
func (r *keepRig) worth(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = []float32{-1.5, -0.25, 0, 0.125, 0.125, 1, 1.0000001, 40, 0}[r.rng.IntN(9)]
		if r.rng.IntN(3) == 0 {
			x[i] = float32(r.rng.ExpFloat64())
		}
		if r.flat != nil {
			x[i] = *r.flat
		}
		if x[i] == 0 && r.rng.IntN(2) == 0 {
			x[i] *= -1
		}
	}
	return x
}

func (r *keepRig) list(h int) *cache.List { return r.cache.List(keepLayer, h) }

func (r *keepRig) quota(h int) *kernel.Quota { return &r.quotas[keepLayer*keepShape.KVHeads+h] }

func (r *keepRig) pages(h int) *ref.Pages {
	return &ref.Pages{Arena: r.arena, List: r.list(h), Geo: r.geo}
}

// put stores a token as the host does.
func (r *keepRig) put(h, slot int, position uint32, key, value []float32, score float32) {
	p := r.pages(h)
	pack(p.Key(slot), r.geo.Key, key)
	pack(p.Value(slot), r.geo.Value, value)
	*p.Position(slot) = position
	if r.geo.Scores {
		*p.Score(slot) = score
	}
}

// fill gives each list some tokens, and drops some of them.
func (r *keepRig) fill(tokens ...int) {
	for h, n := range tokens {
		for pos := range n {
			slots, err := r.cache.Put(keepLayer, h, []uint32{uint32(pos)})
			r.must(err)
			r.put(h, int(slots[0]), uint32(pos), r.draw(r.geo.HeadDim), r.draw(r.geo.HeadDim), r.rng.Float32())
		}
		var drop []uint32
		for slot := range n {
			if slot%5 == h+1 {
				drop = append(drop, uint32(slot))
			}
		}
		r.evict(h, drop)
		if n > 10 { // and so slots are out of order
			slots, err := r.cache.Put(keepLayer, h, []uint32{uint32(n)})
			r.must(err)
			r.put(h, int(slots[0]), uint32(n), r.draw(r.geo.HeadDim), r.draw(r.geo.HeadDim), r.rng.Float32())
		}
	}
}

// evict drops tokens as the host does.
func (r *keepRig) evict(h int, slots []uint32) {
	for _, slot := range slots {
		*r.pages(h).Position(int(slot)) = cache.DeadPosition
	}
	r.cache.Evict(keepLayer, h, slots)
}

// next is the slot that a list's next token takes.
func (r *keepRig) next(h int) uint32 {
	l := r.list(h)
	if slot := slices.Index(l.At, cache.DeadPosition); slot >= 0 {
		return uint32(slot)
	}
	return uint32(l.Slots)
}

// ranks are those of all slots, by the cache.
func (r *keepRig) ranks() []uint32 {
	ranks := slices.Repeat([]uint32{kernel.NoRank}, len(r.quotas)*keepRoom)
	for h := range keepShape.KVHeads {
		for rank, slot := range r.list(h).Order() {
			ranks[(keepLayer*keepShape.KVHeads+h)*keepRoom+int(slot)] = uint32(rank)
		}
	}
	return ranks
}

// lists are the words of all lists.
func (r *keepRig) lists() []uint32 {
	var words []uint32
	for i := range r.quotas {
		words = append(words, r.quotas[i].Words()...)
	}
	return words
}

// turn is RoPE at a position.
func (r *keepRig) turn(pos int) *stage.Rotation {
	return &stage.Rotation{CosSin: r.rope[pos*keepShape.RotDim:][:keepShape.RotDim], Neox: r.neox}
}

// session is the words of the session buffer, for the lists as the cache has them.
func (r *keepRig) session(pos, rows int) []uint32 {
	words := kernel.ScoringSession(r.cache, pos, 0, rows, rows*r.geo.KVHeads*r.geo.HeadDim, keepRoom)
	for i, pos := range r.pins {
		words[kernel.WordPins+i] = uint32(pos) + 1
	}
	words[kernel.WordSumsAt] = uint32(len(words))
	for i := range r.quotas {
		sums := r.cache.List(i/r.geo.KVHeads, i%r.geo.KVHeads).Sums
		words = append(words, append(sums[:len(sums):len(sums)], 0)[0])
	}
	return words
}

func (r *keepRig) upload(name string, data []byte) {
	r.Helper()
	r.dev.Destroy(r.bufs[name])
	b, err := r.dev.NewBuffer(name, int64(len(data)))
	r.must(err)
	r.must(r.dev.Write(b, 0, data))
	r.bufs[name] = b
}

// scratch makes buffers of n words each that begin as numbers which none should read.
func (r *keepRig) scratch(n int, names ...string) {
	for _, name := range names {
		r.upload(name, quant.Bytes(slices.Repeat([]uint32{77}, n)))
	}
}

func (r *keepRig) words(name string, n int) []uint32 {
	r.Helper()
	x := make([]uint32, n)
	r.must(r.dev.Read(r.bufs[name], 0, quant.Bytes(x)))
	return x
}

func (r *keepRig) run(c *kernel.Candidates, stages ...kernel.Stage) {
	r.Helper()
	for _, st := range stages {
		id, bindings, err := r.lib.Pipeline(st.Variant)
		r.must(err)
		params := make([]uint32, 64)
		copy(params, st.Params)
		r.upload("p", quant.Bytes(params))
		group := make([]gpu.Binding, len(bindings))
		for i, b := range bindings {
			if _, ok := r.bufs[b.Name]; !ok {
				r.Fatalf("%s: there is no %s", st.Variant.Label(), b.Name)
			}
			group[i] = gpu.Binding{Buf: r.bufs[b.Name]}
		}
		g, err := r.dev.Bind(id, group)
		r.must(err)
		x, y, z := st.Size(r.lib, c)
		r.must(r.dev.Run([]gpu.Dispatch{{Pipeline: id, Group: g, X: x, Y: y, Z: z}}))
	}
}

// same compares the device's arena, ranks, lengths and next slots with the host's.
func (r *keepRig) same(what string, step int) {
	r.Helper()
	got := make([]byte, len(r.arena))
	r.must(r.dev.Read(r.bufs["arena"], 0, got))
	if !bytes.Equal(got, r.arena) {
		for i := range r.arena {
			if got[i] != r.arena[i] {
				r.Errorf("%s: byte %d of the arena is %d, want %d", what, i, got[i], r.arena[i])
				break
			}
		}
	}
	lists := r.words("lists", len(r.quotas)*kernel.ListWords)
	session := r.words("session", kernel.RingAt+32*2*len(r.quotas))
	ranks, want := r.words("ranks", len(r.quotas)*keepRoom), r.ranks()
	for h := range keepShape.KVHeads {
		i := keepLayer*keepShape.KVHeads + h
		l, words := r.list(h), lists[i*kernel.ListWords:]
		if words[kernel.ListLive] != uint32(l.Live) || words[kernel.ListSlots] != uint32(l.Slots) {
			r.Errorf("%s: list %d has %d tokens in %d slots, want %d in %d",
				what, h, words[kernel.ListLive], words[kernel.ListSlots], l.Live, l.Slots)
		}
		ring := session[kernel.RingAt+2*(step%32*len(r.quotas)+i):]
		if next := r.next(h); ring[0] != next || ring[1] != max(next+1, uint32(l.Slots)) {
			r.Errorf("%s: list %d goes on in slot %d of %d, want %d of %d", what, h, ring[0], ring[1], next, max(next+1, uint32(l.Slots)))
		}
		if a, b := ranks[i*keepRoom:][:l.Slots], want[i*keepRoom:][:l.Slots]; !slices.Equal(a, b) {
			r.Errorf("%s: list %d has ranks %v, want %v", what, h, a, b)
		}
	}
}

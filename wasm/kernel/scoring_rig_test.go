package kernel_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/cache/policy/stage"
	"kvlens/wasm/gpu"
	"kvlens/wasm/kernel"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
)

// A layer to be scored: two KV heads of three query heads each, whose lists hold tokens in slots out of order, dead slots
// among them, and rows that are not stored yet. All in layer 1, so that lists are not where their KV heads are.
const (
	scoreLayer = 1
	freshRows  = 9
	freshPos   = 16 // position of the first of them
	roomSlots  = 24

	unread = 77  // what scratch holds at first
	beyond = 192 // numbers behind it, which none may change
)

var scoreShape = step.Shape{Layers: 2, Heads: 6, KVHeads: 2, HeadDim: 16, RotDim: 12}

// scoreRig holds a layer on the device and, as plain rows, for the twins.
type scoreRig struct {
	t     *testing.T
	lib   *kernel.Library
	dev   gpu.Device
	rng   *rand.Rand
	shape step.Shape
	geo   cache.Geometry
	cache *cache.Cache
	arena []byte
	first int                 // position of the first new row
	rows  int                 // new rows
	room  int                 // slots of a list that there is room for
	heads []policy.Candidates // [n_kv_heads]
	acc   [][]float32         // [n_kv_heads][candidates]: accumulated attention of the stored ones
	raw   []float32           // [rows][heads][dim]: queries before RoPE
	q     []float32           // and after
	rope  []float32           // [position][rot/2][2]
	c     kernel.Candidates
	bufs  map[string]gpu.Buffer
	sizes map[string]int // of those that run made
}

// newScoreRig makes a layer. With alike, all KV heads hold the same tokens; with empty, none. Lists that differ differ in
// length too, from those of the other layer at any rate.
func newScoreRig(t *testing.T, lib *kernel.Library, dev gpu.Device, f cache.Format, alike, empty bool, neox bool) *scoreRig {
	t.Helper()
	s := scoreShape
	s.Neox = neox
	r := openScoreRig(t, lib, dev, s, cache.Geometry{Key: f, Value: f, PageK: 2, PageV: 4, Scores: true, Bound: 2, Sums: true}, 64)
	r.first, r.rows, r.room = freshPos, freshRows, roomSlots
	if !empty {
		r.fill(alike)
	}
	r.c.Same = alike || empty
	for h := range s.KVHeads {
		l := r.cache.List(scoreLayer, h)
		r.c.Stored = append(r.c.Stored, slices.Clone(l.Order()))
		r.c.Slots = max(r.c.Slots, l.Slots)
	}
	for h := range s.Heads {
		r.c.Scored = append(r.c.Scored, h)
	}
	r.c.New = r.rows
	r.turns(50, r.first+r.rows+8)
	r.plain()
	return r
}

// openScoreRig makes lists with nothing in them.
func openScoreRig(t *testing.T, lib *kernel.Library, dev gpu.Device, s step.Shape, geo cache.Geometry, tokens int) *scoreRig {
	t.Helper()
	r := &scoreRig{t: t, lib: lib, dev: dev, rng: rand.New(rand.NewPCG(3, 4)), shape: s, bufs: map[string]gpu.Buffer{}, sizes: map[string]int{}}
	geo.Layers, geo.KVHeads, geo.HeadDim = s.Layers, s.KVHeads, s.HeadDim
	r.geo = geo
	var err error
	r.cache, err = cache.New(geo, geo.FullBytes(tokens), new(cache.Ledger))
	r.must(err)
	t.Cleanup(r.cache.Close)
	r.arena = make([]byte, r.cache.Cap())
	return r
}

// turns fills the table of cosines and sines.
func (r *scoreRig) turns(base float64, positions int) {
	for pos := range positions {
		for i := range r.shape.RotDim / 2 {
			sin, cos := math.Sincos(float64(pos) * math.Pow(base, -2*float64(i)/float64(r.shape.RotDim)))
			r.rope = append(r.rope, float32(cos), float32(sin))
		}
	}
}

func (r *scoreRig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *scoreRig) draw(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.rng.NormFloat64())
	}
	return x
}

// fill stores and evicts, by turns in all lists, and writes what is left to the arena.
func (r *scoreRig) fill(alike bool) {
	put := func(layer, h int, positions ...uint32) {
		_, err := r.cache.Put(layer, h, positions)
		r.must(err)
	}
	evict := func(layer, h int, positions ...uint32) {
		l := r.cache.List(layer, h)
		var slots []uint32
		for slot, at := range l.At {
			if slices.Contains(positions, at) {
				slots = append(slots, uint32(slot))
			}
		}
		r.cache.Evict(layer, h, slots)
	}
	for layer := range r.shape.Layers {
		for h := range r.shape.KVHeads {
			put(layer, h, 0, 1, 2, 3, 4)
		}
		for h := range r.shape.KVHeads {
			put(layer, h, 5, 6, 7)
			evict(layer, h, 2, 3, 6)
			put(layer, h, 8, 9)
			if h == 1 && !alike {
				evict(layer, h, 1, 9)
				put(layer, h, 10, 11, 12, 13, 14)
			}
			evict(layer, h, 4)
			if layer != scoreLayer {
				put(layer, h, 15)
				put(layer, h, 16+uint32(h))
			}
		}
	}
	for layer := range r.shape.Layers {
		for h := range r.shape.KVHeads {
			p := &ref.Pages{Arena: r.arena, List: r.cache.List(layer, h), Geo: r.geo}
			for slot, pos := range p.List.At {
				*p.Position(slot) = pos
				pack(p.Key(slot), r.geo.Key, r.draw(r.geo.HeadDim))
				pack(p.Value(slot), r.geo.Value, r.draw(r.geo.HeadDim))
				*p.Score(slot) = r.rng.Float32()
			}
		}
	}
}

func pack(lane []byte, f cache.Format, x []float32) {
	for i, v := range x {
		if f == cache.F32 {
			quant.Float32s(lane)[i] = v
		} else {
			quant.Uint16s(lane)[i] = quant.ToHalf(v)
		}
	}
}

func unpack(lane []byte, f cache.Format, dim int) []float32 {
	x := make([]float32, dim)
	for i := range x {
		if f == cache.F32 {
			x[i] = quant.Float32s(lane)[i]
		} else {
			x[i] = quant.Half(quant.Uint16s(lane)[i])
		}
	}
	return x
}

// plain makes the candidates as rows, and what the device has of the new ones.
func (r *scoreRig) plain() {
	s, d := &r.shape, r.shape.HeadDim
	width := s.KVHeads * d
	kv := r.draw(2 * r.rows * width)
	clear(kv[3*width:][:d]) // a key of no length
	for h := range s.KVHeads {
		p := &ref.Pages{Arena: r.arena, List: r.cache.List(scoreLayer, h), Geo: r.geo}
		c, acc := policy.Candidates{}, []float32(nil)
		for _, slot := range r.c.Stored[h] {
			c.Pos = append(c.Pos, int32(p.List.At[slot]))
			c.K = append(c.K, unpack(p.Key(int(slot)), r.geo.Key, d)...)
			c.V = append(c.V, unpack(p.Value(int(slot)), r.geo.Value, d)...)
			acc = append(acc, *p.Score(int(slot)))
		}
		for row := range r.rows {
			c.Pos = append(c.Pos, int32(r.first+row))
			c.K = append(c.K, kv[row*width+h*d:][:d]...)
			c.V = append(c.V, kv[(r.rows+row)*width+h*d:][:d]...)
		}
		r.heads = append(r.heads, c)
		r.acc = append(r.acc, append(acc, make([]float32, r.rows)...))
	}
	r.raw = r.draw(r.rows * s.Heads * d)
	r.q = slices.Clone(r.raw)
	for i := range len(r.q) / d {
		r.turn(r.first + i/s.Heads).Apply(r.q[i*d:][:d])
	}
	r.upload("kv", quant.Bytes(kv))
	r.upload("rope", quant.Bytes(r.rope))
	r.upload("arena", r.arena)
	r.upload("session", quant.Bytes(kernel.ScoringSession(r.cache, r.first, 0, r.rows, r.rows*width, r.room)))
}

// upload makes or replaces a buffer.
func (r *scoreRig) upload(name string, data []byte) {
	r.t.Helper()
	r.dev.Destroy(r.bufs[name])
	b, err := r.dev.NewBuffer(name, int64(len(data)))
	r.must(err)
	r.must(r.dev.Write(b, 0, data))
	r.bufs[name] = b
}

// read reads floats of a buffer.
func (r *scoreRig) read(name string, n int) []float32 {
	r.t.Helper()
	x := make([]float32, n)
	r.must(r.dev.Read(r.bufs[name], 0, quant.Bytes(x)))
	return x
}

// run runs stages one after the other. Buffers that are not there yet begin as numbers that none should read.
func (r *scoreRig) run(x *kernel.Scoring, stages []kernel.Stage) {
	r.t.Helper()
	r.upload("tokens", quant.Bytes(r.c.Words()))
	for _, st := range stages {
		id, bindings, err := r.lib.Pipeline(st.Variant)
		r.must(err)
		params := make([]uint32, 64)
		copy(params, st.Params)
		r.upload("p", quant.Bytes(params))
		group := make([]gpu.Binding, len(bindings))
		for i, b := range bindings {
			if w, ok := st.Bound(b.Name); ok {
				group[i] = w
				continue
			}
			if _, ok := r.bufs[b.Name]; !ok {
				n := x.Floats(b.Name, &r.c, r.room)
				if n == 0 {
					r.t.Fatalf("%s: %s has no size", st.Variant.Label(), b.Name)
				}
				r.upload(b.Name, quant.Bytes(slices.Repeat([]float32{unread}, n+beyond)))
				r.sizes[b.Name] = n
			}
			group[i] = gpu.Binding{Buf: r.bufs[b.Name]}
		}
		g, err := r.dev.Bind(id, group)
		r.must(err)
		gx, gy, gz := st.Size(r.lib, &r.c)
		r.must(r.dev.Run([]gpu.Dispatch{{Pipeline: id, Group: g, X: gx, Y: gy, Z: gz}}))
	}
}

// turn is RoPE at a position.
func (r *scoreRig) turn(pos int) *stage.Rotation {
	return &stage.Rotation{CosSin: r.rope[pos*r.shape.RotDim:][:r.shape.RotDim], Neox: r.shape.Neox}
}

// close frees what the rig holds, after a look beyond the ends of scratch.
func (r *scoreRig) close() {
	r.t.Helper()
	for name, n := range r.sizes {
		for i, v := range r.read(name, n+beyond)[n:] {
			if v != unread {
				r.t.Errorf("number %d of %s is %v: there are %d", n+i, name, v, n)
			}
		}
	}
	for name, b := range r.bufs {
		r.dev.Destroy(b)
		delete(r.bufs, name)
	}
}

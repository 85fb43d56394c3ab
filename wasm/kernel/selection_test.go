package kernel_test

import (
	"fmt"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/cache/policy/stage"
	"kvlens/wasm/gpu"
	"kvlens/wasm/gpu/gputest"
	"kvlens/wasm/kernel"
	"kvlens/wasm/quant"
)

// The kernels that keep and drop tokens, on one device, so that pipelines are compiled once.
func TestSelection(t *testing.T) {
	dev := gputest.Open(t)
	lib := newLibrary(dev)
	for _, c := range []struct {
		name string
		test func(*testing.T, *kernel.Library, gpu.Device)
	}{
		{"select", testSelect},
		{"keep shares", testKeepShares},
		{"keep unturned", testKeepUnturned},
		{"compact", testCompact},
		{"adapt", testAdapt},
		{"remember", testRemember},
		{"evict", testEvict},
		{"absorb", testAbsorb},
		{"virtual", testVirtual},
		{"by rank", testByRank},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, lib, dev) })
	}
}

// selected is a prompt that is selected and stored.
type selected struct {
	worth, weights []float32
	kept           [][]int32
	kv             []float32
}

// sumsPlan is H2O's: accumulated attention begins with what all queries gave.
func sumsPlan(s policy.Select) *policy.Plan {
	return &policy.Plan{Score: policy.Score{Kind: policy.ScoreColumns}, Select: s, Decode: policy.Decode{Kind: policy.DecodeSums}}
}

// selection selects rows new ones for lists with limits, on the device and by the twins.
func (r *keepRig) selection(p *policy.Plan, rows, sinks, recent int, limits []int) *selected {
	r.Helper()
	s := &keepShape
	pos := 0
	for h := range s.KVHeads {
		for _, at := range r.list(h).At {
			if at != cache.DeadPosition {
				pos = max(pos, int(at)+1)
			}
		}
	}
	stride := 0
	for h := range s.KVHeads {
		stride = max(stride, (r.list(h).Live+rows+3)&^3)
	}
	x := &selected{kv: r.draw(2 * rows * s.KVHeads * s.HeadDim)}
	x.worth, x.weights = r.worth(s.KVHeads*stride), r.draw(s.KVHeads*stride)
	columns := r.draw(s.Heads * stride)
	ranks := r.ranks()
	arena := slices.Clone(r.arena)
	absorbed := make([]int, s.KVHeads)
	c := kernel.Candidates{New: rows}
	for h := range s.KVHeads {
		l, worth := r.list(h), x.worth[h*stride:]
		q := r.quota(h)
		var at []int32
		for _, slot := range l.Order() {
			at = append(at, int32(l.At[slot]))
		}
		for t := range rows {
			at = append(at, int32(pos+t))
		}
		n := len(at)
		for i := n; i < stride; i++ {
			worth[i] = kernel.Invalid
		}
		limit := min(limits[h], n)
		marked := make([]bool, n)
		left := limit - stage.Pinned(marked, at, r.pins, sinks, recent, limit)
		first := 0
		for first < n && int(at[first]) < sinks {
			first++
		}
		*q = kernel.Quota{Live: l.Live, Slots: l.Slots, New: rows, Stride: stride, Limit: limits[h], Lead: 2 + h, Absorbed: l.Absorbed}
		q.Oldest, q.Newest = stage.Guard(n, first, recent, limit)
		switch p.Select.Kind {
		case policy.SelectChunks:
			if left > 0 {
				stage.Chunks(marked, worth[:n], p.Select.Chunk, left)
			}
		case policy.SelectCritical:
			stage.Critical(marked, worth[:n], x.weights[h*stride:][:n], q.Lead, left, float32(p.Select.Epsilon))
		default:
			stage.Top(marked, worth[:n], left, nil)
		}
		kept := stage.Indices(marked)
		x.kept = append(x.kept, kept)
		absorbed[h] = n - len(kept)
		r.storeKept(h, kept, at, x.kv, rows, func(i int32) float32 {
			return (columns[2*h*stride+int(i)] + columns[(2*h+1)*stride+int(i)]) / 2
		})
		c.Slots = max(c.Slots, r.list(h).Slots)
	}
	sel := r.lib.Selection(p, s, &r.geo, keepLayer, false)
	r.upload("worth", quant.Bytes(x.worth))
	r.upload("rows", quant.Bytes(columns))
	r.upload("weights", quant.Bytes(x.weights))
	r.upload("kv", quant.Bytes(x.kv))
	r.upload("arena", arena)
	r.upload("lists", quant.Bytes(r.lists()))
	r.upload("ranks", quant.Bytes(ranks))
	session := r.session(pos, rows)
	session[kernel.WordPos], session[kernel.WordFrom] = uint32(pos+rows-1), uint32(rows-1) // those of the last chunk
	r.upload("session", quant.Bytes(session))
	r.scratch(s.KVHeads*(max(stride, keepRoom)+1), "stays", "kept")
	r.run(&c, sel.Store...)
	kept := r.words("kept", s.KVHeads*(stride+1))
	for h, want := range x.kept {
		n := int(kept[s.KVHeads*stride+h])
		if n != len(want) || !slices.EqualFunc(kept[h*stride:][:min(n, stride)], want, func(a uint32, b int32) bool { return a == uint32(b) }) {
			r.Errorf("list %d of %d + %d candidates keeps %d: %v, want %v", h, r.quota(h).Live, rows, n, kept[h*stride:][:min(n, stride)], want)
		}
	}
	return x
}

// storeKept drops and stores a list's tokens on the host, where the device did or will. score is what is added to the
// accumulated attention of a candidate.
func (r *keepRig) storeKept(h int, kept, at []int32, kv []float32, rows int, score func(int32) float32) {
	r.Helper()
	l, d := r.list(h), keepShape.HeadDim
	stored := slices.Clone(l.Order())
	var drop, positions []uint32
	for i, slot := range stored {
		if !slices.Contains(kept, int32(i)) {
			drop = append(drop, slot)
		}
	}
	for _, i := range kept {
		if int(i) >= len(stored) {
			positions = append(positions, uint32(at[i]))
		}
	}
	r.evict(h, drop)
	slots, err := r.cache.Put(keepLayer, h, positions)
	r.must(err)
	for _, i := range kept {
		if t := int(i) - len(stored); t >= 0 {
			row := (t*keepShape.KVHeads + h) * d
			r.put(h, int(slots[0]), uint32(at[i]), kv[row:][:d], kv[rows*keepShape.KVHeads*d+row:][:d], 0)
			slots = slots[1:]
		}
	}
	if r.geo.Scores {
		for rank, slot := range l.Order() {
			*r.pages(h).Score(int(slot)) += score(kept[rank])
		}
	}
}

// testSelect: what stays, where it is stored and which slot comes next are what the stages and the cache say, for lists that
// grow, that are full and that shrink.
func testSelect(t *testing.T, lib *kernel.Library, dev gpu.Device) {
	chunks := policy.Select{Kind: policy.SelectChunks, Chunk: 4}
	critical := policy.Select{Kind: policy.SelectCritical, Epsilon: 0.25}
	for i, c := range []struct {
		sel           policy.Select
		rows          int
		sinks, recent int
		limits        []int
		stored        []int
		geo           cache.Geometry
		flat          *float32
		pins          []int32
	}{
		{rows: 9, sinks: 2, recent: 3, limits: []int{7, 20}, geo: cache.Geometry{}},                                                        // a first prompt; one list keeps all
		{rows: 9, sinks: 2, recent: 3, limits: []int{11, 4}, stored: []int{12, 14}, geo: cache.Geometry{Key: cache.F16, Value: cache.F16}}, // a later one
		{rows: 40, recent: 1, limits: []int{15, 33}, stored: []int{60, 30}, geo: cache.Geometry{Key: cache.F16, Scores: true}},             //
		{rows: 100, sinks: 1, limits: []int{90, 1}, geo: cache.Geometry{Value: cache.F16}},                                                 // more than a lane each
		{rows: 64, recent: 1, limits: []int{30, 64}},                                                                                       // a candidate each
		{rows: 3, sinks: 8, recent: 8, limits: []int{5, 14}, stored: []int{12, 14}},                                                        // more protected than stay
		{sel: chunks, rows: 23, sinks: 1, recent: 2, limits: []int{9, 14}, stored: []int{12, 14}},
		{sel: chunks, rows: 90, recent: 5, limits: []int{61, 17}},
		{sel: chunks, rows: 60, recent: 5, limits: []int{33, 30}, flat: new(float32(0.5))},
		{sel: policy.Select{Kind: policy.SelectChunks, Chunk: 2}, rows: 150, limits: []int{61, 17}}, // more than a lane has
		{rows: 100, recent: 1, limits: []int{41, 70}, flat: new(float32(0))},
		{sel: policy.Select{Kind: policy.SelectChunks, Chunk: 3}, rows: 7, limits: []int{4, 7}},
		{sel: critical, rows: 23, sinks: 1, recent: 2, limits: []int{9, 14}, stored: []int{12, 14}},
		{sel: critical, rows: 70, limits: []int{1, 50}},
		{rows: 9, sinks: 2, recent: 3, limits: []int{11, 14}, stored: []int{12, 14}, pins: []int32{0, 3, 6, 16, 20, 22, 99}},
		{rows: 100, sinks: 4, recent: 90, limits: []int{94, 60}, pins: []int32{1, 2, 7, 50, 51, 97, 99}},                  // a window beside pins
		{rows: 20, sinks: 1, recent: 2, limits: []int{30, 40}, stored: []int{100, 94}, pins: []int32{2, 70, 88, 90, 110}}, // in slots beyond a lane each
		{sel: chunks, rows: 90, recent: 5, limits: []int{61, 24}, stored: []int{12, 14}, pins: []int32{3, 4, 20, 21, 101}},
		{sel: critical, rows: 40, sinks: 1, recent: 2, limits: []int{9, 30}, stored: []int{12, 14}, pins: []int32{2, 13, 40}},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			r := newKeepRig(t, lib, dev, c.geo)
			r.flat, r.pins = c.flat, c.pins
			r.fill(c.stored...)
			r.selection(sumsPlan(c.sel), c.rows, c.sinks, c.recent, c.limits)
			r.same("after the prompt", 0)
		})
	}
}

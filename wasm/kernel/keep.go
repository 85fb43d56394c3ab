package kernel

import (
	"fmt"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/step"
)

// quotas are the words of a layer's lists.
func (k *keeper) quotas(q *policy.LayerQuotas) []uint32 {
	fresh, stride := k.c.New, k.c.Stride()
	if k.kept[q.Layer] {
		fresh, stride = 0, k.s.capacity()
	}
	var words []uint32
	for h, quota := range q.Lists {
		l := k.lists[q.Layer*len(q.Lists)+h]
		words = append(words, (&Quota{
			Live: l.live, Slots: l.slots, Absorbed: l.absorbed, New: fresh, Stride: stride,
			Limit: quota.Limit, Oldest: quota.Oldest, Newest: quota.Newest, Lead: quota.Lead,
		}).Words()...)
	}
	return words
}

// Select chooses what stays of a layer.
func (e *exec) Select(a *step.Args, q *policy.LayerQuotas) error {
	k, err := e.lent(a)
	if err != nil {
		return err
	}
	if q.Layer < 0 || q.Layer > k.layer || !k.kept[q.Layer] && q.Layer != k.layer || len(q.Lists) != e.shape.KVHeads {
		return failed("select: layer %d, the prompt is at %d", q.Layer, k.layer)
	}
	p, first := &k.layers[q.Layer], q.Layer*len(q.Lists)
	if err := k.write("lists", first*ListWords, k.quotas(q)); err != nil {
		return err
	}
	fresh, choose := k.c.New, [][]*node{p.choose, p.noted}
	if k.kept[q.Layer] {
		fresh, choose = 0, [][]*node{p.again, p.notedAgain}
	}
	for h, quota := range q.Lists {
		l := &k.lists[first+h]
		if quota.Limit < 0 || quota.Limit > l.live+fresh || quota.Limit > k.s.capacity() {
			return failed("select: %d of %d candidates in room for %d", quota.Limit, l.live+fresh, k.s.capacity())
		}
		if k.plan.Store.Virtual {
			l.absorbed += l.live + fresh - quota.Limit
		}
		l.live, l.slots = quota.Limit, max(l.slots, quota.Limit)
	}
	k.forgetRing(q.Layer)
	k.lost = q.Layer
	return k.run(choose...)
}

// forgetRing notes that kernels have written where a layer's lists go on.
func (k *keeper) forgetRing(layer int) {
	heads := k.s.geo.KVHeads
	ring := k.s.words[int(k.s.words[wordRingAt])+layer*heads*2:][:2*heads]
	for i := range ring {
		ring[i] = none
	}
}

// Keep stores what Select chose.
func (e *exec) Keep(a *step.Args, layer int) error {
	k, err := e.lent(a)
	if err != nil {
		return err
	}
	if err := e.checkLayer(layer); err != nil {
		return failed("keep: %v", err)
	}
	k.c.Slots = 0
	for h := range e.shape.KVHeads {
		l, has := k.lists[layer*e.shape.KVHeads+h], a.Cache.List(layer, h)
		if has.Live != l.live || has.Slots != l.slots {
			return failed("keep: layer %d, KV head %d holds %d tokens in %d slots, selected were %d in %d",
				layer, h, has.Live, has.Slots, l.live, l.slots)
		}
		k.c.Slots = max(k.c.Slots, l.slots)
	}
	if err := e.tables(k.s, a.Cache, extent{}); err != nil {
		return err
	}
	p := &k.layers[layer]
	k.kept[layer] = true
	if err := k.run(k.absorb(layer), p.store); err != nil {
		return err
	}
	return e.b.drain()
}

// absorb are the nodes by which what Select lets go joins a layer's sums, once, while it is still where it was.
func (k *keeper) absorb(layer int) []*node {
	if layer != k.lost {
		return nil
	}
	k.lost = -1
	return k.layers[layer].absorb
}

// Pack moves tokens of a layer's lists together.
func (e *exec) Pack(a *step.Args, layer int) error {
	k, err := e.lent(a)
	if err != nil {
		return err
	}
	if err := e.checkLayer(layer); err != nil {
		return failed("pack: %v", err)
	}
	if err := e.tables(k.s, a.Cache, extent{}); err != nil {
		return err
	}
	for h := range e.shape.KVHeads {
		l := &k.lists[layer*e.shape.KVHeads+h]
		l.slots = l.live
	}
	k.forgetRing(layer)
	return k.run(k.absorb(layer), k.layers[layer].compact)
}

// moveBytes is how much of the arena moves at a time.
const moveBytes = 64 << 10

// Relocate copies pages within the arena, past a buffer, since nothing can be copied to where it comes from.
func (e *exec) Relocate(a *step.Args, pages []cache.PageMove) error {
	s, err := e.session(a)
	if err != nil {
		return err
	}
	e.endOn(s)
	way, err := e.b.alloc(cache.Staging, "pages", moveBytes)
	if err != nil {
		return err
	}
	defer e.b.release(way)
	for _, m := range pages {
		if end := max(int64(m.From), int64(m.To)) + int64(m.Words); end*4 > a.Cache.Cap() {
			return failed("relocate: word %d of an arena of %d bytes", end, a.Cache.Cap())
		}
		for off, n := int64(0), int64(m.Words)*4; off < n; off += moveBytes {
			part := min(moveBytes, n-off)
			err := e.b.dev.Copy(way.buf, 0, s.arena, int64(m.From)*4+off, part)
			if err == nil {
				err = e.b.dev.Copy(s.arena, int64(m.To)*4+off, way.buf, 0, part)
			}
			if err != nil {
				return fmt.Errorf("webgpu: relocate: %w", err)
			}
		}
	}
	return nil
}

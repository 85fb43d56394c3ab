package kernel

import (
	"fmt"
	"slices"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// Runs says which plans there are kernels for.
func (e *exec) Runs(p *policy.Plan) error {
	s := &e.shape
	switch {
	case p.Heads.Kind == policy.HeadsAdaptive && s.KVHeads > MaxAdaptedHeads:
		return fmt.Errorf("webgpu: %w: %d KV heads that share a layer's room, at most %d", step.ErrPlan, s.KVHeads, MaxAdaptedHeads)
	case p.Store.Rank && p.Store.Virtual:
		return fmt.Errorf("webgpu: %w: positions by rank and a compensation token", step.ErrPlan)
	case p.Score.Window < 0 || p.Score.Window > maxSize/(s.Heads*s.HeadDim), p.Store.Page < 0, p.Store.Read < 0, p.Protect.Sinks < 0:
		return fmt.Errorf("webgpu: %w: a window of %d queries, pages of %d tokens", step.ErrPlan, p.Score.Window, p.Store.Page)
	}
	return nil
}

// Follow sets the plan of the runs from now on; its kernels are compiled when a session first needs them.
func (e *exec) Follow(p *policy.Plan, t *policy.Tables) error {
	if p != nil {
		if err := e.Runs(p); err != nil {
			return err
		}
	}
	if e.plan, e.headTables = nil, nil; p != nil {
		copied := *p
		e.plan, e.headTables = &copied, t
	}
	return nil
}

// Lend tells the device what the lists hold.
func (e *exec) Lend(a *step.Args, l *step.Loan) error {
	if l.Rows < 0 || l.Rows > e.rows || l.Most < 0 || l.Most > maxSize || len(l.Pins) > pinCount {
		return failed("lend: %d rows of %d, lists of %d, %d pins", l.Rows, e.rows, l.Most, len(l.Pins))
	}
	if a.Cache == nil || a.Arena == 0 || a.Cache.Lent() {
		return failed("lend: no cache, or one that is lent")
	}
	s, err := e.sessionFor(a, l.Most)
	if err != nil {
		return err
	}
	e.endOn(s)
	k, err := e.keeper(s)
	if err != nil {
		return err
	}
	k.a, k.layer, k.lost, k.turn = *a, -1, -1, nil
	clear(k.kept)
	k.c = Candidates{New: l.Rows, Stored: make([][]uint32, s.geo.KVHeads), Scored: make([]int, e.shape.Heads)}
	for i := range k.lists {
		l := a.Cache.List(i/s.geo.KVHeads, i%s.geo.KVHeads)
		k.lists[i] = list{l.Live, l.Slots, l.Absorbed}
		if h := i % s.geo.KVHeads; len(k.c.Stored[h]) < l.Live {
			k.c.Stored[h] = make([]uint32, l.Live)
		}
	}
	if err := k.reserve(); err != nil {
		return err
	}
	if err := e.header(s, func([]uint32) {}); err != nil { // the session may be new, and the lists need nothing but packing
		return err
	}
	pins := make([]uint32, pinCount) // positions + 1
	for i, p := range l.Pins {
		pins[i] = uint32(p) + 1
	}
	if err := e.write(s, wordPins, pins); err != nil {
		return err
	}
	if k.from != a.Cache || k.epoch != a.Cache.Epoch() {
		if err := k.lend(a.Cache); err != nil {
			return err
		}
	}
	if len(l.Turn) > 0 && k.wanted["turn"] {
		return k.write("turn", 0, quant.Uint32s(quant.Bytes(l.Turn)))
	}
	return nil
}

// lend writes the lengths of all lists, and the rank of each slot's token.
func (k *keeper) lend(c *cache.Cache) error {
	capacity := k.s.capacity()
	words := make([]uint32, 0, len(k.lists)*ListWords)
	ranks := slices.Repeat([]uint32{NoRank}, len(k.lists)*capacity)
	for i, l := range k.lists {
		words = append(words, (&Quota{Live: l.live, Slots: l.slots, Absorbed: l.absorbed, Stride: capacity}).Words()...)
		for rank, slot := range c.List(i/k.s.geo.KVHeads, i%k.s.geo.KVHeads).Order() {
			ranks[i*capacity+int(slot)] = uint32(rank)
		}
	}
	if err := k.write("lists", 0, words); err != nil {
		return err
	}
	return k.write("ranks", 0, ranks)
}

// Return reads the positions of all lists.
func (e *exec) Return(a *step.Args) error {
	if a.Cache == nil || !a.Cache.Lent() {
		return nil
	}
	k, err := e.lent(a)
	if err != nil {
		return err
	}
	k.turn = nil
	at, err := k.positions(a)
	if err != nil {
		return err
	}
	for i := range at {
		layer, h := k.place(i)
		if err := a.Cache.Learn(layer, h, at[i]); err != nil {
			return fmt.Errorf("webgpu: positions: %w", err)
		}
	}
	k.from, k.epoch = a.Cache, a.Cache.Epoch() // until the host changes lists, the device has them as they are
	return nil
}

// positions reads those of all lists' tokens, by slot.
func (k *keeper) positions(a *step.Args) ([][]uint32, error) {
	was, stride := k.c, 4
	for i := range k.lists {
		stride = max(stride, a.Cache.List(k.place(i)).Slots)
	}
	k.c = Candidates{New: stride}
	defer func() { k.c = was }()
	if err := k.write("tokens", 0, k.c.Words()[:tokenStored]); err != nil {
		return nil, err
	}
	if err := k.e.tables(k.s, a.Cache, extent{}); err != nil {
		return nil, err
	}
	if err := k.run([]*node{k.gather}); err != nil {
		return nil, err
	}
	stride = k.c.Stride()
	all := make([]uint32, len(k.lists)*stride)
	if err := k.e.b.dev.Read(k.buffers["positions"].buf, 0, quant.Bytes(all)); err != nil {
		return nil, fmt.Errorf("webgpu: positions: %w", err)
	}
	k.e.b.queue.done()
	at := make([][]uint32, len(k.lists))
	for i := range at {
		at[i] = all[i*stride:][:a.Cache.List(k.place(i)).Slots]
	}
	return at, k.write("tokens", 0, was.Words()[:tokenStored])
}

// lent finds the kernels that work on a cache.
func (e *exec) lent(a *step.Args) (*keeper, error) {
	if a.Cache == nil || a.Arena == 0 {
		return nil, failed("plan: no cache")
	}
	s, err := e.session(a)
	if err != nil {
		return nil, err
	}
	e.endOn(s)
	if s.keeper == nil || s.keeper.a.Cache != a.Cache {
		return nil, failed("plan: the lists were not lent")
	}
	s.keeper.a = *a
	return s.keeper, nil
}

var _ step.Keeper = (*exec)(nil)

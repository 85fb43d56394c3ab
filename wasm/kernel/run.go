package kernel

import (
	"context"
	"fmt"
	"time"

	"kvlens/wasm/gpu"
	"kvlens/wasm/step"
)

func failed(format string, args ...any) error {
	return fmt.Errorf("webgpu: run: %s", fmt.Sprintf(format, args...))
}

// Run submits ops [from, to) of the program on a. It returns before the work is done, unless so much is waiting that
// the queue should drain first.
func (e *exec) Run(ctx context.Context, a *step.Args, from, to int) error {
	if from < 0 || from > to || to > len(e.ops) {
		return failed("ops [%d, %d) of %d", from, to, len(e.ops))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.check(a, e.ops[from:to]); err != nil {
		return err
	}
	s, err := e.session(a)
	if err != nil {
		return err
	}
	e.endOn(s)
	if err := e.prepare(s, a, e.ops[from:to]); err != nil {
		return err
	}
	if e.plan != nil && a.Stored {
		if err := e.decodes(s); err != nil {
			return err
		}
	}
	var list []gpu.Dispatch
	for _, o := range e.ops[from:to] {
		nodes, rows := o.nodes, a.To-a.From
		switch {
		case s.joined(a) && o.kind == storing:
			nodes = s.keeper.unturned(o.replay)
		case o.kind == attending && a.Stored:
			parts, _ := s.keeper.attention(o)
			nodes = append(parts[:len(parts):len(parts)], o.stored[2])
		case o.kind == attending && s.keeper != nil && len(s.keeper.layers[o.layer].attend) > 0:
			nodes = s.keeper.layers[o.layer].attend
		case o.kind == heading && a.Logits == step.LastRow:
			rows = 1
		}
		if o.kind == storing && !a.Stored { // a decoded token's are kept before it looks
			bounds, err := e.bounds(s, a, o.layer)
			if err != nil {
				return err
			}
			nodes = append(nodes[:len(nodes):len(nodes)], bounds...)
		}
		for _, n := range nodes {
			d, err := e.dispatch(n, s, rows)
			if err != nil {
				return err
			}
			list = append(list, d)
		}
		e.b.queue.add(e.work(o, a, rows))
	}
	if err := e.b.dev.Run(list); err != nil {
		return fmt.Errorf("webgpu: run: %w", err)
	}
	return e.b.drain()
}

// check refuses arguments that the kernels would not survive.
func (e *exec) check(a *step.Args, ops []*operation) error {
	n := a.To - a.From
	switch {
	case a.From < 0 || a.To > len(a.IDs) || n < 1 || n > e.chunk:
		return failed("rows [%d, %d) of %d, at most %d at once", a.From, a.To, len(a.IDs), e.chunk)
	case a.To > e.rows:
		return failed("row %d: there is room for %d", a.To, e.rows)
	case a.Pos < 0 || a.To > e.positions-a.Pos:
		return failed("position %d: the RoPE table has %d", a.Pos+a.To-1, e.positions)
	}
	for _, o := range ops {
		switch o.kind {
		case embedding:
			for _, id := range a.IDs[a.From:a.To] {
				if id < 0 || int(id) >= e.shape.Vocab {
					return failed("token id %d of %d", id, e.shape.Vocab)
				}
			}
		case attending:
			if a.Stored && n != 1 {
				return failed("attend over stored rows: %d rows instead of 1", n)
			}
			if a.Cache == nil || a.Arena == 0 {
				return failed("attend: no cache")
			}
		case storing:
			if err := e.checkSlots(a, o.layer); err != nil {
				return err
			}
		case heading:
			if a.Logits == step.AllRows && n > e.logitRows || e.logitRows < 1 {
				return failed("%d rows of logits: there is room for %d", n, e.logitRows)
			}
		}
	}
	return nil
}

func (e *exec) checkSlots(a *step.Args, layer int) error {
	if a.Cache == nil || a.Arena == 0 {
		return failed("store: no cache")
	}
	if s := e.sessions[a.Arena]; s != nil && s.joined(a) {
		return nil
	}
	if len(a.Slots) != e.shape.KVHeads {
		return failed("store: slots for %d of %d KV heads", len(a.Slots), e.shape.KVHeads)
	}
	for h, slots := range a.Slots {
		if len(slots) < a.To {
			return failed("store: slots for %d of %d rows", len(slots), a.To)
		}
		for _, slot := range slots[a.From:a.To] {
			if have := a.Cache.List(layer, h).Slots; int(slot) >= have {
				return failed("store: slot %d of %d", slot, have)
			}
		}
	}
	return nil
}

// prepare writes what a run's kernels read from the session buffer, as far as it changed.
func (e *exec) prepare(s *session, a *step.Args, ops []*operation) error {
	n := a.To - a.From
	err := e.header(s, func(h []uint32) {
		h[wordPos], h[wordFrom], h[wordRows] = uint32(a.Pos+a.From), uint32(a.From), uint32(n)
		h[wordStep], h[wordHalt], h[wordQuery] = 0, 0, 0
		h[wordValuesAt], h[wordLast] = uint32(e.rows*e.shape.KVHeads*e.shape.HeadDim), anyLast
		h[wordLogitFrom], h[wordLogitRows] = uint32(a.From), uint32(n)
		if a.Logits == step.LastRow {
			h[wordLogitFrom], h[wordLogitRows] = uint32(a.To-1), 1
		}
	})
	if err != nil {
		return err
	}
	synced := false
	for _, o := range ops {
		switch o.kind {
		case embedding:
			ids := make([]uint32, n)
			for i, id := range a.IDs[a.From:a.To] {
				ids[i] = uint32(id)
			}
			err = e.write(s, wordIDs, ids)
		case storing, attending:
			if o.kind == storing {
				for h, slots := range a.Slots {
					if err == nil {
						err = e.write(s, int(s.words[wordSlotsAt])+h*e.chunk, slots[a.From:a.To])
					}
				}
			}
			if err == nil {
				err = e.lengths(s, a.Cache, o.layer)
			}
			if err == nil && !synced {
				err, synced = e.tables(s, a.Cache, extent{}), true
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// work estimates an operation's multiplications.
func (e *exec) work(o *operation, a *step.Args, rows int) float64 {
	if o.kind == attending {
		return float64(rows) * float64(2*e.shape.Heads*e.shape.HeadDim) * float64(a.Cache.List(o.layer, 0).Slots+a.To)
	}
	sum := 0.0
	for _, n := range o.nodes {
		sum += float64(n.work) * float64(rows)
	}
	return sum
}

// queue keeps the work that is submitted and not known to be done short: the page draws on the same GPU, Stop cannot
// recall what is submitted, and drivers end what takes too long.
type queue struct {
	waiting, most float64       // multiplications
	since         time.Duration // by step.Clock
}

// atOnce is how long submitted work may take.
const (
	atOnce    = 25 * time.Millisecond
	firstWork = 2e7
)

func (q *queue) add(work float64) {
	if q.waiting == 0 {
		q.since = step.Clock()
	}
	q.waiting += work
}

// done says that all that was submitted is done.
func (q *queue) done() {
	if d := step.Clock() - q.since; q.waiting > q.most/2 && d > 0 {
		q.most = q.waiting * float64(atOnce) / float64(d)
	}
	q.waiting = 0
}

// drain waits for the queue if too much is in it.
func (b *Backend) drain() error {
	if b.queue.most == 0 {
		b.queue.most = firstWork
	}
	if b.queue.waiting < b.queue.most {
		return nil
	}
	for _, m := range b.mem {
		var word [4]byte
		if err := b.dev.Read(m.buf, 0, word[:]); err != nil {
			return fmt.Errorf("webgpu: run: %w", err)
		}
		break
	}
	b.queue.done()
	return nil
}

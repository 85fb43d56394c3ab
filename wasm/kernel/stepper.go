package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"kvlens/wasm/gpu"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// answer is a recorded decode under way.
type answer struct {
	step.Answer
	session  *session
	steps    int // submitted
	waited   int // of them, waited for
	synced   extent
	sampling bool // the next step only chooses

	// Where lists have rules:
	first  int      // the first step that stores a token
	lists  []list   // as the submitted steps leave them
	log    []uint32 // of what left, from the last read of it
	logged int      // steps that had been submitted by then
}

var errNoAnswer = errors.New("webgpu: step: no answer has begun, or it was ended")

// Begin starts an answer.
func (e *exec) Begin(a *step.Answer) error {
	e.End()
	if a.Cache == nil || a.Arena == 0 {
		return failed("answer: no cache")
	}
	if e.rows < 1 || e.logitRows < 1 {
		return failed("answer: no room for a row")
	}
	if len(a.Stop) > step.MaxStops || a.Pending < -1 || int(a.Pending) >= e.shape.Vocab || a.Pos < 0 || a.Pos > e.positions {
		return failed("answer: %d stop ids, pending token %d of %d, position %d of %d", len(a.Stop), a.Pending, e.shape.Vocab, a.Pos, e.positions)
	}
	s, err := e.session(&step.Args{Cache: a.Cache, Arena: a.Arena})
	if err != nil {
		return err
	}
	k, err := e.planned(s, a)
	if err != nil {
		return err
	}
	if err := e.record(s); err != nil {
		return err
	}
	w := s.words[:wordIDs+1]
	copy(w[:wordLists], []uint32{
		wordPos: uint32(a.Pos), wordRows: 1, wordLogitRows: 1,
		wordValuesAt: uint32(e.rows * e.shape.KVHeads * e.shape.HeadDim), wordLast: anyLast, wordHalt: 0,
	})
	w[wordLog] = k.logs(a.Rules, a.Watch)
	copy(w[wordTemperature:], []uint32{
		float(a.Temperature), uint32(a.TopK), float(a.TopP), float(a.MinP), float(a.Repeat),
		uint32(a.Random), uint32(a.Random >> 32), 0,
	})
	for i := wordStops; i < wordResult; i++ {
		w[i] = none
	}
	for i, id := range a.Stop {
		w[wordStops+i] = uint32(id)
	}
	recent := a.Recent[max(0, len(a.Recent)-recentCount):]
	for i, id := range recent {
		w[wordRecent+i] = uint32(id)
	}
	w[wordChosen] = uint32(len(recent))
	w[wordIDs] = uint32(a.Pending)
	if err := e.b.dev.Write(s.mem.buf, 0, quant.Bytes(w)); err != nil {
		return fmt.Errorf("webgpu: answer: %w", err)
	}
	s.stale, w[wordIDs] = true, none // kernels change these words
	if err := e.tables(s, a.Cache, extent{}); err != nil {
		return fmt.Errorf("webgpu: answer: %w", err)
	}
	e.answer = &answer{Answer: *a, session: s, sampling: a.Pending < 0}
	e.answer.synced = e.answer.filled()
	if a.Rules == nil {
		return nil
	}
	if e.answer.sampling {
		e.answer.first = 1
	}
	if err := k.rules(a.Cache, a.Rules, e.answer.first); err != nil {
		e.answer = nil
		return err
	}
	e.answer.lists = slices.Clone(k.lists)
	return nil
}

// record makes the recordings of a session, unless they are there.
func (e *exec) record(s *session) error {
	read := gpu.Binding{Buf: s.mem.buf, Off: wordResult * 4, Size: resultWords * 4}
	for i, nodes := range [2][]*node{{e.sample[0]}, append(e.replayed(s.keeper), e.sample[1])} {
		if s.recorded[i] != 0 {
			continue
		}
		var list []gpu.Dispatch
		for _, n := range nodes {
			d, err := e.dispatch(n, s, 1)
			if err != nil {
				return err
			}
			list = append(list, d)
		}
		r, err := e.b.dev.Record(list, read)
		if err != nil {
			return fmt.Errorf("webgpu: record: %w", err)
		}
		s.recorded[i] = r
	}
	return nil
}

// replayed lists the nodes of one step: six a layer where the fused kernels serve, at most two more for a plan, and
// embedding, final norm and logits.
func (e *exec) replayed(k *keeper) []*node {
	stores := map[int][]*node{}
	for _, o := range e.ops {
		if o.kind == storing {
			stores[o.layer] = o.replay
		}
	}
	var list []*node
	var reduce *node
	for _, o := range e.ops {
		switch {
		case o.kind == storing:
		case o.kind == attending:
			parts, rule := k.attention(o)
			list = append(append(list, parts...), rule...)
			reduce = o.stored[2]
		case o.kind == projecting:
			if len(o.replay) > 0 {
				list = append(list, o.replay...)
				continue
			}
			list = append(append(list, reduce), o.nodes...)
		case o.kind == mixing && len(o.replay) > 0:
			list = append(list, k.unturned(o.replay)...)
		case o.kind == mixing:
			list = append(append(list, k.unturned(o.nodes)...), stores[o.layer]...)
		default:
			list = append(list, o.nodes...)
		}
	}
	return list
}

// unrecord forgets the recordings of a session.
func (e *exec) unrecord(s *session) {
	for i, r := range s.recorded {
		if r != 0 {
			e.b.dev.Forget(r)
			s.recorded[i] = 0
		}
	}
}

// Submit queues one more step of the answer.
func (e *exec) Submit(forced int32) error {
	a := e.answer
	if a == nil {
		return errNoAnswer
	}
	if a.steps-a.waited >= step.InFlight || forced < -1 || int(forced) >= e.shape.Vocab {
		return failed("step: %d in flight, forced token %d", a.steps-a.waited, forced)
	}
	kind := 1
	if a.sampling {
		kind = 0
	} else if err := e.advance(a); err != nil {
		return err
	}
	if forced >= 0 {
		word := [1]uint32{uint32(forced)}
		if err := e.b.dev.Write(a.session.mem.buf, int64(wordForced+a.steps%forcedCount)*4, quant.Bytes(word[:])); err != nil {
			return fmt.Errorf("webgpu: step: %w", err)
		}
	}
	if err := e.b.dev.Replay(a.session.recorded[kind]); err != nil {
		return fmt.Errorf("webgpu: step: %w", err)
	}
	a.sampling = false
	a.steps++
	return nil
}

// advance takes the slots of the next token, or their pages, and tells the kernels.
func (e *exec) advance(a *answer) error {
	if a.Pos >= e.positions {
		return failed("position %d: the RoPE table has %d", a.Pos, e.positions)
	}
	s := a.session
	var row []uint32
	var err error
	if a.Rules != nil {
		err = s.keeper.ahead(a)
	} else {
		row, err = a.take()
	}
	if err != nil {
		return err
	}
	if now := a.filled(); now != a.synced {
		var first extent // lists with rules may have grown anywhere
		for kind, pages := range a.synced {
			if a.Rules == nil {
				first[kind] = max(0, pages/(s.geo.Layers*s.geo.KVHeads)-1)
			}
		}
		if err := e.tables(s, a.Cache, first); err != nil {
			return fmt.Errorf("webgpu: step: %w", err)
		}
		a.synced = now
	}
	if err := e.write(s, int(s.words[wordRingAt])+a.steps%ringSteps*len(row), row); err != nil {
		return fmt.Errorf("webgpu: step: %w", err)
	}
	a.Pos++
	return nil
}

// take takes the slots of the next token, and gives the ring's row.
func (a *answer) take() (row []uint32, err error) {
	if err := a.Cache.Reserve(1); err != nil {
		return nil, err
	}
	geo := a.session.geo
	row = make([]uint32, 0, 2*geo.Layers*geo.KVHeads)
	for i := range geo.Layers * geo.KVHeads {
		slots, err := a.Cache.Take(i/geo.KVHeads, i%geo.KVHeads, 1)
		if err != nil {
			return nil, err
		}
		n := a.Cache.List(i/geo.KVHeads, i%geo.KVHeads).Slots
		if n > a.session.capacity() {
			return nil, failed("step: lists have outgrown their tables")
		}
		row = append(row, slots[0], uint32(n))
	}
	return row, nil
}

// filled counts the pages of all lists.
func (a *answer) filled() (n extent) {
	geo := a.session.geo
	for i := range geo.Layers * geo.KVHeads {
		l := a.Cache.List(i/geo.KVHeads, i%geo.KVHeads)
		for kind := range n {
			n[kind] += len(pagesOf(l, kind))
		}
	}
	return n
}

// Next waits for the oldest step.
func (e *exec) Next(ctx context.Context) (step.Choice, error) {
	a := e.answer
	if a == nil {
		return step.Choice{}, errNoAnswer
	}
	if a.waited == a.steps {
		return step.Choice{}, failed("step: nothing is in flight")
	}
	var w [resultWords]uint32
	if err := e.b.dev.Wait(ctx, quant.Bytes(w[:])); err != nil {
		return step.Choice{}, fmt.Errorf("webgpu: step: %w", err)
	}
	a.waited++
	if w[1] == 2 {
		return step.Choice{ID: -1}, nil
	}
	left, err := a.settle()
	if err != nil {
		return step.Choice{}, err
	}
	if w[1] == 1 {
		return step.Choice{}, fmt.Errorf("webgpu: step: %w", step.ErrLogits)
	}
	c := step.Choice{ID: int32(w[0]), Left: left}
	c.Prob = quant.Float32s(quant.Bytes(w[3:4]))[0]
	for i := range c.TopIDs {
		c.TopIDs[i] = int32(w[4+i])
	}
	copy(c.TopProbs[:], quant.Float32s(quant.Bytes(w[9:14])))
	return c, nil
}

// End waits for what is in flight and drops it.
func (e *exec) End() {
	if e.answer == nil {
		return
	}
	for e.answer.waited < e.answer.steps {
		if _, err := e.Next(context.Background()); err != nil && !errors.Is(err, step.ErrLogits) {
			break // a device that is lost has nothing in flight
		}
	}
	e.answer = nil
}

// endOn ends the answer if it is this session's.
func (e *exec) endOn(s *session) {
	if e.answer != nil && e.answer.session == s {
		e.End()
	}
}

var _ step.Stepper = (*exec)(nil)

package ui

import (
	"sync"
	"time"

	"kvlens/app/engineclient"
	"kvlens/wasm/proto"
)

// frame is the least time between two takings of the inbox: tokens reach the page 30 times a second at most.
const frame = 33 * time.Millisecond

// incoming is an event of the engine or, where event is nil, a state of its client.
type incoming struct {
	id    uint32
	event any // a proto.Event or steps
	state engineclient.State
}

// steps are the tokens of one turn that came between two frames.
type steps []proto.Step

// inbox gathers what the engine says between two frames, in order. Steps of one turn become one message, and of several
// reports on one stage only the latest is kept.
type inbox struct {
	flush func()

	mu      sync.Mutex
	waiting []incoming
	pending bool
	last    time.Time
}

func newInbox(flush func()) *inbox { return &inbox{flush: flush} }

func (b *inbox) event(id uint32, e proto.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var last *incoming
	if n := len(b.waiting); n > 0 && b.waiting[n-1].id == id {
		last = &b.waiting[n-1]
	}
	switch e := e.(type) {
	case proto.Step:
		if last != nil {
			if s, ok := last.event.(steps); ok {
				last.event = append(s, e)
				return
			}
		}
		b.add(incoming{id: id, event: steps{e}})
		return
	case proto.Progress:
		if last != nil {
			if p, ok := last.event.(proto.Progress); ok && p.Stage == e.Stage {
				last.event = e
				return
			}
		}
	}
	b.add(incoming{id: id, event: e})
}

func (b *inbox) state(s engineclient.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(incoming{state: s})
}

// add needs the lock.
func (b *inbox) add(in incoming) {
	b.waiting = append(b.waiting, in)
	if b.pending {
		return
	}
	b.pending = true
	wait := max(0, frame-time.Since(b.last))
	time.AfterFunc(wait, b.flush)
}

// take empties the inbox.
func (b *inbox) take() []incoming {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.waiting
	b.waiting, b.pending, b.last = nil, false, time.Now()
	return out
}

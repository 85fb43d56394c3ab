// Package engineclient is the page's end of the engine: it starts the worker, shakes hands, sends requests, hands out
// events, notices when the worker is gone and then starts another one with the same model.
package engineclient

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"kvlens/wasm/proto"
)

// State says what the engine is doing, as far as the page knows.
type State uint32

// The states.
const (
	Idle       State = iota // no worker yet: nothing was asked for
	Connecting              // the worker is starting
	Ready                   // waiting for a request
	Busy                    // a request is running
	Dead                    // gone, and not restarted by itself: see the last Failure; Restart or Open try again
)

// Port carries packets to one worker. Recv's error says why the worker is gone; Close ends the worker.
type Port = proto.Conn

// Handler receives what comes back. Both functions are called from one goroutine, in order, and may call the client.
type Handler struct {
	// Event gets every event of a request. The client makes two Failures of its own: CodeDead ends the requests of a
	// worker that died, and CodeVersion (id 0) says that page and engine are of different builds. After a death the model
	// is opened again under a new id, so Opened may come without an Open by the page.
	Event func(id uint32, m proto.Event)
	State func(State)
}

// Client is safe for use from any goroutine, and no method blocks. Requests run one after the other; the next one waits
// here until the one before has ended.
type Client struct {
	start func() (Port, error)
	build string
	on    Handler

	next  atomic.Uint32
	state atomic.Uint32
	calls *proto.Queue[func()]
	stop  context.CancelFunc

	// Everything below is touched only by functions from calls.
	port     Port
	worker   int        // counts workers, so that a late packet of an old one is known
	greeted  bool       // both Hellos are through
	requests []*request // running and waiting, in order
	open     *proto.Open
	opened   bool // this worker has a model, or is opening one
	deaths   int  // since something worked
	ping     uint32
	silences int
}

// request is a request that has not ended.
type request struct {
	id   uint32
	msg  proto.Request
	sent bool
}

// New makes a client. start starts a worker; the first one starts with the first request. build must be the same as the
// engine's.
func New(start func() (Port, error), build string, on Handler) *Client {
	c := newClient(start, build, on)
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	go c.loop(ctx)
	go c.beats(ctx)
	return c
}

func newClient(start func() (Port, error), build string, on Handler) *Client {
	return &Client{start: start, build: build, on: on, calls: proto.NewQueue[func()]()}
}

// State returns the latest state.
func (c *Client) State() State { return State(c.state.Load()) }

// Send sends a request and returns its id. Open starts another worker if this one has a model already; what runs there
// ends as if it had been stopped.
func (c *Client) Send(m proto.Request) uint32 {
	id := c.next.Add(1)
	c.do(func() { c.send(id, m) })
	return id
}

// Stop ends a request; it then reports Done with ReasonStopped. An id that doesn't run is ignored.
func (c *Client) Stop(id uint32) {
	c.do(func() {
		i := c.find(id)
		switch {
		case i < 0:
		case !c.requests[i].sent:
			c.finish(id, stopped)
			if !c.greeted && len(c.requests) == 0 {
				c.drop() // a worker that does not come up is not waited for: the next Open starts another
			}
		default:
			c.send(c.next.Add(1), proto.Stop{Target: id})
		}
	})
}

// Restart ends the worker, starts another and opens the last model again. What runs ends as if it had been stopped.
func (c *Client) Restart() {
	c.do(func() {
		c.deaths = 0
		c.restart(stopped)
	})
}

// Close ends the worker and the client.
func (c *Client) Close() {
	c.do(func() {
		c.drop()
		c.stop()
	})
}

// stopped ends requests that the reader no longer wants.
var stopped = proto.Done{Reason: proto.ReasonStopped}

func (c *Client) do(f func()) { _ = c.calls.Push(f) }

func (c *Client) loop(ctx context.Context) {
	for {
		f, err := c.calls.Pop(ctx)
		if err != nil || ctx.Err() != nil {
			return
		}
		f()
		if ctx.Err() == nil {
			c.report()
		}
	}
}

func (c *Client) beats(ctx context.Context) {
	t := time.NewTicker(beat)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			c.do(c.tick)
		case <-ctx.Done():
			return
		}
	}
}

// report tells the page when the state has changed.
func (c *Client) report() {
	s := Ready
	switch {
	case c.port == nil && c.worker == 0:
		s = Idle
	case c.port == nil:
		s = Dead
	case !c.greeted:
		s = Connecting
	case slices.ContainsFunc(c.requests, func(r *request) bool { return !quiet(r.msg) }):
		s = Busy
	}
	if State(c.state.Swap(uint32(s))) != s {
		c.on.State(s)
	}
}

// quiet requests are the client's own business: the page doesn't hear of their end.
func quiet(m proto.Request) bool {
	switch m.(type) {
	case proto.Ping, proto.Stop:
		return true
	}
	return false
}

// long requests run one at a time; the engine hears the others in between.
func long(m proto.Request) bool {
	_, state := m.(proto.GetState)
	return !state && !quiet(m)
}

func (c *Client) find(id uint32) int {
	return slices.IndexFunc(c.requests, func(r *request) bool { return r.id == id })
}

func (c *Client) send(id uint32, m proto.Request) {
	o, open := m.(proto.Open)
	if open {
		if c.opened {
			c.end(stopped)
		}
		c.open, c.opened, c.deaths = &o, true, 0
	}
	c.requests = append(c.requests, &request{id: id, msg: m})
	switch {
	case c.port != nil:
		c.pump()
	case open || c.worker == 0:
		c.launch()
	default:
		c.finish(id, dead("the engine is not running"))
	}
}

// pump sends what waits and may run.
func (c *Client) pump() {
	if !c.greeted {
		return
	}
	busy := slices.ContainsFunc(c.requests, func(r *request) bool { return r.sent && long(r.msg) })
	for _, r := range slices.Clone(c.requests) {
		if r.sent || busy && long(r.msg) {
			continue
		}
		busy = busy || long(r.msg)
		r.sent = true
		if err := c.port.Send(proto.Encode(r.id, r.msg)); err != nil {
			c.die(err)
			return
		}
	}
}

// finish ends a request with Done or Failure.
func (c *Client) finish(id uint32, m proto.Event) {
	i := c.find(id)
	if i < 0 {
		return
	}
	r := c.requests[i]
	c.requests = slices.Delete(c.requests, i, i+1)
	c.learn(r, m)
	if !quiet(r.msg) {
		c.on.Event(id, m)
	}
}

// learn takes notice of how a request ended.
func (c *Client) learn(r *request, m proto.Event) {
	done, ok := m.(proto.Done)
	worked := ok && done.Reason != proto.ReasonStopped
	switch r.msg.(type) {
	case proto.Ping:
		c.ping = 0
		return
	case proto.Open:
		if !worked {
			c.opened = false // the same worker can try again, and has what it fetched so far
		}
	}
	if worked && long(r.msg) {
		c.deaths = 0
	}
}

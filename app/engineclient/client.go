// Package engineclient is the page's end of the engine: it starts the worker, shakes hands, sends requests, hands out
// events, notices when the worker is gone and then starts another one with the same model.
package engineclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"kvlens/wasm/proto"
)

// State says what the engine is doing, as far as the page knows.
type State uint32

const (
	Idle       State = iota // no worker yet: nothing was asked for
	Connecting              // the worker is starting
	Ready                   // waiting for a request
	Busy                    // a request is running
	Dead                    // gone, and not restarted by itself: see the last Failure; Restart tries again
)

// Port carries packets to one worker. Recv's error says why the worker is gone; Close ends the worker.
type Port = proto.Conn

// Handler receives what comes back. Both functions are called from one goroutine, in order, and may call the client.
type Handler struct {
	// Event gets every event of a request. The client makes two Failures of its own: CodeDead ends the requests of a
	// worker that died, and CodeVersion (id 0) says that page and engine are of different builds. After a restart the
	// model is opened again, under a new id: Opened may come without an Open by the page.
	Event func(id uint32, m proto.Event)
	State func(State)
}

const (
	// beat is the pause between two looks at a running request.
	beat = 2 * time.Second
	// patience is how many beats without any packet a worker may take. Beats are counted instead of time, because a
	// sleeping machine or a hidden tab stops both sides.
	patience = 8
	// maxDeaths is how often a worker is started again without anything having worked in between.
	maxDeaths = 2
)

// Client is safe for use from any goroutine; no method blocks.
type Client struct {
	start func() (Port, error)
	build string
	on    Handler

	next  atomic.Uint32
	state atomic.Uint32
	calls *proto.Queue[func()] // everything below is only touched by what runs from here
	stop  context.CancelFunc

	port     Port
	worker   int  // counts workers, so that a late packet of an old one is known
	greeted  bool // both Hellos are through
	waiting  [][]byte
	running  []request // sent or waiting, in order
	open     *proto.Open
	opened   bool // this worker has been asked to open a model
	deaths   int
	ping     uint32 // id of the unanswered ping, 0 for none
	silences int
}

type request struct {
	id  uint32
	msg proto.Request
}

// New makes a client. start starts a worker; the first one starts with the first request. build must be the same as the
// engine's.
func New(start func() (Port, error), build string, on Handler) *Client {
	ctx, stop := context.WithCancel(context.Background())
	c := &Client{start: start, build: build, on: on, calls: proto.NewQueue[func()](), stop: stop}
	go c.loop(ctx)
	go c.beats(ctx, beat)
	return c
}

// State returns the latest state.
func (c *Client) State() State { return State(c.state.Load()) }

// Send sends a request and returns its id. Open starts another worker if this one has a model already.
func (c *Client) Send(m proto.Request) uint32 {
	id := c.next.Add(1)
	c.do(func() { c.send(id, m) })
	return id
}

// Stop ends a running request; it then reports Done with ReasonStopped. An id that doesn't run is ignored.
func (c *Client) Stop(id uint32) {
	c.do(func() {
		if c.find(id) >= 0 {
			c.send(c.next.Add(1), proto.Stop{Target: id})
		}
	})
}

// Restart ends the worker, starts another and opens the last model again.
func (c *Client) Restart() {
	c.do(func() {
		c.deaths = 0
		c.end(errors.New("restarted"))
		c.revive()
	})
}

// Close ends the worker and the client.
func (c *Client) Close() {
	c.do(func() {
		c.drop()
		c.stop()
	})
}

func (c *Client) do(f func()) { _ = c.calls.Push(f) }

func (c *Client) loop(ctx context.Context) {
	for {
		f, err := c.calls.Pop(ctx)
		if err != nil || ctx.Err() != nil {
			return
		}
		f()
		c.report()
	}
}

func (c *Client) beats(ctx context.Context, every time.Duration) {
	t := time.NewTicker(every)
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
	case slices.ContainsFunc(c.running, func(r request) bool { return !quiet(r.msg) }):
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

func (c *Client) find(id uint32) int {
	return slices.IndexFunc(c.running, func(r request) bool { return r.id == id })
}

func (c *Client) send(id uint32, m proto.Request) {
	if o, ok := m.(proto.Open); ok {
		if c.opened {
			c.end(errors.New("another model was opened"))
		}
		c.open, c.opened, c.deaths = &o, true, 0
	}
	c.running = append(c.running, request{id, m})
	if c.port == nil {
		if _, ok := m.(proto.Open); !ok && c.worker > 0 {
			c.finish(id, dead("the engine is not running"))
			return
		}
		c.waiting = append(c.waiting, proto.Encode(id, m))
		c.launch()
		return
	}
	c.post(proto.Encode(id, m))
}

// post sends a packet, or keeps it until both sides have said Hello.
func (c *Client) post(packet []byte) {
	if !c.greeted {
		c.waiting = append(c.waiting, packet)
		return
	}
	if err := c.port.Send(packet); err != nil {
		c.die(err)
	}
}

// launch starts a worker. Failing to start counts as a death.
func (c *Client) launch() {
	c.worker++
	port, err := c.start()
	if err != nil {
		c.die(err)
		return
	}
	c.port = port
	worker := c.worker
	go func() {
		for {
			p, err := port.Recv(context.Background())
			if err != nil {
				c.do(func() {
					if worker == c.worker {
						c.die(err)
					}
				})
				return
			}
			c.do(func() {
				if worker == c.worker {
					c.packet(p)
				}
			})
		}
	}()
}

// packet handles what the worker sent.
func (c *Client) packet(p []byte) {
	c.silences = 0
	id, m, err := proto.Decode(p)
	if err != nil {
		c.die(err)
		return
	}
	switch m := m.(type) {
	case proto.Hello:
		c.hello(m)
	case proto.Event:
		c.event(id, m)
	default:
		c.die(fmt.Errorf("engineclient: the engine sent a request of kind %d", m.Kind()))
	}
}

func (c *Client) hello(h proto.Hello) {
	if h.Version != proto.Version || h.Build != c.build {
		c.mismatch(proto.Failure{
			Code: proto.CodeVersion, Op: "engineclient.hello", Msg: "page and engine are of different builds",
			Args: []string{c.build, h.Build},
		})
		return
	}
	c.greeted = true
	packets := append([][]byte{proto.Encode(0, proto.Hello{Version: proto.Version, Build: c.build})}, c.waiting...)
	c.waiting = nil
	for _, p := range packets {
		if c.greeted {
			c.post(p)
		}
	}
}

func (c *Client) event(id uint32, m proto.Event) {
	f, failed := m.(proto.Failure)
	if failed && f.Code == proto.CodeVersion {
		c.mismatch(f)
		return
	}
	if _, done := m.(proto.Done); done || failed {
		c.finish(id, m)
		return
	}
	if c.find(id) >= 0 {
		c.on.Event(id, m)
	}
}

// finish ends a request with Done or Failure.
func (c *Client) finish(id uint32, m proto.Event) {
	i := c.find(id)
	if i < 0 {
		return
	}
	r := c.running[i]
	c.running = slices.Delete(c.running, i, i+1)
	if id == c.ping {
		c.ping = 0
	}
	if _, done := m.(proto.Done); done && !quiet(r.msg) {
		c.deaths = 0
	}
	if !quiet(r.msg) {
		c.on.Event(id, m)
	}
}

// tick looks after a running request: a worker that is busy still answers between two pieces of its work.
func (c *Client) tick() {
	if !c.greeted || c.State() != Busy {
		c.silences = 0
		return
	}
	if c.ping == 0 {
		c.ping = c.next.Add(1)
		c.send(c.ping, proto.Ping{})
		return
	}
	if c.silences++; c.silences >= patience {
		c.die(errors.New("no answer for " + strconv.Itoa(int(patience*beat/time.Second)) + " s"))
	}
}

// die ends a worker that is gone and starts another, unless that doesn't help.
func (c *Client) die(cause error) {
	c.deaths++
	if c.deaths >= maxDeaths || c.open == nil {
		c.end(cause)
		return
	}
	if i := slices.IndexFunc(c.running, func(r request) bool { return r.msg.Kind() == proto.KindOpen }); i >= 0 {
		// The Open in work goes on under its id.
		again := c.running[i]
		c.running = slices.Delete(c.running, i, i+1)
		c.end(cause)
		c.opened = true
		c.running = append(c.running, again)
		c.waiting = append(c.waiting, proto.Encode(again.id, again.msg))
		c.launch()
		return
	}
	c.end(cause)
	c.revive()
}

// revive starts a worker and opens the last model.
func (c *Client) revive() {
	if c.open == nil {
		c.launch()
		return
	}
	id, o := c.next.Add(1), *c.open
	c.opened = true
	c.running = append(c.running, request{id, o})
	c.waiting = append(c.waiting, proto.Encode(id, o))
	c.launch()
}

// mismatch ends everything: only loading the page again helps.
func (c *Client) mismatch(f proto.Failure) {
	c.end(f)
	c.on.Event(0, f)
}

// end drops the worker and fails what it had to do.
func (c *Client) end(cause error) {
	c.drop()
	for len(c.running) > 0 {
		c.finish(c.running[0].id, dead(cause.Error()))
	}
}

// drop ends the worker and forgets what belonged to it.
func (c *Client) drop() {
	if c.port != nil {
		c.port.Close()
	}
	c.port = nil
	c.worker++
	c.greeted, c.opened = false, false
	c.waiting = nil
	c.ping, c.silences = 0, 0
}

func dead(msg string) proto.Failure {
	return proto.Failure{Code: proto.CodeDead, Op: "engineclient", Msg: msg}
}

package engineclient

import (
	"context"
	"fmt"
	"slices"
	"time"

	"kvlens/wasm/proto"
)

const (
	// beat is the pause between two looks at a running request.
	beat = 2 * time.Second
	// patience is how many beats a worker may let pass without a packet. Beats are counted instead of time, because a
	// sleeping machine or a hidden tab stops both sides.
	patience = 5
	// maxDeaths is the number of deaths, with nothing that worked in between, after which a worker is left dead.
	maxDeaths = 2
)

// launch starts a worker. Failing to start counts as a death.
func (c *Client) launch() {
	c.worker++
	port, err := c.start()
	if err != nil {
		c.die(err)
		return
	}
	c.port = port
	go c.receive(port, c.worker)
}

// receive passes a worker's packets on until the worker is gone.
func (c *Client) receive(port Port, worker int) {
	alive := func(f func()) {
		c.do(func() {
			if worker == c.worker {
				f()
			}
		})
	}
	for {
		p, err := port.Recv(context.Background())
		if err != nil {
			alive(func() { c.die(err) })
			return
		}
		alive(func() { c.packet(p) })
	}
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
	case proto.Done:
		c.finish(id, m)
		c.pump()
	case proto.Failure:
		if m.Code == proto.CodeVersion {
			c.mismatch(m)
			return
		}
		c.finish(id, m)
		c.pump()
	case proto.Event:
		if c.find(id) >= 0 {
			c.on.Event(id, m)
		}
	default:
		c.die(fmt.Errorf("engineclient: the engine sent a request of kind %d", m.Kind()))
	}
}

// hello answers the engine's greeting, and sends what waited for it.
func (c *Client) hello(h proto.Hello) {
	if h.Version != proto.Version || h.Build != c.build {
		c.mismatch(proto.Failure{
			Code: proto.CodeVersion, Op: "engineclient.hello", Msg: "page and engine are of different builds",
			Args: []string{c.build, h.Build},
		})
		return
	}
	if err := c.port.Send(proto.Encode(0, proto.Hello{Version: proto.Version, Build: c.build})); err != nil {
		c.die(err)
		return
	}
	c.greeted = true
	c.pump()
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
		c.die(fmt.Errorf("no answer for %v", patience*beat))
	}
}

// die ends a worker that is gone and starts another, unless that did not help the last time.
func (c *Client) die(cause error) {
	c.deaths++
	if c.deaths >= maxDeaths || c.open == nil {
		c.end(dead(cause.Error()))
		return
	}
	c.restart(dead(cause.Error()))
}

// restart starts another worker with the same model. An Open that was running goes on under its id; everything else
// ends with m.
func (c *Client) restart(m proto.Event) {
	var open *request
	if i := slices.IndexFunc(c.requests, func(r *request) bool { return r.msg.Kind() == proto.KindOpen }); i >= 0 {
		open = &request{id: c.requests[i].id, msg: c.requests[i].msg}
		c.requests = slices.Delete(c.requests, i, i+1)
	} else if c.open != nil {
		open = &request{id: c.next.Add(1), msg: *c.open}
	}
	c.end(m)
	if open != nil {
		c.requests = append(c.requests, open)
		c.opened = true
	}
	c.launch()
}

// mismatch ends everything: only loading the page again helps.
func (c *Client) mismatch(f proto.Failure) {
	c.end(f)
	c.on.Event(0, f)
}

// end drops the worker and ends what it had to do with m.
func (c *Client) end(m proto.Event) {
	c.drop()
	for len(c.requests) > 0 {
		c.finish(c.requests[0].id, m)
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
	c.ping, c.silences = 0, 0
}

func dead(msg string) proto.Failure {
	return proto.Failure{Code: proto.CodeDead, Op: "engineclient", Msg: msg}
}

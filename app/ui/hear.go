package ui

import (
	"kvlens/app/engineclient"
	"kvlens/app/state"
	"kvlens/wasm/proto"
)

// hear reduces one message and reports whether it is one of those that come in floods.
func (c *controller) hear(in incoming) (hot bool) {
	now := c.host.Now()
	if in.event == nil {
		if in.state == engineclient.Dead {
			c.reduce(state.Gone{})
		}
		return false
	}
	effect, mine := c.requests[in.id]
	if look, ok := effect.(state.Look); ok {
		return c.watched(in, look)
	}
	_, opening := effect.(state.OpenModel)
	_, turn := effect.(state.Generate)
	change := changes(effect)
	why, explaining := effect.(state.Explain)
	// The client opens the last model again by itself after a death: its request is nobody's here, and long.
	long := !mine || in.id == c.long
	if !mine && in.id != 0 {
		c.long = in.id
	}
	switch e := in.event.(type) {
	case steps:
		c.reduce(state.Stepped{Steps: e, Now: now})
		return true
	case proto.Progress:
		c.reduce(state.Progressed{Progress: e, Now: now})
		return true
	case proto.Opened:
		c.reduce(state.Opened{Opened: e, Now: now})
	case proto.Prompt:
		c.reduce(state.Prompted{Prompt: e, Now: now})
	case proto.Kept:
		c.reduce(state.Keeps{Kept: e})
	case proto.Explained:
		c.reduce(state.Explains{Explained: e, Epoch: why.Epoch})
	case proto.Compared:
		c.reduce(state.Comparisons{Tokens: []proto.Compared{e}, Now: now})
		return true
	case proto.Strayed:
		c.reduce(state.Strays{Tokens: []proto.Strayed{e}, Now: now})
		return true
	case proto.Contrast:
		c.reduce(state.Contrasted{Contrast: e})
	case proto.State:
		c.reduce(state.Measured{State: e})
	case proto.Moved:
		c.reduce(state.Moved{Moved: e, Now: now})
	case proto.Models:
		c.reduce(state.Listed{Models: e})
	case proto.Done:
		delete(c.requests, in.id)
		if mine && long && (opening || turn || change) {
			c.reduce(state.Ended{Done: e})
		}
	case proto.Failure:
		delete(c.requests, in.id)
		if explaining {
			c.reduce(state.Unexplained{Failure: e, Epoch: why.Epoch})
			return false
		}
		// An opening that another one replaced ends with a failure that is no news.
		if long || !(opening || turn) && effect != nil && e.Code != proto.CodeDead {
			c.reduce(state.Failed{Failure: e})
		}
	}
	return false
}

// changes reports whether an effect changes the cache or compares, beside turns and openings what the page waits for.
func changes(e state.Effect) bool {
	switch e.(type) {
	case state.Remake, state.Undo, state.Pin, state.Recall, state.RunCompare:
		return true
	}
	return false
}

// watched reduces what comes of a request for a matrix.
func (c *controller) watched(in incoming, look state.Look) (hot bool) {
	over := false
	switch e := in.event.(type) {
	case proto.Matrix:
		c.reduce(state.Viewed{Matrix: e, Epoch: look.Epoch})
	case proto.State:
		c.reduce(state.Measured{State: e})
	case proto.Done:
		over = true
		c.reduce(state.Overlooked{View: look.View, Epoch: look.Epoch})
	case proto.Failure:
		over = true
		c.reduce(state.Overlooked{View: look.View, Epoch: look.Epoch, Failed: true})
	default:
		return true
	}
	if over {
		delete(c.requests, in.id)
		if c.view == in.id {
			c.view = 0
		}
	}
	return false
}

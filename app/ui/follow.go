package ui

import (
	"time"

	"github.com/maxence-charriere/go-app/v10/pkg/app"
)

// follower keeps the newest words in view while they come, unless the reader has scrolled away.
type follower struct {
	on   bool
	at   float64 // where it has scrolled to
	last time.Time
}

// followTurn begins to keep the last turn in view.
func (c *controller) followTurn() {
	c.follower.on = false
	if main := byID("main"); main.Truthy() {
		c.follower = follower{on: true, at: main.Get("scrollTop").Float()}
		c.keepUp()
	}
}

// keepUp scrolls so that the last turn can be read from its beginning, but in any case to its newest word.
func (c *controller) keepUp() {
	f, main := &c.follower, byID("main")
	if !f.on || !main.Truthy() || len(c.paints) == 0 {
		return
	}
	at := main.Get("scrollTop").Float()
	const near = 80.0
	if d := at - f.at; d < -near || d > near { // the reader has scrolled
		f.on = false
		return
	}
	const margin, foot = 12.0, 44.0 // above what is read, and what stands below an answer
	t := c.paints[len(c.paints)-1]
	first := t.prompt
	if kept := byID("kept"); kept.Truthy() && len(c.paints) == 1 {
		first = kept
	}
	box := main.Call("getBoundingClientRect")
	top, height := box.Get("top").Float(), box.Get("height").Float()
	if composer := main.Call("querySelector", ".composer"); composer.Truthy() {
		height -= composer.Call("getBoundingClientRect").Get("height").Float()
	}
	begin := first.Call("getBoundingClientRect").Get("top").Float() - top - margin
	end := t.answer.Call("getBoundingClientRect").Get("bottom").Float() - top - height + foot
	main.Set("scrollTop", at+max(begin, end))
	f.at = main.Get("scrollTop").Float()
}

// paint brings the texts and pictures on the page up to date.
func (c *controller) paint(running bool) {
	columns := c.columns()
	for _, t := range c.paints {
		t.paint(columns)
	}
	c.eyes.paint()
	c.plot.paint()
	if !running || c.model.Running() && time.Since(c.follower.last) < 100*time.Millisecond { // to look costs a layout
		return
	}
	c.follower.last = time.Now()
	c.keepUp()
	if !c.model.Running() { // what stands around the answer is drawn once more
		c.home.Defer(func(app.Context) {
			c.keepUp()
			c.follower.on = false
		})
	}
}

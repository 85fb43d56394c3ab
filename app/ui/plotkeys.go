package ui

import (
	"strings"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/canvas"
	"kvlens/app/state"
)

// point moves the cross to the pointer.
func (x *matrix) point(ctx app.Context, e app.Event) {
	ctx.PreventUpdate()
	p := &x.C.plot
	box := ctx.JSSrc().Call("getBoundingClientRect")
	w, h := box.Get("width").Float(), box.Get("height").Float()
	if w <= 0 || h <= 0 || p.key == (plotKey{}) {
		return
	}
	s := p.shown
	p.column = canvas.At((e.Get("clientX").Float()-box.Get("left").Float())/w, s.Tokens)
	p.over = s.First + canvas.At((e.Get("clientY").Float()-box.Get("top").Float())/h, s.Queries())
	p.lines()
}

func (x *matrix) leave(ctx app.Context, _ app.Event) {
	ctx.PreventUpdate()
	x.C.plot.away()
}

// away takes the cross back to the chosen row.
func (p *plot) away() {
	if p.column >= 0 || p.over >= 0 {
		p.column, p.over = -1, -1
		p.paint()
	}
}

// light points at a key, as when its word is pointed at.
func (p *plot) light(key int) {
	if p.key != (plotKey{}) && key < p.shown.Tokens {
		p.column, p.over = key, -1
		p.lines()
	}
}

// click keeps the row under the pointer.
func (x *matrix) click(ctx app.Context, _ app.Event) {
	p := &x.C.plot
	if p.over < 0 {
		ctx.PreventUpdate()
		return
	}
	x.C.send(state.PickRow{Query: p.over})
}

// key moves rows and columns with the arrow keys.
func (x *matrix) key(ctx app.Context, e app.Event) {
	ctx.PreventUpdate()
	p := &x.C.plot
	s := p.shown
	if p.key == (plotKey{}) {
		return
	}
	const page = 10
	switch e.Get("key").String() {
	case "ArrowUp":
		p.step(-1)
	case "ArrowDown":
		p.step(1)
	case "PageUp":
		p.step(-page)
	case "PageDown":
		p.step(page)
	case "Home":
		p.step(-s.Queries())
	case "End":
		p.step(s.Queries())
	case "ArrowLeft", "ArrowRight":
		if p.column < 0 {
			p.column = p.query()
		}
		by := 1
		if e.Get("key").String() == "ArrowLeft" {
			by = -1
		}
		p.column = max(0, min(s.Tokens-1, p.column+by))
		p.lines()
	case "Escape":
		p.away()
	default:
		return
	}
	e.PreventDefault()
}

// step chooses a row some rows away.
func (p *plot) step(by int) {
	s := p.shown
	last := s.First + s.Queries() - 1
	q := max(s.First, min(last, p.query()+by))
	if q == last {
		q = state.Newest
	}
	p.over = -1
	p.c.send(state.PickRow{Query: q})
	p.paint()
}

// tokenText is the text of some tokens of the conversation.
func (c *controller) tokenText(at, n int) string {
	var b strings.Builder
	for _, t := range c.model.Turns {
		for _, p := range t.Pieces {
			if int(p.At) < at+n && int(p.At)+len(p.IDs) > at {
				b.WriteString(p.Text)
			}
		}
		for _, k := range t.Answer {
			if int(k.Position) >= at && int(k.Position) < at+n {
				b.WriteString(k.Text)
			}
		}
	}
	return b.String()
}

// quoted is that text as it stands in a sentence.
func (c *controller) quoted(at, n int) string {
	s := c.tokenText(at, n)
	if t := strings.TrimSpace(s); t != "" {
		return c.t("quote", "text", t)
	}
	return c.t("quote", "text", visible(s))
}

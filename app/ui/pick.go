package ui

import (
	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
)

// pick asks about the token that was clicked.
func (t *turn) pick(ctx app.Context, e app.Event) {
	ctx.PreventUpdate()
	if selection := app.Window().Call("getSelection"); selection.Truthy() && !selection.Get("isCollapsed").Bool() {
		return // the reader has marked text
	}
	t.choose(ctx, e.Get("target"))
}

// choose asks about a token, or puts the question away if it is the same again.
func (t *turn) choose(ctx app.Context, el app.Value) {
	if index, ok := tokenIndex(el); ok {
		t.C.ask(state.Select{Serial: t.Serial, Answer: t.answers(ctx), Index: index})
		t.C.reveal("reason") // the inspector may be scrolled
	}
}

// follow asks about the token that the keyboard came to, while the card is open.
func (t *turn) follow(ctx app.Context, el app.Value, index int) bool {
	w := t.C.model.Why
	if !w.On || !el.Call("matches", ":focus-visible").Bool() {
		return false
	}
	if answer := t.answers(ctx); w.Serial != t.Serial || w.Answer != answer || w.Index != index {
		t.C.ask(state.Select{Serial: t.Serial, Answer: answer, Index: index, Stay: true})
	}
	return true
}

// answers reports whether an event is one of the answer's text, not of the prompt's.
func (t *turn) answers(ctx app.Context) bool { return ctx.JSSrc().Get("id").String() == t.id("answer") }

// ask sends a question about a token and shows which one it is.
func (c *controller) ask(e state.Select) {
	c.card.hide()
	c.send(e)
	c.ring()
}

// OnMount and OnUpdate see to it that the card, at the bottom of a narrow screen, does not lie over its token.
func (x *why) OnMount(ctx app.Context) { ctx.Defer(x.C.uncover) }

// OnUpdate is OnMount for a card that will say something else.
func (x *why) OnUpdate(ctx app.Context) { ctx.Defer(x.C.uncover) }

func (c *controller) uncover(app.Context) {
	at := 2 * (c.model.Why.At + 1)
	if c.model.Verdict(c.model.WhyList(), c.model.Why.At).Known { // the card has grown
		at++
	}
	if box := byID("reason"); box.Truthy() && c.ringed != nil && at != c.seen {
		c.seen = at
		c.card.uncover(box, c.ringed)
	}
}

// unask puts the question away; the focus goes back to its token if the card had it.
func (c *controller) unask() {
	was, inside := c.ringed, byID("reason")
	back := was != nil && inside.Truthy() && inside.Call("contains", document().Get("activeElement")).Bool()
	c.send(state.Deselect{})
	c.seen = 0
	c.ring()
	if back {
		was.Call("focus")
	}
}

// ring marks the token that the question is about.
func (c *controller) ring() {
	if was := c.ringed; was != nil {
		was.Get("classList").Call("remove", "asked")
		c.ringed = nil
		if was.Equal(document().Get("activeElement")) {
			c.pressable(was)
		} else {
			unpressable(was)
		}
	}
	w := c.model.Why
	for _, t := range c.paints {
		if !w.On || t.Serial != w.Serial {
			continue
		}
		text, shown := t.prompt, t.shownPieces
		if w.Answer {
			text, shown = t.answer, t.shownTokens
		}
		for i, index := range shown {
			if index != w.Index {
				continue
			}
			if el := text.Get("children").Index(i); el.Truthy() {
				c.ringed = el
				el.Get("classList").Call("add", "asked")
				c.pressable(el)
			}
		}
	}
}

// pressable says of a token that has the focus, or is asked about, what Enter does there. All others are text.
func (c *controller) pressable(el app.Value) {
	pressed := "false"
	if c.ringed != nil && c.ringed.Equal(el) {
		pressed = "true"
	}
	attr(el, "role", "button", "aria-pressed", pressed)
}

func unpressable(el app.Value) {
	el.Call("removeAttribute", "role")
	el.Call("removeAttribute", "aria-pressed")
}

// shrink takes tokens off the end of the answer, which the reader has taken back.
func (t *turn) shrink(tokens int) {
	if t.tokens <= tokens {
		return
	}
	t.tokens = tokens
	for n := len(t.shownTokens) - 1; n >= 0 && t.shownTokens[n] >= tokens; n-- {
		t.answer.Get("lastElementChild").Call("remove")
		t.shownTokens = t.shownTokens[:n]
	}
	t.begun = len(t.shownTokens) > 0
	if first := t.answer.Get("firstElementChild"); first.Truthy() {
		attr(first, "tabindex", "0")
	}
}

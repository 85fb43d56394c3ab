package ui

import (
	"strconv"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
	"kvlens/wasm/proto"
)

// composer is where the next question is written, with the one button that runs and stops.
type composer struct {
	app.Compo
	C       *controller
	Lang    string
	Mode    proto.PromptMode
	Text    string
	System  string
	First   bool // nothing has been asked: a system line can still be set
	More    []string
	Ready   bool
	Running bool
	Halting bool
	Steps   stepping
}

func (c *controller) composer() app.UI {
	m := c.model
	x := &composer{
		C: c, Lang: m.Lang, Mode: m.Mode, Steps: c.stepping(), First: len(m.Turns) == 0, Ready: m.Phase == state.Idle,
		Running: m.Running() || (m.Phase == state.Changing || m.Phase == state.Comparing) && m.Work.Long, Halting: m.Phase == state.Stopping,
	}
	switch m.Mode {
	case proto.Story:
		x.Text = m.Draft.Question
		for _, q := range m.Draft.More {
			if !m.Asked(q) && q != m.Draft.Question {
				x.More = append(x.More, q)
			}
		}
		if x.First {
			x.More = nil
		}
	case proto.Chat:
		x.Text, x.System = m.Draft.Message, m.Draft.System
	default:
		x.Text = m.Draft.Raw
	}
	return x
}

// field names the control and the part of the draft that it holds.
func (x *composer) field() (id string, f state.Field) {
	switch x.Mode {
	case proto.Story:
		return "question", state.Question
	case proto.Chat:
		return "message", state.Message
	default:
		return "raw", state.RawText
	}
}

func (x *composer) Render() app.UI {
	c := x.C
	id, f := x.field()
	return named(app.Form(), "composer").Class("composer").OnSubmit(func(_ app.Context, e app.Event) {
		e.PreventDefault()
		x.run()
	}).Body(
		x.more(),
		app.Div().Class("row asking").Body(app.Label().For(id).Class("h").Text(c.t(x.label())), x.Steps.row(c)),
		app.Div().Class("ask").Body(x.input(id, f), x.button()),
		x.system(),
	)
}

func (x *composer) label() string {
	if x.Mode == proto.Story && !x.First {
		return "label.another"
	}
	id, _ := x.field()
	return "label." + id
}

func (x *composer) run() {
	if x.Running {
		x.C.send(state.Halt{})
		return
	}
	x.C.send(state.Run{Now: x.C.host.Now()})
}

// input is one line for a question, several for a message; Enter sends, Shift and Enter make a new line.
func (x *composer) input(id string, f state.Field) app.UI {
	c := x.C
	edit := func(ctx app.Context, _ app.Event) {
		c.send(state.Edit{Field: f, Text: ctx.JSSrc().Get("value").String()})
	}
	lang := htmlLang(state.LangOf(x.Text))
	if x.Mode == proto.Story {
		return named(app.Input(), id).ID(id).Type("text").Class("line").Lang(lang).AutoComplete(false).
			Value(x.Text).OnInput(edit, app.EventScope(id))
	}
	return named(app.Textarea(), id).ID(id).Class("line").Lang(lang).Rows(2).
		Placeholder(c.t("hint."+id)).Attr("value", x.Text).OnInput(edit, app.EventScope(id)).
		OnKeyDown(func(ctx app.Context, e app.Event) {
			ctx.PreventUpdate()
			if e.Get("key").String() == "Enter" && !e.Get("shiftKey").Bool() && !composing(e) {
				e.PreventDefault()
				if !c.model.Occupied() {
					x.run()
				}
			}
		})
}

// composing reports whether a key belongs to an input method: Enter then takes a suggestion. Safari says so only by the
// code 229.
func composing(e app.Event) bool { return e.Get("isComposing").Bool() || e.Get("keyCode").Int() == 229 }

// button runs, and stops what runs: one button, so that the focus stays where it is.
func (x *composer) button() app.UI {
	key, class, name := "run", "primary", "run"
	off := !x.Ready
	if x.Running {
		key, class, name = "stop", "primary stop", "stop"
		off = x.Halting
	}
	return disabled(named(app.Button(), name).ID("run").Type("submit").Class(class).Text(x.C.t(key)).
		OnClick(func(ctx app.Context, e app.Event) {
			ctx.PreventUpdate()
			if e.Get("detail").Int() > 1 { // the second click of a double one: it would stop what the first began
				e.PreventDefault()
			}
		}), off)
}

// more are further questions about the same story: the model has read it already.
func (x *composer) more() app.UI {
	c := x.C
	if len(x.More) == 0 || x.Running {
		return nothing()
	}
	items := make([]app.UI, len(x.More))
	for i, q := range x.More {
		items[i] = disabled(named(app.Button(), "more-"+strconv.Itoa(i)).Type("button").Class("example").
			Lang(htmlLang(state.LangOf(q))).Text(q).
			OnClick(func(app.Context, app.Event) {
				c.send(state.Run{Question: q, Now: c.host.Now()})
				c.focus("run") // this button goes
			}, app.EventScope("more", q)), !x.Ready)
	}
	return app.Div().Class("more").Role("group").Aria("label", c.t("more.label")).Body(items...)
}

// system is the line that tells a chat model how to behave.
func (x *composer) system() app.UI {
	c := x.C
	if x.Mode != proto.Chat || !x.First {
		return nothing()
	}
	return app.Details().Class("system").Body(
		app.Summary().Text(c.t("system.label")),
		app.Label().For("system").Class("small").Text(c.t("system.hint")),
		named(app.Input(), "system").ID("system").Type("text").Class("line").Value(x.System).
			OnChange(func(ctx app.Context, _ app.Event) {
				c.send(state.Edit{Field: state.System, Text: ctx.JSSrc().Get("value").String()})
			}),
	)
}

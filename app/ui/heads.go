package ui

import (
	"strconv"
	"strings"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
)

// heads shows what every head attends to: a thumbnail a head, or where there are many a grid of colours. Pictures and
// letters are written by eyes, frame by frame; the rest is drawn when the model, the choice or the language changes.
type heads struct {
	app.Compo
	C                    *controller
	Lang                 string
	On, Off              bool // watched, and whether that can't be changed now
	Layers, Heads, Group int
	Has                  bool // there is something to show
	Picked               state.Head
	By                   state.Measure
	Slow                 bool // watching gives up something

	wide bool // many heads: layers across
}

func (c *controller) heads() app.UI {
	m := c.model
	layers, n, group := m.Shape()
	if layers == 0 {
		return nothing()
	}
	return &heads{
		C: c, Lang: m.Lang, On: m.Attention.On, Off: m.Running(), Layers: layers, Heads: n, Group: group, Has: len(m.Attention.Gazes) > 0,
		Picked: m.Attention.Picked, By: m.Attention.By, Slow: strings.HasPrefix(m.Opened.Backend, "webgpu"),
	}
}

func (h *heads) OnMount(ctx app.Context)  { h.fit(ctx) }
func (h *heads) OnUpdate(ctx app.Context) { h.fit(ctx) }
func (h *heads) OnResize(ctx app.Context) { h.fit(ctx) }

// Sizes of the grid of colours, in CSS pixels: the least side of a cell, and labels and margins beside the cells.
const (
	leastCell = 24
	besides   = 82
)

// fit chooses how the grid lies once it is there, and has it painted.
func (h *heads) fit(ctx app.Context) {
	ctx.Defer(func(ctx app.Context) {
		wide := false
		if box := byID("main"); box.Truthy() && !state.Few(h.Layers, h.Heads) { // the panel itself is as wide as it lies
			wide = box.Get("clientWidth").Float() >= float64(h.Layers*leastCell+besides)
		}
		if wide != h.wide {
			h.wide = wide
			ctx.Update()
			ctx.Defer(func(app.Context) { h.C.eyes.attach(h) })
			return
		}
		h.C.eyes.attach(h)
	})
}

func (h *heads) Render() app.UI {
	c := h.C
	hint := "heads.watch.hint"
	if h.Slow {
		hint = "heads.watch.slow"
	}
	body := []app.UI{
		app.Div().Class("head").Body(
			app.H2().Text(c.t("heads.title")),
			tick("heads-watch", c.t("heads.watch"), h.On, h.Off, func(on bool) { c.send(state.Watch{On: on}) }),
			app.Span().ID("heads-watch-hint").Class("small").Text(c.t(hint)),
		),
	}
	switch {
	case h.Has:
		body = append(body, h.says(), h.grid(), h.legend(), h.chosen())
	case h.On:
		body = append(body, app.P().Class("small").Text(c.t("heads.none")))
	}
	return named(app.Section(), "heads").ID("heads").Class("heads").Body(body...)
}

// says is what the pictures show, or what the colours can.
func (h *heads) says() app.UI {
	c := h.C
	if state.Few(h.Layers, h.Heads) {
		return app.P().Class("small").Text(c.t("heads.says"))
	}
	options := make([]app.UI, state.Measures)
	for i := range options {
		x := state.Measure(i)
		o := app.Option().Value(strconv.Itoa(i)).Text(c.t("heads.by." + x.String()))
		if x == h.By {
			o = o.Selected(true)
		}
		options[i] = o
	}
	return app.Div().Class("row").Body(
		app.Label().Class("small").For("heads-by").Text(c.t("heads.by")),
		named(app.Select(), "heads-by").ID("heads-by").Body(options...).OnChange(func(ctx app.Context, _ app.Event) {
			if i, err := strconv.Atoi(ctx.JSSrc().Get("value").String()); err == nil && i >= 0 && i < int(state.Measures) {
				c.send(state.SetBy{By: state.Measure(i)})
				c.eyes.paint()
			}
		}),
		ramp(c.t("unit.percent", "n", "0"), c.t("unit.percent", "n", "100")),
	)
}

// grid holds the cells: rows of layers, or of heads where layers run across. It is one stop of the Tab key.
func (h *heads) grid() app.UI {
	c := h.C
	few := state.Few(h.Layers, h.Heads)
	class := "headgrid many tall"
	switch {
	case few:
		class = "headgrid few"
	case h.wide:
		class = "headgrid many wide"
	}
	rows := []app.UI{h.top()}
	if h.wide {
		for q := range h.Heads {
			row := make([]app.UI, h.Layers)
			for l := range row {
				row[l] = h.cell(l, q, few)
			}
			rows = append(rows, h.row("heads.head", q, q%h.Group == 0 && q > 0, row))
		}
	} else {
		for l := range h.Layers {
			var row []app.UI
			for g := range h.Heads / h.Group {
				cells := make([]app.UI, h.Group)
				for i := range cells {
					cells[i] = h.cell(l, g*h.Group+i, few)
				}
				row = append(row, app.Div().Class("group").Role("none").Body(cells...))
			}
			rows = append(rows, h.row("heads.layer", l, false, row))
		}
	}
	if !few {
		rows = append(rows, app.Elem("canvas").Class("colours").Aria("hidden", "true"))
	}
	return named(app.Div(), "headgrid").ID("headgrid").Class(class).Role("grid").
		Aria("label", c.t("heads.grid", "layers", h.Layers, "heads", h.Heads)).Aria("describedby", "heads-legend").Body(rows...).
		On("pointerover", h.over).On("pointerleave", h.leave).On("focusin", h.over).On("focusout", h.leave).
		OnClick(h.click).OnKeyDown(h.key)
}

func (h *heads) row(key string, i int, gap bool, cells []app.UI) app.UI {
	class := "hrow"
	if gap {
		class += " gap"
	}
	head := app.Span().Class("label").Role("rowheader").Text(h.C.t(key, "n", i+1))
	return app.Div().Class(class).Role("row").Body(append([]app.UI{head}, cells...)...)
}

// top is the row above the cells: the KV heads, in brackets over their query heads, or the layers' numbers.
func (h *heads) top() app.UI {
	c := h.C
	cells := []app.UI{app.Span().Class("label")}
	if h.wide {
		for l := range h.Layers {
			text := ""
			if (l+1)%5 == 0 || l == 0 {
				text = strconv.Itoa(l + 1)
			}
			cells = append(cells, app.Span().Class("number").Text(text))
		}
		return app.Div().Class("hrow top").Aria("hidden", "true").Body(cells...)
	}
	for g := range h.Heads / h.Group {
		text := ""
		if h.Group > 1 {
			text = c.t("heads.kv", "n", g+1)
		}
		cells = append(cells, app.Span().Class("bracket").Text(text))
	}
	return app.Div().Class("hrow top").Aria("hidden", "true").Body(cells...)
}

// cell is one head. Its letter is an attribute that eyes writes.
func (h *heads) cell(layer, head int, few bool) app.UI {
	c := h.C
	i := layer*h.Heads + head
	tab, selected := -1, "false"
	if i == 0 {
		tab = 0
	}
	if h.Picked == (state.Head{Layer: layer, Head: head}) {
		selected = "true"
	}
	x := app.Div().Class("cell").Role("gridcell").TabIndex(tab).DataSet("i", i).Attr("aria-selected", selected).
		Aria("label", c.t("heads.name", "layer", layer+1, "head", head+1))
	if few {
		x = x.Body(app.Elem("canvas").Aria("hidden", "true"), app.Span().Class("small").Aria("hidden", "true").Text(c.t("heads.head", "n", head+1)))
	}
	return x
}

// letters are the signs of habits, by number.
var letters = [...]struct{ name, letter string }{
	state.Mixed: {"mixed", "·"}, state.AtSink: {"sink", "S"}, state.AtLocal: {"local", "L"}, state.AtFar: {"far", "F"},
}

// legend says what the letters mean, and the colours of thumbnails.
func (h *heads) legend() app.UI {
	c := h.C
	var items []app.UI
	for _, x := range letters {
		items = append(items, app.Li().Body(app.Strong().Text(x.letter), app.Text(c.t("heads.habit."+x.name))))
	}
	items = append(items, app.Li().Text(c.t("heads.habit.rule")))
	if h.wide && h.Group > 1 {
		items = append(items, app.Li().Text(c.t("heads.shared", "n", h.Group)))
	}
	if state.Few(h.Layers, h.Heads) {
		items = append(items, app.Li().Body(ramp("0.0001", "1")))
	}
	return app.Ul().ID("heads-legend").Class("legend").Body(items...)
}

// ramp is the scale of colours between two ends.
func ramp(from, to string) app.UI {
	return app.Span().Class("ramp small").Body(app.Text(from), app.Span().Class("cividis").Aria("hidden", "true"), app.Text(to))
}

// chosen leads to the matrix of the picked head, where that is further down.
func (h *heads) chosen() app.UI {
	c := h.C
	if h.Picked == state.NoHead {
		return nothing()
	}
	return app.Div().Class("row chosen").Body(
		app.Span().Class("h").Text(c.t("heads.name", "layer", h.Picked.Layer+1, "head", h.Picked.Head+1)),
		named(app.Button(), "head-show").Type("button").Class("ghost").Text(c.t("heads.show")).
			OnClick(func(app.Context, app.Event) { scrollTo("matrix") }),
	)
}

// tick is a button that is on or off, described by the element with its name and "-hint".
func tick(id, label string, on, off bool, set func(bool)) app.UI {
	pressed, sign := "false", "☐"
	if on {
		pressed, sign = "true", "☑"
	}
	return disabled(named(app.Button(), id).ID(id).Type("button").Class("tick").Attr("aria-pressed", pressed).Aria("describedby", id+"-hint").
		Body(app.Span().Aria("hidden", "true").Text(sign), app.Span().Text(label)).
		OnClick(func(app.Context, app.Event) { set(!on) }, app.EventScope(id, on)), off)
}

func scrollTo(id string) {
	if el := byID(id); el.Truthy() {
		el.Call("scrollIntoView", map[string]any{"block": "start"})
	}
}

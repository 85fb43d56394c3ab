package ui

import (
	"strconv"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
	"kvlens/wasm/proto"
)

// matrix is the inspector's look at one head. The picture and its words are plot's, which writes them into the elements
// that stand here.
type matrix struct {
	app.Compo
	C            *controller
	Lang         string
	Picked       bool
	Linear, Bare bool
	Hatched      bool // something is evicted; Faint: with what it would have received
	Faint        bool
	Table        []looked // rows of the table, if it is open
}

// looked is a line of the table.
type looked struct {
	Token, Place, Weight, Fate string
}

func (c *controller) matrix() app.UI {
	m := c.model
	a := m.Attention
	if len(a.Gazes) == 0 && a.Matrix.Tokens == 0 {
		return nothing()
	}
	x := &matrix{C: c, Lang: m.Lang, Picked: a.Picked != state.NoHead, Linear: a.Linear, Bare: a.Bare}
	if s, ok := m.Shown(a.Picked); ok {
		x.Hatched, x.Faint = a.Matrix.Evicted() > 0 && !s.Live, len(s.Would) > 0
		if c.plot.open {
			x.Table = c.lookedAt(s)
		}
	}
	return x
}

// tableRows is how many keys the table has.
const tableRows = 20

// looked are the keys that the chosen row looks at most.
func (c *controller) lookedAt(s state.Shown) []looked {
	m := c.model
	var out []looked
	for _, k := range s.Top(m.Query(s), tableRows) {
		fate := c.t("matrix.kept")
		_, _, group := m.Shape()
		list := m.Attention.Picked.Layer*m.Kept.Heads + m.Attention.Picked.Head/max(1, group)
		switch {
		case k.Left != proto.Stays:
			fate = c.t("matrix.left", "n", k.Left)
		case m.Kept.Layers > 0 && !m.Kept.Holds(list, k.At):
			fate = c.t("matrix.gone")
		}
		out = append(out, looked{visible(c.tokenText(k.At, k.N)), strconv.Itoa(k.At + 1), c.words.Percent(state.Weight(k.Code)), fate})
	}
	return out
}

func (x *matrix) OnMount(ctx app.Context)  { ctx.Defer(func(app.Context) { x.C.plot.attach() }) }
func (x *matrix) OnUpdate(ctx app.Context) { ctx.Defer(func(app.Context) { x.C.plot.paint() }) }
func (x *matrix) OnResize(ctx app.Context) { ctx.Defer(func(app.Context) { x.C.plot.attach() }) }

func (x *matrix) Render() app.UI {
	c := x.C
	return named(app.Section(), "matrix").ID("matrix").Class("matrix").Body(
		app.Div().Class("head").Body(
			named(app.H2(), "matrix-title").ID("matrix-title"),
			named(app.Span(), "matrix-says").ID("matrix-says").Class("small"),
			x.drop(),
		),
		app.P().ID("matrix-hint").Class("small").Text(c.t("matrix.hint")),
		app.Div().ID("matrix-body").Class("body").Body(
			named(app.Div(), "plot").ID("plot").Class("plot").TabIndex(0).Role("group").
				Aria("label", c.t("matrix.plot")).Aria("describedby", "matrix-caption").Body(
				app.Elem("canvas").Aria("hidden", "true"),
				app.Span().Class("across").Aria("hidden", "true"),
				app.Span().Class("down").Aria("hidden", "true"),
			).On("pointermove", x.point).On("pointerdown", x.point).On("pointerleave", x.leave).OnClick(x.click).OnKeyDown(x.key),
			svg("svg").Class("profile").Attr("viewBox", "0 0 1000 100").Attr("preserveAspectRatio", "none").Aria("hidden", "true").Body(
				svg("path").ID("profile").Attr("d", "M0 0"),
			),
			app.Div().Class("axis small").Body(app.Span().Text(c.t("matrix.first.key")), app.Span().Text(c.t("matrix.last.key"))),
			named(app.P(), "matrix-caption").ID("matrix-caption").Class("say"),
			x.row(),
			app.Div().Class("row").Body(
				tick("matrix-linear", c.t("matrix.linear"), x.Linear, false, func(on bool) { c.send(state.SetLinear{On: on}) }),
				tick("matrix-bare", c.t("matrix.bare"), x.Bare, false, func(on bool) { c.send(state.SetBare{On: on}) }),
			),
			app.P().ID("matrix-linear-hint").Class("sr").Text(c.t("matrix.linear.hint")),
			app.P().ID("matrix-bare-hint").Class("sr").Text(c.t("matrix.bare.hint")),
			x.legend(),
			x.table(),
		),
	)
}

// drop lets go of the head.
func (x *matrix) drop() app.UI {
	if !x.Picked {
		return nothing()
	}
	return named(app.Button(), "head-drop").Type("button").Class("ghost icon").Aria("label", x.C.t("heads.drop")).
		Body(app.Span().Aria("hidden", "true").Text("✕")).OnClick(func(app.Context, app.Event) { x.C.pick(state.NoHead) })
}

// row chooses the query, one by one.
func (x *matrix) row() app.UI {
	c := x.C
	step := func(id, sign, key string, by int) app.UI {
		return disabled(named(app.Button(), id).Type("button").Class("ghost icon").Aria("label", c.t(key)).Body(app.Span().Aria("hidden", "true").Text(sign)).
			OnClick(func(app.Context, app.Event) { c.plot.step(by) }, app.EventScope(id)), !x.Picked)
	}
	return app.Div().Class("row query").Body(
		step("row-up", "↑", "matrix.up", -1),
		named(app.Span(), "matrix-row").ID("matrix-row").Class("small"),
		step("row-down", "↓", "matrix.down", 1),
	)
}

// legend is the scale, and what hatching means.
func (x *matrix) legend() app.UI {
	c := x.C
	ticks := []string{"0.0001", "0.001", "0.01", "0.1", "1"}
	if x.Linear {
		ticks = []string{"0", "0.25", "0.5", "0.75", "1"}
	}
	labels := make([]app.UI, len(ticks))
	for i, t := range ticks {
		labels[i] = app.Span().Text(t)
	}
	gone := nothing()
	if x.Hatched {
		key := "matrix.hatched"
		if x.Faint {
			key = "matrix.hatched.faint"
		}
		gone = app.P().Class("small").Body(app.Span().Class("hatched").Aria("hidden", "true"), app.Text(c.t(key)))
	}
	return app.Div().Class("scale").Body(
		app.Span().Class("cividis").Aria("hidden", "true"),
		app.Div().Class("ticks small").Role("img").Aria("label", c.t("matrix.scale")).Body(labels...),
		gone,
	)
}

// table is the row in figures.
func (x *matrix) table() app.UI {
	c := x.C
	body := make([]app.UI, len(x.Table))
	for i, r := range x.Table {
		body[i] = app.Tr().Body(
			app.Th().Scope("row").Text(r.Token), app.Td().Text(r.Place), app.Td().Text(r.Weight), app.Td().Text(r.Fate),
		)
	}
	head := func(key string) app.UI { return app.Th().Scope("col").Text(c.t(key)) }
	return named(app.Details(), "matrix-table").Class("fold").Body(
		app.Summary().Text(c.t("matrix.table")),
		app.Table().Class("ledger").Body(
			app.Caption().Class("sr").Text(c.t("matrix.table.caption")),
			app.THead().Body(app.Tr().Body(head("matrix.token"), head("matrix.place"), head("matrix.weight"), head("matrix.fate"))),
			app.TBody().Body(body...),
		),
	).On("toggle", func(ctx app.Context, _ app.Event) {
		c.plot.open = ctx.JSSrc().Get("open").Bool()
		c.draw()
	})
}

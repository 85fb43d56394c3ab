package ui

import (
	"slices"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/engineclient"
	"kvlens/app/state"
	"kvlens/wasm/proto"
)

// Home is the page.
type Home struct {
	app.Compo
	c     *controller
	start func(func(uint32, proto.Event), func(engineclient.State)) *engineclient.Client
}

// OnMount starts the engine; it runs in the browser only.
func (h *Home) OnMount(ctx app.Context) { h.c.mounted(ctx, h.start) }

// OnAppUpdate offers a reload when a newer version of the site has been fetched.
func (h *Home) OnAppUpdate(ctx app.Context) { h.c.updated = ctx.AppUpdateAvailable() }

// Render lays the page out: what is read and answered in the middle, with the heads that read it below; what it costs, one
// head and one token looked at closely on the right; what it means on the left. On a phone these follow each other.
func (h *Home) Render() app.UI {
	c := h.c
	m := c.model
	return named(app.Div(), "app").Class("app").DataSet("phase", m.Phase.String()).DataSet("mode", state.ModeName(m.Mode)).Body(
		app.A().Class("skip").Href("#main").Text(c.t("skip")),
		c.header(),
		app.Main().ID("main").TabIndex(-1).Body(
			c.notices(),
			c.problem(),
			c.bar(),
			c.chooser(),
			c.about(),
			c.editor(),
			c.story(),
			named(app.Div(), "turns").ID("turns").Class("turns").Body(c.turns()...),
			c.steps(),
			c.heads(),
			c.compare(),
			c.opening(),
			c.composer(),
			&cardHolder{C: c},
		),
		&guide{C: c, Lang: m.Lang, Mode: m.Mode},
		app.Aside().Class("side").Aria("label", c.t("inspector.title")).Body(
			c.why(),
			c.memory(),
			c.matrix(),
			&sampling{C: c, Lang: m.Lang, Sampling: m.Sampling, Max: m.Max, Busy: m.Running()},
		),
		c.status(),
		&liveRegion{},
	)
}

// notices are remarks such as a value of the address that cannot be had.
func (c *controller) notices() app.UI {
	var items []app.UI
	for _, n := range c.model.Notices {
		args := []any{}
		for i, a := range n.Args {
			args = append(args, [...]string{"value", "instead"}[min(i, 1)], a)
		}
		items = append(items, app.Li().Text(c.t(n.Key, args...)))
	}
	if c.updated {
		items = append(items, app.Li().Body(
			app.Text(c.t("update.there")),
			app.Button().Type("button").Class("link").Text(c.t("update.reload")).OnClick(func(ctx app.Context, _ app.Event) { ctx.Reload() }),
		))
	}
	if len(items) == 0 {
		return nothing()
	}
	return named(app.Div(), "notices").Class("notices").Body(
		app.Ul().Body(items...),
		app.Button().Type("button").Class("ghost").Text(c.t("dismiss")).OnClick(func(app.Context, app.Event) {
			c.updated = false
			c.send(state.Dismiss{})
		}),
	)
}

// problem is what went wrong, in one sentence, with one thing to do about it.
func (c *controller) problem() app.UI {
	p := c.model.Problem
	if p == nil {
		return nothing()
	}
	name := state.CodeName(p.Code)
	var details []app.UI
	if p.Op != "" || p.Msg != "" {
		details = append(details, app.Details().Body(
			app.Summary().Text(c.t("problem.details")),
			app.Pre().Text(p.Op+"\n"+p.Msg),
		))
	}
	return named(app.Div(), "problem").ID("problem").Class("problem").Role("alert").DataSet("code", name).Body(
		app.P().Body(app.Strong().Text(c.t("problem."+name, c.problemArgs(p)...))),
		app.P().Class("small").Text(c.reason(p)+c.t("problem."+name+".hint", c.problemArgs(p)...)),
		app.Div().Class("row").Body(
			named(app.Button(), "problem-action").Type("button").Class("primary").Text(c.t("act."+p.Action.String())).
				OnClick(func(app.Context, app.Event) { c.send(state.Act{Now: c.host.Now()}) }),
			c.putAway(),
		),
		app.Div().Body(details...),
	)
}

// reason says why a backend is not available, before what can be done about it.
func (c *controller) reason(p *state.Problem) string {
	if p.Code != proto.CodeBackend || len(p.Args) < 2 || !slices.Contains(proto.Whys, p.Args[1]) {
		return ""
	}
	return c.t("why."+p.Args[1]) + c.t("sentence.separator")
}

// putAway closes a problem. Without a model nothing but its action would help, so there it stays.
func (c *controller) putAway() app.UI {
	if c.model.Phase == state.Broken {
		return nothing()
	}
	return app.Button().Type("button").Class("ghost").Text(c.t("dismiss")).
		OnClick(func(app.Context, app.Event) { c.send(state.Dismiss{}) })
}

// problemArgs are a problem's numbers under the names that the catalogue uses.
func (c *controller) problemArgs(p *state.Problem) []any {
	value := ""
	if len(p.Args) > 0 {
		value = p.Args[0]
	}
	return []any{
		"asked", p.Arg(0), "room", p.Arg(1), "cap", c.words.Bytes(p.Arg(2)),
		"value", value, "wanted", c.words.Bytes(p.Arg(0)), "free", c.words.Bytes(p.Arg(1)),
	}
}

// nothing keeps a place in a list of children, which go-app matches by their order.
func nothing() app.UI { return app.Div().Hidden(true) }

// opening shows the way to a usable model: which stage, how far.
func (c *controller) opening() app.UI {
	m := c.model
	if m.Phase != state.Opening {
		return nothing()
	}
	return named(app.Div(), "opening").Class("opening").Body(
		app.P().Body(app.Strong().Text(c.t("opening.title", "name", c.modelName(m.Current)))),
		app.P().Class("small").Text(c.stage()),
		app.Div().Class("row").Body(
			c.bar100(),
			named(app.Button(), "opening-stop").Type("button").Class("ghost").Text(c.t("stop")).
				OnClick(func(app.Context, app.Event) { c.send(state.Halt{}) }),
		),
	)
}

// bar100 is the progress of the stage; without a known end it only shows that there is one.
func (c *controller) bar100() app.UI {
	w := c.model.Work
	p := named(app.Progress(), "progress").Aria("label", c.t("progress"))
	if w.Total > 0 {
		return p.Max(1000).Value(int(min(w.Done, w.Total) * 1000 / w.Total))
	}
	return p
}

// stage names what is going on, with numbers; after ten silent seconds it says that, too.
func (c *controller) stage() string {
	m := c.model
	w := m.Work
	args := []any{"done", c.words.Bytes(w.Done), "total", c.words.Bytes(w.Total), "percent", c.words.Percent(share(w.Done, w.Total))}
	key := "stage." + state.StageName(w.Stage)
	if m.Phase == state.Opening && !w.Heard {
		key = "stage.start"
	} else if w.Total > 0 && (w.Stage == proto.StageFetch || w.Stage == proto.StageVerify || w.Stage == proto.StageLoad) {
		key += ".of"
	}
	s := c.t(key, args...)
	if w.Resumed > 0 && w.Stage == proto.StageFetch {
		s += c.t("sentence.separator") + c.t("stage.resumed", "n", c.words.Bytes(w.Resumed))
	}
	if w.Refetched > 0 && w.Stage == proto.StageFetch {
		s += c.t("sentence.separator") + c.t("stage.refetched", "n", w.Refetched)
	}
	if w.Quiet > 0 {
		s += c.t("sentence.separator") + c.t("stage.quiet", "n", int(w.Quiet/1000))
	}
	return s
}

func share(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// modelName is what the page calls a model.
func (c *controller) modelName(manifest string) string {
	o, ok := c.model.Offer(manifest)
	switch {
	case !ok:
		return c.t("model.none")
	case o.BuiltIn:
		return c.t("model.builtin")
	case o.Name == "":
		return o.ID
	}
	return o.Name
}

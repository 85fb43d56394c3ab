package ui

import (
	"slices"
	"strings"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
	"kvlens/wasm/proto"
)

// header holds the name, what runs and where, and the settings of the page itself.
type header struct {
	app.Compo
	C             *controller
	Lang, Theme   string
	Ready, Busy   bool
	Stopped       bool
	Model         string
	Layers, Heads uint32
	Backend       string
	Detail, Why   string
	Offers        []state.Offer
	Current       string
	Storage       state.Storage
}

func (c *controller) header() app.UI {
	m := c.model
	h := &header{
		C: c, Lang: m.Lang, Theme: m.Theme, Ready: m.HasOpened, Busy: m.Running(), Stopped: m.Phase == state.Broken, Model: c.modelName(m.Current),
		Offers: m.Offers, Current: m.Current, Storage: m.Storage,
	}
	if m.HasOpened {
		o := m.Opened
		h.Layers, h.Heads, h.Backend, h.Detail, h.Why = o.Layers, o.Heads, o.Backend, o.BackendDetail, o.BackendWhy
	}
	return h
}

func (h *header) Render() app.UI {
	c := h.C
	return app.Header().Body(
		app.Div().Class("mark").Body(mark(), app.Span().Text(c.t("name"))),
		app.Span().Class("space"),
		h.chip(),
		named(app.Button(), "models-button").Type("button").Class("ghost").Attr("popovertarget", "models").Text(c.t("models.button")),
		h.themeButton(),
		h.langButton(),
		h.why(),
		h.models(),
	)
}

// mark is the sign of the page: three notes under a lens.
func mark() app.UI {
	rect := func(x, class string) app.UI {
		return svg("rect").Class(class).Attr("x", x).Attr("y", "7.4").Attr("width", "2.3").Attr("height", "5.2")
	}
	return svg("svg").Attr("viewBox", "0 0 24 24").Aria("hidden", "true").Body(
		svg("circle").Class("line").Attr("cx", "10").Attr("cy", "10").Attr("r", "7.2").Attr("stroke-width", "2"),
		svg("path").Class("line").Attr("d", "M15.4 15.4 21 21").Attr("stroke-width", "2.4").Attr("stroke-linecap", "round"),
		rect("6", "f-sink"), rect("9", "f-recent"), rect("12", "f-srh"),
	)
}

// chip says which model runs on what; pressed, it explains itself.
func (h *header) chip() app.UI {
	c := h.C
	label := c.t("chip.wait")
	class := "dot wait"
	if h.Stopped {
		label = c.t("chip.stopped")
	}
	if h.Ready {
		label = c.t("chip.backend", "name", c.t("backend."+known(h.Backend)))
		class = "dot"
	}
	return named(app.Button(), "chip").Type("button").Class("chip").Attr("popovertarget", "why").Body(
		app.Span().Class(class).Aria("hidden", "true"),
		app.Span().Class("wide").Text(h.describe()),
		app.Span().Text(label),
	)
}

func (h *header) describe() string {
	c := h.C
	if h.Current == "" {
		return ""
	}
	if !h.Ready {
		return h.Model + c.t("list.separator")
	}
	return c.t("chip.model", "name", h.Model, "layers", h.Layers, "heads", h.Heads) + c.t("list.separator")
}

// known maps the engine's name of a backend to a part of a key.
func known(backend string) string {
	for _, b := range state.Backends {
		if b == backend {
			return b
		}
	}
	return "other"
}

// why explains the backend.
func (h *header) why() app.UI {
	c := h.C
	var body []app.UI
	body = append(body, app.H2().Text(c.t("why.title")))
	if !h.Ready {
		body = append(body, app.P().Text(c.t("why.wait")))
	} else {
		body = append(body, app.P().Text(c.t("why.backend."+known(h.Backend))))
		if slices.Contains(proto.Whys, h.Why) {
			body = append(body, app.P().Text(c.t("why."+h.Why)))
		}
		if h.Detail != "" {
			body = append(body, app.P().Class("small").Body(app.Text(c.t("why.detail")+c.t("word.separator")), app.Code().Text(h.Detail)))
		}
	}
	body = append(body, app.P().Class("small").Text(c.t("why.local")))
	return named(app.Div(), "why").ID("why").Class("pop").Attr("popover", "auto").Body(body...)
}

// models lists what can be opened, how large it is and where it is kept.
func (h *header) models() app.UI {
	c := h.C
	items := make([]app.UI, len(h.Offers))
	for i, o := range h.Offers {
		items[i] = h.offer(o)
	}
	body := []app.UI{
		app.H2().Text(c.t("models.title")),
		app.Ul().Class("offers").Body(items...),
		app.P().Class("small").Text(c.t(h.place())),
	}
	if s := h.Storage; s.Known && s.Quota > 0 {
		body = append(body, named(app.P(), "storage").Class("small").Text(
			c.t("models.space", "used", c.words.Bytes(s.Usage), "quota", c.words.Bytes(s.Quota))))
	}
	return named(app.Div(), "models").ID("models").Class("pop").Attr("popover", "auto").Body(body...)
}

// place says where downloads are kept.
func (h *header) place() string {
	switch {
	case !h.Storage.Known:
		return "models.place"
	case h.Storage.OPFS:
		return "models.opfs"
	}
	return "models.visit"
}

func (h *header) offer(o state.Offer) app.UI {
	c := h.C
	open := o.Manifest == h.Current
	name := c.modelName(o.Manifest)
	var stored string
	switch {
	case o.BuiltIn:
		stored = c.t("models.builtin", "size", c.words.Bytes(o.Size))
	case o.Stored >= o.Size && o.Size > 0:
		stored = c.t("models.kept", "size", c.words.Bytes(o.Size))
	case o.Stored > 0:
		stored = c.t("models.part", "stored", c.words.Bytes(o.Stored), "size", c.words.Bytes(o.Size))
	default:
		stored = c.t("models.away", "size", c.words.Bytes(o.Size))
	}
	var buttons []app.UI
	if open && h.Ready {
		buttons = append(buttons, app.Span().Class("current").Text(c.t("models.open.now")))
	} else {
		key := "models.open"
		if !o.BuiltIn && o.Stored < o.Size {
			key = "models.fetch"
		}
		buttons = append(buttons, disabled(named(app.Button(), "open-"+o.ID).Type("button").Class("primary").Text(c.t(key)).
			Aria("label", c.t(key)+c.t("word.separator")+name).
			OnClick(h.press(func() { c.send(state.Choose{Manifest: o.Manifest}) }), app.EventScope("open", o.Manifest)), h.Busy))
	}
	if !o.BuiltIn && o.Stored > 0 {
		buttons = append(buttons, disabled(named(app.Button(), "delete-"+o.ID).Type("button").Class("ghost").Text(c.t("models.delete")).
			Aria("label", c.t("models.delete")+c.t("word.separator")+name).
			OnClick(func(app.Context, app.Event) { c.send(state.Forget{Manifest: o.Manifest}) }, app.EventScope("delete", o.Manifest)), h.Busy))
	}
	return app.Li().Body(
		app.Div().Body(
			app.Strong().Text(name),
			app.Span().Class("small").Text(stored),
			app.Span().Class("small").Text(c.t("models.licence", "licence", o.Licence)),
			c.planted(o.Manifest),
		),
		app.Div().Class("row").Body(buttons...),
	)
}

// planted says what the built-in model does not have of itself; its card lies beside its manifest.
func (c *controller) planted(manifest string) app.UI {
	o, ok := c.model.Offer(manifest)
	if !ok || !o.BuiltIn {
		return nothing()
	}
	return app.P().Class("small planted").Body(
		app.Text(c.t("model.planted")+c.t("sentence.separator")),
		app.A().Href(strings.TrimSuffix(manifest, ".json")+".md").Target("_blank").Rel("noopener").Text(c.t("model.card")),
	)
}

// press does something and closes the list of models.
func (h *header) press(do func()) app.EventHandler {
	return func(app.Context, app.Event) {
		if el := byID("models"); el.Truthy() {
			el.Call("hidePopover")
		}
		do()
	}
}

// disabled sets the attribute only where it is true: go-app writes a false one into prerendered pages, where it counts.
func disabled(b app.HTMLButton, off bool) app.HTMLButton {
	if off {
		return b.Disabled(true)
	}
	return b
}

// themeButton goes round automatic, light and dark.
func (h *header) themeButton() app.UI {
	c := h.C
	next := map[string]string{"auto": "light", "light": "dark", "dark": "auto"}
	sign := map[string]string{"auto": "◐", "light": "☀︎", "dark": "☾"}
	return named(app.Button(), "theme").Type("button").Class("ghost icon").
		Aria("label", c.t("theme."+h.Theme)).Title(c.t("theme." + h.Theme)).
		Body(app.Span().Aria("hidden", "true").Text(sign[h.Theme])).
		OnClick(func(app.Context, app.Event) { c.send(state.SetTheme{Theme: next[c.model.Theme]}) })
}

func (h *header) langButton() app.UI {
	c := h.C
	other := "zh"
	if h.Lang == "zh" {
		other = "en"
	}
	return named(app.Button(), "lang").Type("button").Class("ghost").Lang(htmlLang(other)).Text(c.t("lang.other")).
		OnClick(func(app.Context, app.Event) {
			to := "zh"
			if c.model.Lang == "zh" {
				to = "en"
			}
			c.send(state.SetLang{Lang: to})
		})
}

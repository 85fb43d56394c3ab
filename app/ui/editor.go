package ui

import (
	"strconv"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
	"kvlens/app/stories"
	"kvlens/wasm/proto"
)

// bar chooses what to read: the kind of prompt, where the model knows several, and a story.
func (c *controller) bar() app.UI {
	m := c.model
	b := &bar{C: c, Lang: m.Lang, Mode: m.Mode, Preset: m.Draft.Preset, Busy: m.Occupied(), Asked: len(m.Turns) > 0}
	if m.HasOpened {
		b.Modes = m.Opened.Modes
	}
	return b
}

type bar struct {
	app.Compo
	C      *controller
	Lang   string
	Mode   proto.PromptMode
	Modes  []uint8
	Preset string
	Busy   bool
	Asked  bool
}

func (b *bar) Render() app.UI {
	c := b.C
	var body []app.UI
	if len(b.Modes) > 1 {
		body = append(body, b.modes())
	}
	if b.Mode == proto.Story {
		body = append(body, b.presets())
	}
	body = append(body, app.Span().Class("space"))
	if b.Asked {
		body = append(body, disabled(named(app.Button(), "again").Type("button").Class("ghost").Text(c.t(b.again())).
			OnClick(func(app.Context, app.Event) { c.send(state.StartOver{}) }), b.Busy))
	}
	return named(app.Div(), "bar").Class("bar").Body(body...)
}

func (b *bar) again() string {
	switch b.Mode {
	case proto.Story:
		return "story.edit"
	case proto.Chat:
		return "chat.again"
	}
	return "raw.again"
}

func (b *bar) modes() app.UI {
	c := b.C
	buttons := make([]app.UI, len(b.Modes))
	for i, v := range b.Modes {
		mode := proto.PromptMode(v)
		pressed := "false"
		if mode == b.Mode {
			pressed = "true"
		}
		buttons[i] = disabled(named(app.Button(), "mode-"+state.ModeName(mode)).Type("button").
			Attr("aria-pressed", pressed).Text(c.t("mode."+state.ModeName(mode))).
			OnClick(func(app.Context, app.Event) { c.send(state.SetMode{Mode: mode}) }, app.EventScope("mode", i)), b.Busy)
	}
	return app.Div().Class("modes").Role("group").Aria("label", c.t("mode.label")).Body(buttons...)
}

func (b *bar) presets() app.UI {
	c := b.C
	var options []app.UI
	if b.Preset == "" {
		options = append(options, app.Option().Value("own").Selected(true).Text(c.t("preset.own")))
	}
	for _, s := range stories.All(b.Lang) {
		o := app.Option().Value(s.ID).Text(c.t("preset." + s.ID))
		if s.ID == b.Preset {
			o = o.Selected(true)
		}
		options = append(options, o)
	}
	s := named(app.Select(), "preset").ID("preset").Body(options...).OnChange(func(ctx app.Context, _ app.Event) {
		if s, ok := stories.Find(c.model.Lang, ctx.JSSrc().Get("value").String()); ok {
			c.send(state.Preset{Draft: draft(s)})
		}
	})
	if b.Busy {
		s = s.Disabled(true)
	}
	return app.Label().Class("field").For("preset").Body(app.Span().Text(c.t("preset.label")), s)
}

// editor is the text to read, as long as nothing has been asked about it.
func (c *controller) editor() app.UI {
	m := c.model
	if len(m.Turns) > 0 {
		return nothing()
	}
	if m.Mode == proto.Story {
		return &storyEditor{C: c, Lang: m.Lang, Text: m.Draft.Story}
	}
	return &examples{C: c, Lang: m.Lang, Mode: m.Mode, Name: c.modelName(m.Current), Off: m.Phase != state.Idle}
}

// storyEditor holds the story as editable text that already looks the way it will be read.
type storyEditor struct {
	app.Compo
	C          *controller
	Lang, Text string
}

func (s *storyEditor) Render() app.UI {
	c := s.C
	return app.Section().Class("story").Body(
		app.Div().Class("head").Body(
			app.Label().For("story").Class("h").Text(c.t("story.title")),
			app.Span().Class("small").ID("story-hint").Text(c.t("story.hint")),
		),
		named(app.Textarea(), "story").ID("story").Class("paper").Lang(htmlLang(state.LangOf(s.Text))).
			Aria("describedby", "story-hint").Spellcheck(false).Rows(rows(s.Text)).
			Body(app.Text(s.Text)).Attr("value", s.Text). // the text is for the prerendered page, the value for the living one
			OnInput(func(ctx app.Context, _ app.Event) {
				c.send(state.Edit{Field: state.Story, Text: ctx.JSSrc().Get("value").String()})
			}),
	)
}

// rows is a height for browsers that cannot fit a text area to its text.
func rows(text string) int {
	n := 0
	for _, r := range text {
		n++
		if r > 0x2e80 { // wide characters
			n++
		}
	}
	return max(3, min(14, n/60+1))
}

// examples are questions to start with where there is no story.
type examples struct {
	app.Compo
	C          *controller
	Lang, Name string
	Mode       proto.PromptMode
	Off        bool
}

// Examples is how many questions the catalogue has for a chat, and how many beginnings for raw text.
const Examples = 4

func (x *examples) Render() app.UI {
	c := x.C
	kind, field := "chat", state.Message
	if x.Mode == proto.Raw {
		kind, field = "raw", state.RawText
	}
	items := make([]app.UI, Examples)
	for i := range items {
		text := c.t("example." + kind + "." + strconv.Itoa(i+1))
		items[i] = app.Li().Body(disabled(named(app.Button(), "example-"+strconv.Itoa(i+1)).Type("button").Class("example").Lang(htmlLang(state.LangOf(text))).Text(text).
			OnClick(func(app.Context, app.Event) {
				c.reduce(state.Edit{Field: field, Text: text})
				c.send(state.Run{Now: c.host.Now()})
			}, app.EventScope(kind, i, text)), x.Off))
	}
	return app.Section().Class("empty").Body(
		app.H2().Text(c.t("empty."+kind, "name", x.Name)),
		app.P().Text(c.t("empty."+kind+".hint")),
		app.Ul().Body(items...),
	)
}

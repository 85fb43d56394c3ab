package ui

import (
	"strconv"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/wasm/proto"
)

// guide says what there is to see, in a few words and three things to try.
type guide struct {
	app.Compo
	C    *controller
	Lang string
	Mode proto.PromptMode
}

func (g *guide) Render() app.UI {
	c := g.C
	what, kind := "guide.what", ""
	if g.Mode != proto.Story {
		what, kind = "guide.what.chat", ".chat"
	}
	tries := make([]app.UI, 3)
	for i := range tries {
		tries[i] = app.Li().Text(c.t("guide.try." + strconv.Itoa(i+1) + kind))
	}
	return named(app.Aside(), "guide").Class("guide").Aria("label", c.t("guide.label")).Body(
		app.H1().Text(c.t("guide.title")),
		app.P().Text(c.t(what)),
		app.P().Text(c.t("guide.notes")),
		app.H2().Text(c.t("guide.try")),
		app.Ol().Body(tries...),
		app.P().Class("small").Text(c.t("guide.local")),
	)
}

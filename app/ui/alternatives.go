package ui

import (
	"strconv"

	"github.com/maxence-charriere/go-app/v10/pkg/app"
)

// alternatives lays out what else could have been said: a column for every token of a short answer, with its five
// candidates from the most probable down.
func (t *turn) alternatives() app.UI {
	m, ok := t.C.turn(t.Serial)
	if !t.Open || !ok {
		return nothing()
	}
	c := t.C
	const ranks = 5
	var heads []app.UI
	rows := make([][]app.UI, ranks)
	for i, tok := range m.Answer {
		if len(tok.Top) == 0 {
			continue
		}
		heads = append(heads, app.Th().Scope("col").Text(c.t("alternatives.token", "n", i+1)))
		for r := range rows {
			cell := app.Td()
			if r < len(tok.Top) {
				x := tok.Top[r]
				class := "p" + strconv.Itoa(weight(x.Prob))
				if x.ID == tok.ID {
					class += " chosen"
				}
				cell = cell.Class(class).Body(
					app.Span().Class("word").Text(visible(x.Text)),
					app.Span().Class("num").Text(c.words.Percent(float64(x.Prob))),
				)
			}
			rows[r] = append(rows[r], cell)
		}
	}
	if len(heads) == 0 {
		return nothing()
	}
	body := make([]app.UI, ranks)
	for r := range rows {
		body[r] = app.Tr().Body(rows[r]...)
	}
	title := c.t("alternatives.title")
	// The title stands outside of what scrolls, so that a narrow page shows all of it.
	return app.Details().Class("what-else fold").Body(
		app.Summary().Text(title),
		named(app.Div(), "alternatives").Class("alternatives").TabIndex(0).Role("region").Aria("label", title).Body(
			app.Table().Aria("label", title).Body(
				app.THead().Body(app.Tr().Body(heads...)),
				app.TBody().Body(body...),
			),
		),
	)
}

// weight sorts a probability into four steps of ink.
func weight(p float32) int {
	switch {
	case p >= 0.5:
		return 3
	case p >= 0.1:
		return 2
	case p >= 0.01:
		return 1
	}
	return 0
}

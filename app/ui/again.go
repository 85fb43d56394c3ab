package ui

import (
	"slices"
	"strconv"
	"strings"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
)

// stepping goes on token by token and back again.
type stepping struct {
	Ready   bool
	Resumes bool // the answer can go on
	Step    bool // there is something to go on with, or to begin
	Back    int  // a token back; −1: there is none
	Undo    int  // before the latest event; −1: there is none
	Compare bool // the comparison is open
}

func (c *controller) stepping() stepping {
	m := c.model
	s := stepping{Ready: m.Phase == state.Idle, Resumes: m.Resumes(), Back: -1, Undo: -1, Compare: m.Compare.Open}
	t, live := m.Live()
	s.Step = s.Resumes || strings.TrimSpace(m.Draft.Question+m.Draft.Message+m.Draft.Raw) != ""
	if n := len(t.Answer); live && n > 0 && t.Ended && !t.Lost {
		s.Back = int(t.Answer[n-1].Position)
	}
	for _, l := range slices.Backward(m.Left) {
		if l.Back >= 0 {
			s.Undo = l.Back
			break
		}
	}
	return s
}

// row is the buttons of stepping.
func (s stepping) row(c *controller) app.UI {
	button := func(id, key string, there bool, do func()) app.UI {
		return disabled(named(app.Button(), id).ID(id).Type("button").Class("ghost").Text(c.t(key)).
			OnClick(func(app.Context, app.Event) { do() }, app.EventScope(id, s.Back, s.Undo, s.Resumes, s.Compare)), !there || !s.Ready)
	}
	open := strconv.FormatBool(s.Compare)
	return named(app.Div(), "steps").Class("row steps").Role("group").Aria("label", c.t("again.title")).Body(
		button("step-back", "again.back", s.Back >= 0, func() { c.send(state.GoBack{Tokens: s.Back}) }),
		button("step", "again.step", s.Step, func() {
			if s.Resumes {
				c.send(state.Resume{Once: true, Now: c.host.Now()})
				return
			}
			c.send(state.Run{Once: true, Now: c.host.Now()})
		}),
		button("continue", "again.continue", s.Resumes, func() { c.send(state.Resume{Now: c.host.Now()}) }),
		button("undo", "again.undo", s.Undo >= 0, func() { c.send(state.GoBack{Tokens: s.Undo}) }),
		named(app.Button(), "compare-open").ID("compare-open").Type("button").Class("ghost").Attr("aria-expanded", open).Text(c.t("compare.open")).
			OnClick(func(app.Context, app.Event) {
				c.send(state.OpenCompare{Open: !s.Compare})
				if !s.Compare {
					c.reveal("compare")
				}
			}, app.EventScope(open)),
	)
}

// again lists what left the cache when, and what is recorded.
type again struct {
	app.Compo
	C       *controller
	Lang    string
	Ready   bool
	Events  []departure
	More    int // events that are not listed
	Notes   int
	Records state.Records
}

// departure is one event in words.
type departure struct {
	When, What, Words string
	Back              int
}

// mostEvents is how many events are listed, the latest first.
const mostEvents = 10

// steps lists what left, with a way back to before each event. In the centre, right below the answer.
func (c *controller) steps() app.UI {
	m := c.model
	if !m.HasOpened {
		return nothing()
	}
	a := &again{C: c, Lang: m.Lang, Ready: m.Phase == state.Idle, Records: m.Records}
	for i, l := range slices.Backward(m.Left) {
		a.Notes += l.Notes
		if len(m.Left)-i <= mostEvents {
			a.Events = append(a.Events, c.departure(l))
		} else {
			a.More++
		}
	}
	return a
}

// departure words an event.
func (c *controller) departure(l state.Leaving) departure {
	d := departure{Back: l.Back, What: c.t("left.what", "tokens", l.Of, "notes", l.Notes, "lists", l.Lists)}
	if l.Kind == state.LeftChange {
		d.When = c.t("left.change")
	} else {
		d.When = c.when(l.Tokens)
	}
	words := make([]string, len(l.Words))
	for i, p := range l.Words {
		words[i] = strings.TrimSpace(c.word(p))
	}
	if d.Words = strings.Join(words, c.t("list.separator")); l.Of > len(l.Words) {
		d.Words += " …"
	}
	return d
}

// when says at what point a conversation had so many tokens.
func (c *controller) when(tokens int) string {
	turns := c.model.Turns
	for i, t := range slices.Backward(turns) {
		if tokens <= int(t.First) && i > 0 {
			continue
		}
		k := tokens - promptEnd(t)
		switch {
		case k <= 0 && len(turns) == 1:
			return c.t("when.prompt")
		case k <= 0:
			return c.t("when.prompt.n", "turn", i+1)
		case len(turns) == 1:
			return c.t("when.answer", "n", k)
		}
		return c.t("when.answer.n", "n", k, "turn", i+1)
	}
	return ""
}

// reading is how many tokens of a prompt had been read at a time in its middle; 0 at any other time.
func (c *controller) reading(tokens int) int {
	for _, t := range c.model.Turns {
		if first := int(t.First); tokens > first && tokens < promptEnd(t) {
			return tokens - first
		}
	}
	return 0
}

func promptEnd(t state.Turn) int { return int(t.First) + promptTokens(t) }

// word is the text of the token at a position.
func (c *controller) word(p int) string {
	for _, t := range c.model.Turns {
		for _, x := range t.Pieces {
			if p >= int(x.At) && p < int(x.At)+len(x.IDs) {
				return x.Text
			}
		}
		for _, x := range t.Answer {
			if p == int(x.Position) {
				return x.Text
			}
		}
	}
	return ""
}

func (a *again) Render() app.UI {
	return named(app.Section(), "log").Class("again").Aria("label", a.C.t("again.title")).Body(a.events(), a.recorded())
}

// events lists what left, the latest first.
func (a *again) events() app.UI {
	c := a.C
	if len(a.Events) == 0 {
		return nothing()
	}
	items := make([]app.UI, len(a.Events))
	for i, d := range a.Events {
		undo := nothing()
		if d.Back >= 0 {
			undo = disabled(named(app.Button(), "undo-"+strconv.Itoa(i)).Type("button").Class("link").Aria("label", c.t("left.undo", "when", d.When)).
				Text(c.t("again.undo.one")).
				OnClick(func(app.Context, app.Event) { c.send(state.GoBack{Tokens: d.Back}) }, app.EventScope("undo", d.Back)), !a.Ready)
		}
		items[i] = app.Li().Body(
			app.Span().Class("when").Text(d.When),
			app.Span().Class("words").Text(d.Words),
			app.Span().Class("small").Text(d.What),
			undo,
		)
	}
	more := ""
	if a.More > 0 {
		more = c.t("left.more", "n", a.More)
	}
	return named(app.Details(), "left").Class("fold left").Body(
		app.Summary().Body(app.Span().Text(c.t("left.title", "n", len(a.Events)+a.More, "notes", a.Notes))),
		app.Ul().Class("events").Body(items...),
		app.P().Class("small").Text(more),
	)
}

// recorded is what the session keeps for later.
func (a *again) recorded() app.UI {
	c := a.C
	check := func(id string, on bool, set func(*state.Records, bool)) app.UI {
		return app.Div().Class("check").Body(
			tick("record-"+id, c.t("record."+id), on, !a.Ready, func(on bool) {
				r := c.model.Records
				set(&r, on)
				c.send(state.SetRecord{Records: r})
			}),
			app.Span().ID("record-"+id+"-hint").Class("small").Text(c.t("record."+id+".hint")),
		)
	}
	return named(app.Details(), "records").Class("fold").Body(
		app.Summary().Body(app.Span().Text(c.t("record.title"))),
		check("explain", a.Records.Explain, func(r *state.Records, on bool) { r.Explain = on }),
		check("shadow", a.Records.Shadow, func(r *state.Records, on bool) { r.Shadow = on }),
		check("undo", a.Records.Undo, func(r *state.Records, on bool) { r.Undo = on }),
	)
}

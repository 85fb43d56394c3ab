package ui

import (
	"strconv"
	"strings"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
	"kvlens/wasm/proto"
)

// keeps are the reasons for which tokens stay, by number: their part of catalogue keys, sign, and colour.
var keeps = [...]struct{ name, sign, colour string }{
	proto.KeptAll:    {"all", "●", "b-recent"},
	proto.KeptSink:   {"sink", "⚓", "b-sink"},
	proto.KeptRecent: {"recent", "◷", "b-recent"},
	proto.KeptScore:  {"score", "★", "b-score"},
	proto.KeptVote:   {"vote", "◆", "b-srh"},
	proto.KeptChunk:  {"chunk", "▤", "b-score"},
	proto.KeptMask:   {"mask", "◼", "b-srh"},
	proto.KeptChance: {"chance", "⚄", "b-score"},
	proto.KeptPin:    {"pin", "⚲", "b-ink"},
}

// Signs and letters of what is not kept.
const (
	goneSign   = "✕"
	goneLetter = "x" // of data-k: left every list of the scope
	noLetter   = "-" // not stored, or nothing ever leaves
)

// levels is in how many steps the share of lists is shown.
const levels = 8

// fate is two letters for some tokens: why they are kept, and in how many eighths of the scope's places.
func fate(columns state.Columns, at, n int) string {
	held, of, why := columns.Fate(at, n)
	switch {
	case of == 0:
		return noLetter + "0"
	case held == 0:
		return goneLetter + "0"
	}
	return string(rune('a'+why)) + strconv.Itoa(max(1, held*levels/of))
}

// columns are what became of every token in the scope on the page; of none where nothing ever leaves.
func (c *controller) columns() state.Columns {
	if c.model.Kept.All {
		return state.Columns{}
	}
	return c.model.Kept.Columns(c.model.Scope)
}

// marks shows on a turn's texts what is kept, in one call a text, and only if it has changed.
func (t *turn) marks(m state.Turn, columns state.Columns) {
	var b strings.Builder
	for _, i := range t.shownPieces {
		b.WriteString(fate(columns, int(m.Pieces[i].At), len(m.Pieces[i].IDs)))
	}
	putMarks(t.prompt, b.String(), &t.promptMarks)
	b.Reset()
	for _, i := range t.shownTokens {
		b.WriteString(fate(columns, int(m.Answer[i].Position), 1))
	}
	putMarks(t.answer, b.String(), &t.answerMarks)
}

func putMarks(el app.Value, marks string, last *string) { put("kvlensMarks", el, marks, last) }

func put(function string, el app.Value, marks string, last *string) {
	if marks == *last || !el.Truthy() {
		return
	}
	*last = marks
	app.Window().Call(function, el, marks)
}

// look shows on a turn's texts by how much a head's row looks at each token, from 0 to 6.
func (t *turn) look(m state.Turn, digit func(at, n int) byte) {
	b := make([]byte, 0, len(t.shownPieces))
	for _, i := range t.shownPieces {
		b = append(b, digit(int(m.Pieces[i].At), len(m.Pieces[i].IDs)))
	}
	put("kvlensLooks", t.prompt, string(b), &t.promptLooks)
	b = b[:0]
	for _, i := range t.shownTokens {
		b = append(b, digit(int(m.Answer[i].Position), 1))
	}
	put("kvlensLooks", t.answer, string(b), &t.answerLooks)
}

// story is the line above the texts: whose tokens are shown, and what their marks mean.
type story struct {
	app.Compo
	C      *controller
	Lang   string
	Scope  state.Scope
	Layers int
	Heads  int
	Says   string
	Whys   []proto.Keeps
	Gone   bool
}

func (c *controller) story() app.UI {
	m := c.model
	if len(m.Turns) == 0 || m.Kept.Layers == 0 || m.Kept.All {
		return nothing()
	}
	s := &story{C: c, Lang: m.Lang, Scope: m.Scope, Layers: m.Kept.Layers, Heads: m.Kept.Heads, Says: c.scopeText()}
	s.Whys, s.Gone = m.Kept.Columns(m.Scope).Whys()
	return s
}

// scopeText says what is shown and how much of it is kept.
func (c *controller) scopeText() string {
	k, s := c.model.Kept, c.model.Scope
	held, of := k.Count(s)
	args := []any{"layer", s.Layer + 1, "head", s.Head + 1, "held", held, "of", of, "percent", c.words.Percent(share(uint64(held), uint64(of))), "n", k.Tokens}
	switch {
	case s.Layer < 0:
		return c.t("kept.all", args...)
	case s.Head < 0:
		return c.t("kept.layer", args...)
	}
	return c.t("kept.head", args...)
}

func (s *story) Render() app.UI {
	c := s.C
	return named(app.Section(), "kept").ID("kept").Class("kept").Aria("label", c.t("kept.title")).Body(
		app.Div().Class("head").Body(
			app.Span().Class("h").Text(c.t("kept.title")),
			s.choose("scope-layer", "kept.layers", "kept.layer.n", s.Layers, s.Scope.Layer, func(i int) state.Scope { return state.Scope{Layer: i, Head: s.Scope.Head} }, false),
			s.choose("scope-head", "kept.heads", "kept.head.n", s.Heads, s.Scope.Head, func(i int) state.Scope { return state.Scope{Layer: s.Scope.Layer, Head: i} }, s.Scope.Layer < 0),
			named(app.Span(), "scope-text").Class("small").Text(s.Says),
		),
		s.legend(),
	)
}

// choose picks a layer or a head, or all.
func (s *story) choose(id, all, one string, n, at int, scope func(int) state.Scope, off bool) app.UI {
	c := s.C
	if off {
		at = -1
	}
	options := make([]app.UI, n+1)
	for i := range options {
		text := c.t(all)
		if i > 0 {
			text = c.t(one, "n", i)
		}
		o := app.Option().Value(strconv.Itoa(i - 1)).Text(text)
		if i-1 == at {
			o = o.Selected(true)
		}
		options[i] = o
	}
	x := named(app.Select(), id).ID(id).Aria("label", c.t(id)).Body(options...).OnChange(func(ctx app.Context, _ app.Event) {
		if i, err := strconv.Atoi(ctx.JSSrc().Get("value").String()); err == nil {
			c.send(state.SetScope{Scope: scope(i)})
			c.paint(false)
		}
	})
	if off {
		x = x.Disabled(true)
	}
	return x
}

// legend explains the marks that occur.
func (s *story) legend() app.UI {
	c := s.C
	var items []app.UI
	for _, w := range s.Whys {
		k := keeps[w]
		items = append(items, app.Li().Body(
			app.Span().Class("stroke "+k.colour).Aria("hidden", "true"),
			app.Text(k.sign+" "+c.t("keeps."+k.name)),
		))
	}
	if s.Gone {
		items = append(items, app.Li().Body(app.Span().Class("stroke gone").Aria("hidden", "true"), app.Text(goneSign+" "+c.t("keeps.gone"))))
	}
	whole := len(s.Whys) == 1 && s.Whys[0] == proto.KeptAll && !s.Gone // then all lines are alike
	if !whole && (s.Scope.Layer < 0 || s.Scope.Head < 0) {
		items = append(items, app.Li().Text(c.t("kept.bar")))
	}
	return named(app.Ul(), "legend").Class("legend").Body(items...)
}

// keptCard says in a token's card where the token still is.
func (k *card) kept(at, n int) []any {
	c := k.c
	m := c.model.Kept
	if m.All || m.Layers == 0 {
		return nil
	}
	held, of, why := m.Columns(state.Everywhere).Fate(at, n)
	if of == 0 {
		return []any{written("small", "", c.t("kept.card.not"))}
	}
	text := c.t("kept.card.gone", "of", of/n)
	if held > 0 {
		key := "kept.card"
		if n > 1 { // a character of several tokens has as many notes in each head
			key = "kept.card.notes"
		}
		text = keeps[why].sign + " " + c.t(key, "held", held, "of", of, "why", c.t("keeps."+keeps[why].name))
	}
	return []any{written("small", "fate", text)}
}

package ui

import (
	"math"
	"strconv"
	"strings"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
	"kvlens/cache/policy"
	"kvlens/wasm/proto"
)

// why is the card of the token that the reader asks about: whether a list holds it, which stage said so and when, by what
// score, and who voted for it.
type why struct {
	app.Compo
	C                   *controller
	Lang                string
	Text, Facts         string
	TextLang            string
	Kept                string   // in how many lists
	Lists               []string // names of the lists in scope, with their signs
	Places              []state.Place
	Layers, Heads       int
	List, First         int // which of them it is about; the first of the scope
	Verdict             string
	Sign                string
	Gone                bool
	Rows                []fact
	Said                string // about scores that are not there
	Pinned, Recalls     bool
	Stored              bool // it has a place in the cache
	At, N, Recall, Undo int
	Top                 []state.Candidate
	Chosen              uint32
	Ready               bool
}

// fact is a name and a value.
type fact struct{ Name, Value string }

// why says why a token stays or left. In the inspector.
func (c *controller) why() app.UI {
	m := c.model
	w := m.Why
	if !w.On {
		return nothing()
	}
	x := &why{
		C: c, Lang: m.Lang, At: w.At, N: w.N, Ready: m.Phase == state.Idle, Pinned: m.Kept.Pinned(w.At, w.N), Undo: -1, Recall: -1,
		Layers: m.Kept.Layers, Heads: m.Kept.Heads, Stored: w.At+w.N <= m.Kept.Tokens,
	}
	x.token(m)
	if m.Kept.Layers > 0 {
		x.places(m)
	}
	return x
}

// whyNews is the card in a sentence, for those who listen.
func (c *controller) whyNews() string {
	x, ok := c.why().(*why)
	if !ok {
		return ""
	}
	verdict := x.Verdict
	for _, r := range x.Rows {
		if r.Name == c.t("reason.rank") {
			verdict += c.t("sentence.separator") + r.Name + c.t("word.separator") + r.Value
		}
	}
	return c.t("say.why", "token", strings.TrimSpace(x.Text), "kept", x.Kept, "verdict", verdict)
}

// token says which token it is.
func (x *why) token(m state.Model) {
	c, w := x.C, m.Why
	facts := []string{c.t("card.position", "n", w.At+1)}
	t, _ := c.turn(w.Serial)
	if w.Answer {
		tok := t.Answer[w.Index]
		x.Text, x.Top, x.Chosen = tok.Text, tok.Top, tok.ID
		facts = append(facts, c.t("card.id", "id", strconv.Itoa(int(tok.ID))))
	} else {
		x.Text = t.Pieces[w.Index].Text
		if w.N > 1 {
			facts = append(facts, c.t("card.merged", "n", w.N))
		}
	}
	x.TextLang = htmlLang(state.LangOf(t.Asked))
	x.Facts = strings.Join(facts, c.t("list.separator"))
}

// places says in which lists it is, and what is known about it in one of them.
func (x *why) places(m state.Model) {
	c, w := x.C, m.Why
	held, of, _ := m.Kept.Columns(state.Everywhere).Fate(w.At, w.N) // as the map below shows all lists
	switch {
	case of == 0:
		x.Kept = c.t("kept.card.not")
	case m.Kept.All:
		x.Kept = c.t("reason.all")
	case held == 0:
		x.Kept = c.t("reason.kept.none", "of", of/w.N)
	case w.N > 1: // a character of several tokens has as many notes in each head
		x.Kept = c.t("reason.kept.notes", "held", held, "of", of)
	default:
		x.Kept = c.t("reason.kept", "held", held, "of", of)
	}
	if of == 0 || m.Kept.All {
		return
	}
	x.Places, x.First = m.Places(w.At, w.N)
	x.List = m.WhyList()
	for i, p := range x.Places {
		if i < x.First || i >= x.First+m.InScope() {
			continue
		}
		sign := goneSign
		if p.Held > 0 {
			sign = keeps[p.Why].sign
		}
		x.Lists = append(x.Lists, sign+" "+c.t("reason.list", "layer", i/m.Kept.Heads+1, "head", i%m.Kept.Heads+1))
	}
	if x.List < len(x.Places) {
		x.judge(m)
	}
}

// judge words the verdict about one list. Of several tokens that make a character it is the first that has left it.
func (x *why) judge(m state.Model) {
	c, w := x.C, m.Why
	p := w.At
	for q := w.At; q < w.At+w.N; q++ {
		if !m.Kept.Has(x.List, q) {
			p = q
			break
		}
		if m.Kept.InShadow(q) {
			x.Recall = q
		}
	}
	v := m.Verdict(x.List, p)
	place := x.Places[x.List]
	x.Gone = !v.Kept
	if x.Sign = goneSign; v.Kept {
		x.Sign = keeps[place.Why].sign
	}
	for q := w.At; q < w.At+w.N; q++ {
		if m.Kept.InShadow(q) {
			x.Recall = q
		}
	}
	x.Verdict = c.verdict(v, place.Why)
	switch {
	case !m.Records.Explain:
		x.Said = c.t("reason.unrecorded")
	case m.Why.Failed == proto.CodeNoRecord:
		x.Said = c.t("reason.norecord")
	case m.Why.Failed != 0:
		x.Said = c.t("reason.failed")
	case !v.Known && m.Phase != state.Idle:
		x.Said = c.t("reason.later")
	case !v.Known:
		x.Said = c.t("reason.asking")
	}
	add := func(key, value string) { x.Rows = append(x.Rows, fact{c.t("reason." + key), value}) }
	if !v.Known {
		if x.Gone {
			rule := c.t("policy." + c.recipe(m))
			if l, ok := m.LeftWith(p); ok {
				x.Undo = l.Back
				when := c.when(l.Tokens)
				if l.Kind == state.LeftChange {
					when = c.t("left.change")
				}
				rule = when + c.t("list.separator") + rule
			}
			add("when", rule)
		}
		return
	}
	when := c.when(v.At)
	if n := c.reading(v.At); n > 0 && v.Stage == proto.DecidedRule {
		when = c.t("when.reading", "n", n)
	}
	add("when", when+c.t("list.separator")+c.t("policy."+c.recipe(m)))
	if v.Rank > 0 {
		add("rank", c.t("reason.rank.of", "rank", v.Rank, "of", v.Of))
	}
	if !math.IsNaN(v.Score) {
		add("score", c.scientific(v.Score))
	}
	if !math.IsNaN(v.Threshold) {
		add("threshold", c.scientific(v.Threshold))
	}
	if len(v.Voters) > 0 && (v.Rank > 0 || v.Voted()) {
		add("votes", c.votes(m, x.List, v.Voters))
	}
	if x.Gone {
		for _, l := range m.Left {
			if l.Tokens == v.At && l.Back >= 0 {
				x.Undo = l.Back
			}
		}
	}
}

// recipe is the method that the cache is under; of an engine that says none of ours it is the page's.
func (c *controller) recipe(m state.Model) string {
	if policy.Find(m.Kept.Recipe) == nil {
		return m.Policy.Recipe.Method
	}
	return m.Kept.Recipe
}

// decisions are the names of proto.Decision in the catalogue.
var decisions = [...]string{"room", "new", "sink", "recent", "pin", "mask", "score", "place", "cascade", "rule", "caprule", "cap", "recall"}

// verdict is a sentence: kept or evicted, and by what.
func (c *controller) verdict(v state.Verdict, why proto.Keeps) string {
	stage := ""
	if v.Known && int(v.Stage) < len(decisions) {
		if stage = decisions[v.Stage]; v.Stage == proto.DecidedRule && c.reading(v.At) > 0 {
			stage += ".reading"
		}
	}
	switch {
	case v.Kept && stage != "":
		return c.t("verdict.kept." + stage)
	case v.Kept:
		return c.t("verdict.kept", "why", c.t("keeps."+keeps[why].name))
	case stage != "" && v.Stage >= proto.DecidedScore:
		return c.t("verdict.left." + stage)
	}
	return c.t("verdict.left")
}

// votes says which query heads have a token among their best, with what is known of the heads.
func (c *controller) votes(m state.Model, list int, voters []state.Voter) string {
	habits := m.Habits()
	n := 0
	names := make([]string, len(voters))
	for i, v := range voters {
		sign := "–"
		if v.Voted {
			sign = "✓"
			n++
		}
		names[i] = sign + "\u00a0h" + strconv.Itoa(v.Head+1)
		if at := list/max(1, m.Kept.Heads)*int(m.Opened.Heads) + v.Head; at < len(habits) {
			names[i] += "\u00a0" + letters[habits[at]].letter
		}
	}
	return c.t("reason.votes.of", "n", n, "of", len(voters), "list", strings.Join(names, c.t("list.separator")))
}

func (x *why) Render() app.UI {
	c := x.C
	return named(app.Section(), "reason").ID("reason").Class("why").TabIndex(-1).Aria("label", c.t("reason.title")).
		OnKeyDown(func(ctx app.Context, e app.Event) {
			ctx.PreventUpdate()
			if e.Get("key").String() == "Escape" {
				c.unask()
			}
		}).Body(
		app.Div().Class("row").Body(
			app.H2().Text(c.t("reason.title")),
			named(app.Span(), "why-token").Class("card-token").Lang(x.TextLang).Text(visible(x.Text)),
			app.Span().Class("small").Text(x.Facts),
			app.Span().Class("space"),
			named(app.Button(), "why-close").Type("button").Class("ghost icon").Aria("label", c.t("reason.close")).Text("✕").
				OnClick(func(app.Context, app.Event) { c.unask() }),
		),
		named(app.P(), "why-kept").Class("small").Text(x.Kept),
		x.map_(),
		x.choose(),
		x.answer(),
		x.deeds(),
		x.top(),
	)
}

// choose picks the list that the answer is about.
func (x *why) choose() app.UI {
	c := x.C
	if len(x.Lists) < 2 {
		return nothing()
	}
	options := make([]app.UI, len(x.Lists))
	for i, name := range x.Lists {
		o := app.Option().Value(strconv.Itoa(x.First + i)).Text(name)
		if x.First+i == x.List {
			o = o.Selected(true)
		}
		options[i] = o
	}
	return app.Label().Class("field").For("why-list").Body(app.Span().Text(c.t("reason.list.label")),
		named(app.Select(), "why-list").ID("why-list").Body(options...).OnChange(func(ctx app.Context, _ app.Event) {
			if i, err := strconv.Atoi(ctx.JSSrc().Get("value").String()); err == nil {
				c.send(state.SelectList{List: i})
			}
		}))
}

// answer is the verdict and the numbers behind it.
func (x *why) answer() app.UI {
	if x.Verdict == "" {
		return nothing()
	}
	class := "verdict"
	if x.Gone {
		class += " gone"
	}
	body := []app.UI{named(app.P(), "why-verdict").Class(class).Body(
		app.Span().Class("sign").Aria("hidden", "true").Text(x.Sign), app.Span().Text(x.Verdict),
	)}
	if len(x.Rows) > 0 {
		var rows []app.UI
		for _, r := range x.Rows {
			rows = append(rows, app.Dt().Text(r.Name), app.Dd().Text(r.Value))
		}
		body = append(body, named(app.Dl(), "why-facts").Class("facts").Body(rows...))
	}
	if x.Said != "" {
		body = append(body, named(app.P(), "why-said").Class("small").Text(x.Said))
	}
	return app.Div().Body(body...)
}

// deeds are what can be done about the token.
func (x *why) deeds() app.UI {
	c := x.C
	if !x.Stored {
		return nothing()
	}
	pin := "reason.pin"
	if x.Pinned {
		pin = "reason.unpin"
	}
	button := func(id, key string, there bool, do func()) app.UI {
		if !there {
			return nothing()
		}
		return disabled(named(app.Button(), id).Type("button").Class("ghost").Text(c.t(key)).
			OnClick(func(app.Context, app.Event) { do() }, app.EventScope(key, x.At, x.N, x.Undo, x.Recall)), !x.Ready)
	}
	said := ""
	if x.Pinned {
		said = c.t("reason.pinned")
	}
	return app.Div().Body(
		app.Div().Class("row").Body(
			button("pin", pin, true, func() { c.send(state.SetPin{At: x.At, N: x.N, On: !x.Pinned}) }),
			button("pin-again", "reason.again", x.Gone && !x.Pinned, func() { c.send(state.SetPin{At: x.At, N: x.N, On: true, Again: true}) }),
			button("recall", "reason.recall", x.Recall >= 0, func() { c.send(state.CallBack{Position: x.Recall}) }),
			button("why-undo", "reason.undo", x.Undo >= 0, func() { c.send(state.GoBack{Tokens: x.Undo}) }),
		),
		named(app.P(), "why-pinned").Class("small").Text(said),
	)
}

// top is what else could have been said.
func (x *why) top() app.UI {
	c := x.C
	if len(x.Top) == 0 {
		return nothing()
	}
	rows := make([]app.UI, len(x.Top))
	for i, t := range x.Top {
		class, mark := "", ""
		if t.ID == x.Chosen {
			class, mark = "chosen", c.t("card.chosen")
		}
		rows[i] = app.Tr().Class(class).Body(
			app.Th().Scope("row").Text(visible(t.Text)),
			app.Td().Class("num").Text(c.words.Percent(float64(t.Prob))),
			app.Td().Class("mark").Text(mark),
		)
	}
	return named(app.Table(), "why-top").Class("top5").Body(app.Caption().Text(c.t("card.top")), app.TBody().Body(rows...))
}

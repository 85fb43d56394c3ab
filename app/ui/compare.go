package ui

import (
	"math"
	"strconv"
	"strings"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
	"kvlens/cache/policy"
)

// compare sets two policies beside the full cache, token by token.
type compare struct {
	app.Compo
	C       *controller
	Lang    string
	M       state.Compare
	Page    state.Policy // of the page, which A follows
	Scope   state.Scope
	Ready   bool
	Running bool
	Tables  bool
	Tokens  int // counted: what has come says whether to draw again
	Free    [2]int
}

// compare sets two policies beside each other. In the centre, below the heads; the composer follows.
func (c *controller) compare() app.UI {
	m := c.model
	if !m.Compare.Open {
		return nothing()
	}
	return &compare{
		C: c, Lang: m.Lang, M: m.Compare, Page: m.Policy, Scope: m.Scope, Ready: m.Phase == state.Idle, Running: m.Phase == state.Comparing,
		Tables: !m.HasOpened || m.Opened.Tables, Tokens: len(m.Compare.Tokens), Free: [2]int{len(m.Compare.Free[0]), len(m.Compare.Free[1])},
	}
}

// policyName is a policy in a few words.
func (c *controller) policyName(p state.Policy) string {
	name := c.recipeName(p)
	switch {
	case p.Bytes != 0:
		return name + c.t("list.separator") + c.words.Bytes(p.Bytes)
	case p.Share != 100:
		return name + c.t("list.separator") + c.words.Percent(float64(p.Share)/100)
	}
	return name
}

// recipeName is a policy's recipe, whatever its cap.
func (c *controller) recipeName(p state.Policy) string {
	parts := []string{c.t("policy." + p.Recipe.Method)}
	for _, w := range p.Recipe.Wraps {
		parts = append(parts, c.t("policy."+w.Name))
	}
	return strings.Join(parts, " + ")
}

func (x *compare) Render() app.UI {
	c := x.C
	return named(app.Section(), "compare").ID("compare").Class("compare").Aria("label", c.t("compare.title")).Body(
		app.Div().Class("row").Body(
			app.H2().Text(c.t("compare.title")),
			app.Span().Class("small").Text(c.t("compare.what")),
		),
		x.matchups(),
		app.Div().Class("sides").Body(x.side(0), x.side(1), x.button()),
		x.result(),
	)
}

// matchups are comparisons worth a look.
func (x *compare) matchups() app.UI {
	c := x.C
	items := make([]app.UI, len(state.Matchups))
	for i, pair := range state.Matchups {
		items[i] = disabled(named(app.Button(), "match-"+strconv.Itoa(i)).Type("button").Class("example").
			Text(c.t("compare.match", "a", c.t("policy."+pair[0]), "b", c.t("policy."+pair[1]))).
			OnClick(func(app.Context, app.Event) { c.send(state.Match{Index: i}) }, app.EventScope("match", i)),
			!x.Ready || !c.model.Able(pair[0]) || !c.model.Able(pair[1]))
	}
	return app.Div().Class("more").Role("group").Aria("label", c.t("compare.matches")).Body(items...)
}

// sideNames are the letters of the two runs.
var sideNames = [...]string{"A", "B"}

// side chooses one of the two settings.
func (x *compare) side(i int) app.UI {
	c, p := x.C, x.C.model.SideOf(i)
	id := "side-" + strings.ToLower(sideNames[i])
	var options []app.UI
	chosen := p.Recipe.Method
	if i == 0 {
		o := app.Option().Value("").Text(c.t("compare.page", "policy", c.recipeName(x.Page)))
		if !x.M.Own {
			o, chosen = o.Selected(true), ""
		}
		options = append(options, o)
	}
	options = append(options, c.methods(chosen, x.Tables)...)
	method := named(app.Select(), id).ID(id).Body(options...).OnChange(func(ctx app.Context, _ app.Event) {
		c.send(state.SetSide{Side: i, Method: ctx.JSSrc().Get("value").String()})
	}, app.EventScope(id))
	shares := make([]app.UI, len(state.Shares))
	for j, s := range state.Shares {
		o := app.Option().Value(strconv.Itoa(s)).Text(c.words.Percent(float64(s) / 100))
		if s == p.Share && p.Bytes == 0 {
			o = o.Selected(true)
		}
		shares[j] = o
	}
	share := named(app.Select(), id+"-cap").ID(id+"-cap").Aria("label", c.t("compare.cap", "side", sideNames[i])).Body(shares...).
		OnChange(func(ctx app.Context, _ app.Event) {
			if n, err := strconv.Atoi(ctx.JSSrc().Get("value").String()); err == nil {
				c.send(state.SetSide{Side: i, Share: n})
			}
		}, app.EventScope(id))
	if !x.Ready {
		method = method.Disabled(true)
	}
	if stops := policy.Find(p.Recipe.Method); !x.Ready || stops == nil || stops.Stops {
		share = share.Disabled(true)
	}
	return app.Div().Class("side-of").Body(
		app.Label().Class("field").For(id).Body(app.Span().Class("h").Text(c.t("compare.side", "side", sideNames[i])), method),
		share,
	)
}

// button runs, and stops what runs.
func (x *compare) button() app.UI {
	c := x.C
	if x.Running {
		return named(app.Button(), "compare-stop").Type("button").Class("primary stop").Text(c.t("stop")).
			OnClick(func(app.Context, app.Event) { c.send(state.Halt{}) }, app.EventScope("stop"))
	}
	return disabled(named(app.Button(), "compare-run").Type("button").Class("primary").Text(c.t("compare.run")).
		OnClick(func(app.Context, app.Event) { c.send(state.StartCompare{Now: c.host.Now()}) }, app.EventScope("run")), !x.Ready)
}

// result is what has come so far.
func (x *compare) result() app.UI {
	c, m := x.C, x.M
	if !m.Begun {
		return nothing()
	}
	head := c.t("compare.about", "asked", m.Asked, "a", c.policyName(m.Ran[0]), "b", c.policyName(m.Ran[1]))
	switch {
	case m.Stopped:
		head += c.t("sentence.separator") + c.t("compare.stopped")
	case m.Failed:
		head += c.t("sentence.separator") + c.t("compare.failed")
	}
	return app.Div().Class("result").Body(
		named(app.P(), "compare-about").Class("small").Text(head),
		x.verdict(),
		x.bars(),
		x.texts(),
		x.strip(),
		x.summary(),
		x.table(),
		x.retained(),
	)
}

// verdict says in a sentence what came of it.
func (x *compare) verdict() app.UI {
	c, m := x.C, x.M
	n := len(m.Tokens)
	if n == 0 {
		return nothing()
	}
	var agree [2]int
	var mean [2]float64
	for i := range mean {
		agree[i], mean[i] = m.Agreed(i)
	}
	text := c.t("compare.verdict", "n", n, "a", agree[0], "b", agree[1], "kla", c.scientific(mean[0]), "klb", c.scientific(mean[1]))
	if m.Ended && !m.Stopped && !m.Failed && max(mean[0], mean[1]) < same && agree[0] == n && agree[1] == n {
		text = c.t("compare.same", "n", n)
	}
	body := []app.UI{named(app.P(), "compare-verdict").Class("verdict").Text(text)}
	if margin := m.Tokens[0].Margin; m.Gold != "" && !math.IsNaN(margin[0]) {
		body = append(body, named(app.P(), "compare-margin").Class("small").Text(c.t("compare.margin", "gold", m.Gold, "other", m.Other,
			"full", c.signed(margin[0]), "a", c.signed(margin[1]), "b", c.signed(margin[2]))))
	}
	return app.Div().Body(body...)
}

// same is the mean KL in nats below which two runs give the same: the rounding of f32.
const same = 1e-6

// signed is a number with its sign.
func (c *controller) signed(v float64) string {
	if v > 0 {
		return "+" + c.scientific(v)
	}
	return strings.Replace(c.scientific(v), "-", "−", 1)
}

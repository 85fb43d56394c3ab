package ui

import (
	"slices"
	"strconv"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
	"kvlens/cache/policy"
	"kvlens/wasm/proto"
)

// groups are the methods as the chooser lists them; a test holds them against the registry.
var groups = []struct {
	name    string
	methods []string
}{
	{"all", []string{"full", "quest"}},
	{"position", []string{"window", "streamingllm"}},
	{"attention", []string{"h2o", "observed", "snapkv", "tova", "knorm", "keydiff", "expected"}},
	{"budgets", []string{"pyramidkv", "cake", "adapyramid"}},
	{"heads", []string{"headkv", "compresskv", "adacompresskv", "headcompresskv", "razor", "duo"}},
	{"baseline", []string{"random"}},
}

// chooser is the policy and the cap, beside the story.
type chooser struct {
	app.Compo
	C      *controller
	Lang   string
	P      state.Policy
	Tables bool // measured heads are there, or nobody knows yet
	Off    bool
	Cap    string // what the cap comes to
}

func (c *controller) chooser() app.UI {
	m := c.model
	return &chooser{
		C: c, Lang: m.Lang, P: m.Policy, Tables: !m.HasOpened || m.Opened.Tables, Off: m.Occupied(),
		Cap: c.capText(),
	}
}

func (x *chooser) Render() app.UI {
	return app.Div().Class("chooser").Body(x.method(), x.cap())
}

func (x *chooser) method() app.UI {
	c := x.C
	list := c.methods(x.P.Recipe.Method, x.Tables)
	s := named(app.Select(), "policy").ID("policy").Aria("describedby", "policy-rule").Body(list...).OnChange(func(ctx app.Context, _ app.Event) {
		c.send(state.SetMethod{Name: ctx.JSSrc().Get("value").String()})
	})
	if x.Off {
		s = s.Disabled(true)
	}
	return app.Label().Class("field").For("policy").Body(app.Span().Text(c.t("policy.label")), s)
}

// methods are the options of a list of methods, in groups. tables says whether those that need measured heads can run.
func (c *controller) methods(chosen string, tables bool) []app.UI {
	list := make([]app.UI, len(groups))
	for i, g := range groups {
		options := make([]app.UI, len(g.methods))
		for j, name := range g.methods {
			o := app.Option().Value(name).Text(c.t("policy." + name))
			if name == chosen {
				o = o.Selected(true)
			}
			if !tables && state.Tables(policy.Recipe{Method: name}) {
				o = o.Disabled(true)
			}
			options[j] = o
		}
		list[i] = app.OptGroup().Label(c.t("policy.group." + g.name)).Body(options...)
	}
	return list
}

// cap sets the memory cap in shares of what the story takes in full: by a slider, or the buttons beside it.
func (x *chooser) cap() app.UI {
	c := x.C
	at, last := capStep(x.P), len(state.Shares)-1
	to := func(i int) {
		if i = min(max(i, 0), last); state.Shares[i] != c.model.Policy.Share || c.model.Policy.Bytes != 0 {
			c.send(state.SetShare{Percent: state.Shares[i]})
		}
	}
	slider := named(app.Input(), "cap").ID("cap").Type("range").Min(0).Max(last).Step(1).Value(strconv.Itoa(at)).
		Aria("valuetext", x.Cap).
		OnChange(func(ctx app.Context, _ app.Event) {
			if i, err := strconv.Atoi(ctx.JSSrc().Get("value").String()); err == nil {
				to(i)
			}
		})
	if x.Off {
		slider = slider.Disabled(true)
	}
	return app.Div().Class("field cap").Body(
		app.Label().For("cap").Body(app.Text(c.t("cap.label")+c.t("word.separator")), named(app.Output(), "cap-text").Text(x.Cap)),
		app.Div().Class("row").Body(
			disabled(named(app.Button(), "cap-less").Type("button").Class("ghost icon").Aria("label", c.t("cap.less")).Text("−").
				OnClick(func(app.Context, app.Event) { to(capStep(c.model.Policy) - 1) }, app.EventScope("less")), x.Off || at == 0),
			slider,
			disabled(named(app.Button(), "cap-more").Type("button").Class("ghost icon").Aria("label", c.t("cap.more")).Text("+").
				OnClick(func(app.Context, app.Event) { to(capStep(c.model.Policy) + 1) }, app.EventScope("more")), x.Off || at == last && x.P.Bytes == 0),
		),
	)
}

// capStep is the slider's place: the step of the share, or the last for a cap in bytes.
func capStep(p state.Policy) int {
	for i, s := range state.Shares {
		if p.Bytes == 0 && s == p.Share {
			return i
		}
	}
	return len(state.Shares) - 1
}

// capText is the cap as a share, and, once it is known what that is a share of, in bytes and tokens a list.
func (c *controller) capText() string {
	m := c.model
	parts := ""
	if m.Policy.Bytes == 0 {
		parts = c.words.Percent(float64(m.Policy.Share) / 100)
	}
	known := m.Memory.Cap > 0 && (!m.Policy.Lowered() || m.Policy.Bytes > 0 || m.Kept.Tokens > 0) && m.Phase != state.Changing
	if !known {
		return parts
	}
	join := func(s string) {
		if parts != "" {
			parts += c.t("list.separator")
		}
		parts += s
	}
	join(c.words.Bytes(m.Memory.Cap))
	if b := m.Kept.Budget + m.Kept.Reserve; b > 0 {
		tokens := "cap.tokens"
		if m.Kept.Uneven() {
			tokens = "cap.tokens.mean"
		}
		join(c.t(tokens, "n", b))
	}
	return parts
}

// about is what the policy does, in a sentence, and everything else about it behind a fold.
type about struct {
	app.Compo
	C      *controller
	Lang   string
	P      state.Policy
	Mode   proto.PromptMode
	Window string
	Off    bool
	Tables bool
	Model  string
	Max    uint32 // the answer's limit
}

func (c *controller) about() app.UI {
	m := c.model
	x := &about{
		C: c, Lang: m.Lang, P: m.Policy, Mode: m.Mode, Off: m.Occupied(), Tables: !m.HasOpened || m.Opened.Tables,
		Model: m.Current, Max: m.Max,
	}
	if k := m.Kept; k.Published > 0 {
		x.Window = c.t("policy.observation.short", "used", k.Window, "published", k.Published)
	}
	return x
}

func (x *about) Render() app.UI {
	c := x.C
	method := policy.Find(x.P.Recipe.Method)
	if method == nil {
		return nothing()
	}
	rule := c.t("policy." + method.Name + ".rule")
	for _, w := range x.P.Recipe.Wraps {
		rule += c.t("sentence.separator") + c.t("policy."+w.Name+".rule")
	}
	return named(app.Section(), "about").Class("about").Aria("label", c.t("policy.about")).Body(
		named(app.P(), "policy-rule").ID("policy-rule").Class("small").Text(rule),
		x.later(),
		named(app.Details(), "policy-details").Class("fold").Body(
			app.Summary().Body(app.Span().Text(c.t("policy.details"))),
			x.card(method),
			x.planted(method),
			x.wrappers(method),
			x.settings(method),
		),
	)
}

// later chooses whether the question is known when the story is compressed.
func (x *about) later() app.UI {
	c := x.C
	if x.Mode != proto.Story || x.P.Recipe.Method == state.Full {
		return nothing()
	}
	return x.check("later", c.t("later.label"), c.t("later.hint"), x.P.Later, false, func(on bool) { c.send(state.SetLater{Later: on}) })
}

// check is something to switch on, with a sentence beside it.
func (x *about) check(id, label, hint string, on, never bool, set func(bool)) app.UI {
	return app.Div().Class("check").Body(
		tick(id, label, on, x.Off || never, set),
		app.Span().ID(id+"-hint").Class("small").Text(hint),
	)
}

// card is the same facts for every method, so that they can be compared.
func (x *about) card(m *policy.Method) app.UI {
	c := x.C
	yes := func(b bool) string {
		if b {
			return c.t("word.yes")
		}
		return c.t("word.no")
	}
	var body []app.UI
	fact := func(key, value string) {
		if value != "" {
			body = append(body, app.Dt().Text(c.t("policy.field."+key)), app.Dd().Text(value))
		}
	}
	of := "policy." + m.Name + "."
	fact("looks", c.t(of+"looks"))
	fact("when", c.t(of+"when"))
	fact("grain", c.t(of+"grain"))
	fact("lossy", yes(m.Lossy))
	fact("question", yes(m.Question))
	fact("needs", x.needs(m))
	if p, err := x.P.Recipe.Plan(); err == nil {
		fact("decode", c.t("policy.decode."+decodeNames[p.Decode.Kind]))
	}
	fact("window", x.Window)
	if x.P.Bytes == 0 && x.P.Lowered() {
		fact("cap", c.t("cap.share", "percent", c.words.Percent(float64(x.P.Share)/100), "n", x.Max))
	}
	fact("paper", m.Paper)
	return named(app.Dl(), "policy-card").Class("facts").Body(body...)
}

// planted says of methods that build on sinks or on what heads do where those of the built-in model come from.
func (x *about) planted(m *policy.Method) app.UI {
	sinks := slices.ContainsFunc(m.Knobs, func(k policy.Knob) bool { return k.Name == "sinks" })
	if !sinks && !state.Tables(policy.Recipe{Method: m.Name}) {
		return nothing()
	}
	return x.C.planted(x.Model)
}

// decodeNames are the decode rules' parts of their catalogue keys.
var decodeNames = [...]string{
	policy.DecodeStop: "stop", policy.DecodeCap: "cap", policy.DecodeOldest: "oldest", policy.DecodeSums: "sums", policy.DecodeRow: "row",
}

func (x *about) needs(m *policy.Method) string {
	switch {
	case !state.Tables(policy.Recipe{Method: m.Name}):
		return x.C.t("word.no")
	case x.Tables:
		return x.C.t("policy.tables")
	}
	return x.C.t("policy.tables.none")
}

// wrappers are what can go around the method.
func (x *about) wrappers(m *policy.Method) app.UI {
	c := x.C
	var body []app.UI
	for _, w := range policy.Methods() {
		if w.Wrapper && m.Name != state.Full {
			_, on := x.P.Wrap(w.Name)
			body = append(body, x.check("wrap-"+w.Name, c.t("policy."+w.Name), c.t("policy."+w.Name+".rule"), on, !on && !x.P.Fits(w.Name),
				func(on bool) { c.send(state.SetWrap{Name: w.Name, On: on}) }))
		}
	}
	if len(body) == 0 {
		return nothing()
	}
	return app.Div().Class("wraps").Role("group").Aria("label", c.t("policy.wraps")).Body(append([]app.UI{app.P().Class("h").Text(c.t("policy.wraps"))}, body...)...)
}

// settings are controls made from the schema.
func (x *about) settings(m *policy.Method) app.UI {
	c := x.C
	var body []app.UI
	add := func(of *policy.Method) {
		for i := range of.Knobs {
			body = append(body, x.knob(of.Name, &of.Knobs[i]))
		}
	}
	add(m)
	for _, w := range x.P.Recipe.Wraps {
		if of := policy.Find(w.Name); of != nil {
			add(of)
		}
	}
	if len(body) == 0 {
		return nothing()
	}
	return app.Div().Class("settings").Body(
		app.Div().Class("row").Body(
			app.P().Class("h").Text(c.t("policy.settings")),
			disabled(named(app.Button(), "knobs-reset").Type("button").Class("ghost").Text(c.t("policy.reset")).
				OnClick(func(app.Context, app.Event) { c.send(state.ResetKnobs{}) }), x.Off || !x.P.Touched()),
		),
		app.Div().Class("knobs").Body(body...),
	)
}

package ui

import (
	"math"
	"strconv"
	"strings"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
)

// memory is what the answer takes: the cache against its cap, and every byte the engine asked for.
type memory struct {
	app.Compo
	C    *controller
	Lang string
	M    state.Memory
	KV   formula
	Each string // catalogue key of the number of tokens stored
	Off  bool   // the cap cannot be changed now
}

// formula is the sizes that make the bytes of one token.
type formula struct{ Layers, KVHeads, HeadDim, Bytes uint32 }

func (c *controller) memory() app.UI {
	m := c.model
	p := &memory{C: c, Lang: m.Lang, M: m.Memory, Each: "memory.stored", Off: m.Phase != state.Idle}
	switch k := m.Kept; {
	case k.All || k.Layers == 0:
	case k.Uneven():
		p.Each = "memory.stored.most"
	default:
		p.Each = "memory.stored.each"
	}
	if o := m.Opened; m.HasOpened {
		numbers := 2 * o.Layers * o.KVHeads * o.HeadDim // keys and values of one token
		if numbers > 0 && o.TokenBytes%numbers == 0 {
			p.KV = formula{o.Layers, o.KVHeads, o.HeadDim, o.TokenBytes / numbers}
		}
	}
	return p
}

func (p *memory) Render() app.UI {
	c, m := p.C, p.M
	used := m.Used()
	return named(app.Section(), "memory").ID("memory").Class("memory").Body(
		app.H2().Text(c.t("memory.title")),
		p.headline(used),
		p.gauge(used),
		p.arena(),
		named(app.P(), "memory-tokens").Class("small").Text(p.tokens()),
		p.padding(used),
		p.beside(),
		named(app.Details(), "memory-more").Class("fold").Body(
			app.Summary().Text(c.t("memory.more")),
			c.budgets(),
			p.exact(),
			p.table(),
			app.P().Class("small").Text(p.token()),
		),
	)
}

// padding says how much of the pages is not needed, where that is more than 5 %.
func (p *memory) padding(used uint64) app.UI {
	needed := p.M.Needed()
	if needed >= used || used-needed <= used/20 {
		return nothing()
	}
	return named(app.P(), "memory-padding").Class("small").Body(
		app.Span().Class("swatch b-veil").Aria("hidden", "true"), app.Text(p.C.t("memory.padding", "n", p.C.words.Bytes(used-needed))))
}

// beside are the bytes that are about the cache and not under its cap: copies of what has left, and of what was.
func (p *memory) beside() app.UI {
	c, m := p.C, p.M
	shadow, checkpoints := m.Row(state.Shadow).Allocated, m.Row(state.Checkpoints).Allocated
	if shadow+checkpoints == 0 {
		return nothing()
	}
	var parts []string
	if shadow > 0 {
		parts = append(parts, c.t("memory.shadow", "n", c.words.Bytes(shadow)))
	}
	if checkpoints > 0 {
		parts = append(parts, c.t("memory.checkpoints", "n", c.words.Bytes(checkpoints)))
	}
	const width = 1000
	at := func(bytes uint64) string {
		return strconv.Itoa(int(share(bytes, max(m.Cap, shadow+checkpoints)) * width))
	}
	return app.Div().Class("beside").Body(
		svg("svg").Class("gauge").Attr("viewBox", "0 0 1000 24").Attr("preserveAspectRatio", "none").Aria("hidden", "true").Body(
			svg("rect").Class("f-none").Attr("width", at(shadow+checkpoints)).Attr("height", "24"),
			svg("rect").Class("f-cold").Attr("width", at(shadow)).Attr("height", "24"),
		),
		named(app.P(), "memory-beside").Class("small").Text(c.t("memory.beside", "what", strings.Join(parts, c.t("list.separator")))),
	)
}

// headline is the cache's size in large; before there is a model there is none.
func (p *memory) headline(used uint64) app.UI {
	c, m := p.C, p.M
	if m.Cap == 0 {
		return nothing()
	}
	return app.P().Class("big").Body(
		named(app.Span(), "memory-used").Text(c.words.Bytes(used)),
		app.Small().Text(c.t("memory.of", "cap", c.words.Bytes(m.Cap))),
	)
}

// gauge is the cache against the cap: a bar, and a meter for those who do not see it.
func (p *memory) gauge(used uint64) app.UI {
	c, m := p.C, p.M
	const width = 1000
	at := func(bytes uint64) string { return strconv.Itoa(int(share(min(bytes, m.Cap), m.Cap) * width)) }
	pages := m.Row(state.KVF16).Allocated + m.Row(state.KVF32).Allocated
	needed := m.Needed()
	tick := "0" // the most there has been
	if m.PeakKV > 0 {
		tick = "3"
	}
	bar := svg("svg").Class("gauge").Attr("viewBox", "0 0 1000 24").Attr("preserveAspectRatio", "none").Aria("hidden", "true").Body(
		svg("rect").Class("f-rule").Attr("width", "1000").Attr("height", "24"),
		svg("rect").Class("f-sink").Attr("width", at(used)).Attr("height", "24"),
		svg("rect").Class("f-recent").Attr("width", at(pages)).Attr("height", "24"),
		svg("rect").Class("f-veil").Attr("x", at(needed)).Attr("width", at(used-min(used, needed))).Attr("height", "24"),
		svg("rect").Class("f-ink").Attr("x", at(m.PeakKV)).Attr("width", tick).Attr("height", "24"),
	)
	text := c.t("memory.meter", "used", c.words.Bytes(used), "cap", c.words.Bytes(m.Cap), "percent", c.words.Percent(share(used, m.Cap)))
	return named(app.Div(), "gauge").Role("meter").Aria("label", c.t("memory.gauge")).
		Aria("valuemin", "0").Aria("valuemax", strconv.FormatUint(max(1, m.Cap), 10)).Aria("valuenow", strconv.FormatUint(used, 10)).
		Aria("valuetext", text).Body(bar)
}

// Cells of the arena's drawing.
const (
	arenaColumns = 24
	arenaRows    = 4
)

// arena draws the memory under the cap as squares of equal size, filled by what lies in it.
func (p *memory) arena() app.UI {
	m := p.M
	const cells = arenaColumns * arenaRows
	count := func(bytes uint64) int { return int((bytes*cells + m.Cap - 1) / max(1, m.Cap)) }
	pages, used := 0, 0
	if m.Cap > 0 {
		pages = min(cells, count(m.Row(state.KVF16).Allocated+m.Row(state.KVF32).Allocated))
		used = min(cells, count(m.Used()))
	}
	return app.Figure().Class("arena").Body(
		svg("svg").Attr("viewBox", "0 0 "+strconv.Itoa(arenaColumns*12-2)+" "+strconv.Itoa(arenaRows*12-2)).Aria("hidden", "true").Body(
			svg("path").Class("f-recent").Attr("d", squares(0, pages)),
			svg("path").Class("f-sink").Attr("d", squares(pages, used)),
			svg("path").Class("f-rule").Attr("d", squares(max(pages, used), cells)),
		),
	)
}

// squares is a path of the cells from first up to last.
func squares(first, last int) string {
	var b strings.Builder
	for i := first; i < last; i++ {
		b.WriteString("M" + strconv.Itoa(i%arenaColumns*12) + " " + strconv.Itoa(i/arenaColumns*12) + "h10v10h-10z")
	}
	if b.Len() == 0 {
		return "M0 0"
	}
	return b.String()
}

// tokens says how many tokens the cache holds and how many still fit.
func (p *memory) tokens() string {
	c, m := p.C, p.M
	if m.Cap == 0 {
		return c.t("memory.none")
	}
	s := c.t(p.Each, "n", m.Stored) + c.t("list.separator")
	if m.Room < state.Endless {
		s += c.t("memory.room", "n", m.Room)
	} else {
		s += c.t("memory.endless")
	}
	s += c.t("list.separator") + c.t("memory.arena", "cell", c.words.Bytes(m.Cap/(arenaColumns*arenaRows)))
	if m.Context > 0 && m.Position > m.Context {
		s += c.t("sentence.separator") + c.t("memory.context", "n", m.Context)
	}
	return s
}

// token is the price of one token, worked out.
func (p *memory) token() string {
	c, k := p.C, p.KV
	if k.Bytes == 0 {
		return ""
	}
	return c.t("memory.formula", "layers", k.Layers, "heads", k.KVHeads, "dim", k.HeadDim, "bytes", k.Bytes,
		"size", c.words.Bytes(uint64(p.M.TokenBytes)))
}

// table is the ledger: a line for every kind of memory.
func (p *memory) table() app.UI {
	c, m := p.C, p.M
	var body []app.UI
	for _, r := range m.Rows {
		body = append(body, p.row(c.t("kind."+r.Kind.String()), swatch(r.Kind), r))
	}
	total := m.Total()
	head := func(key string) app.HTMLTh { return app.Th().Scope("col").Text(c.t(key)) }
	var foot []app.UI
	if len(m.Rows) > 0 {
		foot = append(foot, app.Tr().Body(
			app.Th().Scope("row").Text(c.t("memory.total")),
			app.Td().Class("needed").Text(c.words.Bytes(total.Logical)),
			named(app.Td(), "allocated").Text(c.words.Bytes(total.Allocated)),
			app.Td().Text(c.t("memory.atmost", "n", c.words.Bytes(total.Peak))),
		))
	}
	if m.Reserved > 0 {
		foot = append(foot, named(app.Tr(), "reserved").Body(
			app.Th().Scope("row").Text(c.t("memory.reserved")),
			app.Td().Class("needed"),
			app.Td().Text(c.words.Bytes(m.Reserved)),
			app.Td(),
		))
	}
	return named(app.Table(), "ledger").Class("ledger").Body(
		app.Caption().Class("sr").Text(c.t("memory.caption")),
		app.THead().Body(app.Tr().Body(head("memory.kind"), head("memory.logical").Class("needed"), head("memory.allocated"), head("memory.peak"))),
		app.TBody().Body(body...),
		app.TFoot().Body(foot...),
	)
}

func (p *memory) row(name, class string, r state.Row) app.UI {
	c := p.C
	label := []app.UI{}
	if class != "" {
		label = append(label, app.Span().Class("swatch "+class).Aria("hidden", "true"))
	}
	size := func(n uint64) app.HTMLTd {
		if n == 0 {
			return app.Td().Text("–")
		}
		return app.Td().Text(c.words.Bytes(n))
	}
	return app.Tr().DataSet("kind", r.Kind.String()).Body(
		app.Th().Scope("row").Body(append(label, app.Text(name))...),
		size(r.Logical).Class("needed"), size(r.Allocated), size(r.Peak),
	)
}

// swatch is the colour of a kind in the drawing of the arena, where it has one.
func swatch(k state.Kind) string {
	switch k {
	case state.KVF16, state.KVF32:
		return "b-recent"
	case state.Positions, state.Scores, state.Bounds, state.Sums:
		return "b-sink"
	case state.Free:
		return "b-rule"
	}
	return ""
}

// exact sets the cap in KiB.
func (p *memory) exact() app.UI {
	c, m := p.C, p.M
	in := named(app.Input(), "cap-exact").ID("cap-exact").Type("number").Class("line").Min(1).Max(int(max(1, m.Default>>10))).Step(1).
		Value(kib(m.Cap)).
		OnChange(func(ctx app.Context, _ app.Event) {
			v, err := strconv.ParseFloat(ctx.JSSrc().Get("value").String(), 64)
			if err != nil || !(v >= 1 && v <= 1<<30) { // empty or absurd: as it was
				ctx.JSSrc().Set("value", kib(c.model.Memory.Cap))
				return
			}
			c.send(state.SetCap{Bytes: uint64(v * 1024)})
		})
	if p.Off {
		in = in.Disabled(true)
	}
	return app.Div().Class("row exact").Body(app.Label().For("cap-exact").Text(c.t("cap.exact")), in, app.Span().Class("small").Text(c.t("unit.kib.name")))
}

// kib writes bytes in KiB as a number field wants them, to two places.
func kib(bytes uint64) string {
	return strconv.FormatFloat(math.Round(float64(bytes)/1024*100)/100, 'f', -1, 64)
}

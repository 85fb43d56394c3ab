package ui

import (
	"math"
	"strconv"
	"strings"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
)

// barHeight is the units of a bar's drawing, and leastScale the KL, in nats, that at least fills it: differences that nobody
// would notice stay low.
const (
	barHeight  = 40
	leastScale = 0.1
)

// bars is the answer of the full cache as text, with how far A (above) and B (below) are from it at every token.
func (x *compare) bars() app.UI {
	c, m := x.C, x.M
	if len(m.Tokens) == 0 {
		return nothing()
	}
	most, agreed := leastScale, [2]bool{true, true}
	for _, t := range m.Tokens {
		agreed[0], agreed[1] = agreed[0] && t.Agree[0], agreed[1] && t.Agree[1]
		for _, kl := range t.KL {
			if !math.IsInf(kl, 0) { // NaN is no more than anything
				most = max(most, kl)
			}
		}
	}
	cells := make([]app.UI, len(m.Tokens))
	for i, t := range m.Tokens {
		cells[i] = app.Li().Body(
			otherWord(t, 0, agreed[0]), klBar(t.KL[0], most, true),
			app.Span().Class("word").Text(bare(t.Text)),
			klBar(t.KL[1], most, false), otherWord(t, 1, agreed[1]),
		)
	}
	return named(app.Figure(), "compare-bars").Class("bars").Body(
		app.FigCaption().Class("small").Text(c.t("compare.bars", "most", c.scientific(most))),
		app.Ul().Class("kl").Lang(htmlLang(state.LangOf(m.Asked))).Body(cells...),
	)
}

// bare is a token without the space before it, which words on their own do not need.
func bare(s string) string {
	if len(s) > 1 {
		s = strings.TrimPrefix(s, " ")
	}
	return visible(s)
}

// otherWord is what a run would have said where it would not have said the same; a run that always agreed needs no place.
func otherWord(t state.Compared, run int, agreed bool) app.UI {
	text, class := "", "alt"
	if !t.Agree[run] {
		text = "≠ " + bare(t.Top[run])
	}
	if agreed {
		class = "alt agreed"
	}
	return app.Span().Class(class).Text(text)
}

// klBar is one bar, upwards or downwards; one that is not a number is an outline.
func klBar(kl, most float64, up bool) app.UI {
	class, h := "f-b", barHeight*min(1, max(0, kl/most))
	if up {
		class = "f-a"
	}
	if math.IsNaN(h) {
		class, h = "f-none", barHeight
	}
	if h > 0 {
		h = max(1, h)
	}
	y := "0"
	if up {
		y = short(barHeight - h)
	}
	return svg("svg").Attr("viewBox", "0 0 10 "+strconv.Itoa(barHeight)).Attr("preserveAspectRatio", "none").Aria("hidden", "true").Body(
		svg("rect").Class(class).Attr("width", "10").Attr("y", y).Attr("height", short(h)),
	)
}

// texts are the free answers, with the first token that is another.
func (x *compare) texts() app.UI {
	c, m := x.C, x.M
	if len(m.Tokens) == 0 {
		return nothing()
	}
	full := ""
	for _, t := range m.Tokens {
		full += t.Text
	}
	lang := htmlLang(state.LangOf(m.Asked))
	rows := []app.UI{app.Dt().Text(c.t("compare.full")), named(app.Dd(), "free-full").Lang(lang).Text(strings.TrimSpace(full))}
	for i, free := range m.Free {
		same, other := "", ""
		for j, t := range free {
			if m.Strays[i] >= 0 && j >= m.Strays[i] {
				other += t.Text
			} else {
				same += t.Text
			}
		}
		says := ""
		switch sum := m.Sums[i]; {
		case m.Strays[i] >= 0:
			says = c.t("compare.strays", "n", m.Strays[i]+1)
		case sum != nil && len(free) > 0:
			says = c.t("compare.follows")
		}
		if same = strings.TrimLeft(same, " \n"); same == "" {
			other = strings.TrimLeft(other, " \n")
		}
		rows = append(rows, app.Dt().Text(sideNames[i]), named(app.Dd(), "free-"+strings.ToLower(sideNames[i])).Body(
			app.Span().Lang(lang).Text(same), app.Span().Class("strayed").Lang(lang).Text(other), app.Span().Class("small").Text(says),
		))
	}
	return app.Dl().Class("free").Body(rows...)
}

// Classes of the strip, and the signs that say the same: A is the upper half.
var both = [...]struct{ class, key, sign string }{
	{"d-none", "none", "░"}, {"d-a", "a", "▀"}, {"d-b", "b", "▄"}, {"d-both", "both", "█"},
}

// strip is the prompt with what each run kept of it: a line above for A, below for B.
func (x *compare) strip() app.UI {
	c, m := x.C, x.M
	var counts [len(both)]int
	var words [len(both)][]string
	pieces := make([]app.UI, 0, len(m.Pieces))
	for _, p := range m.Pieces {
		kept, ok := m.Both(x.Scope, int(p.At), len(p.IDs))
		if !ok {
			return nothing()
		}
		i := 0
		if kept[0] {
			i++
		}
		if kept[1] {
			i += 2
		}
		counts[i] += len(p.IDs)
		if len(words[i]) < mostNamed {
			words[i] = append(words[i], bare(p.Text))
		} else if len(words[i]) == mostNamed {
			words[i] = append(words[i], "…")
		}
		pieces = append(pieces, app.Span().Class(both[i].class).Text(p.Text))
	}
	items := make([]app.UI, len(both))
	var lists []app.UI
	for i, b := range both {
		n := c.t("compare.kept."+b.key, "n", counts[i])
		items[i] = app.Li().Body(app.Span().Class("sign "+b.class).Aria("hidden", "true").Text(b.sign), app.Span().Text(n))
		if i == 1 || i == 2 {
			lists = append(lists, app.Dt().Text(n), app.Dd().Text(strings.Join(words[i], c.t("list.separator"))))
		}
	}
	return named(app.Figure(), "compare-strip").Class("strip").Body(
		app.FigCaption().Class("h").Text(c.t("compare.kept")),
		app.P().Class("pieces").Lang(htmlLang(state.LangOf(m.Asked))).Body(pieces...),
		app.Ul().Class("legend").Body(items...),
		app.Details().Class("fold").Body(app.Summary().Body(app.Span().Text(c.t("compare.kept.list"))), app.Dl().Class("facts").Body(lists...)),
	)
}

// mostNamed is how many words a list of the strip names.
const mostNamed = 60

// summary is the numbers of both runs beside the full cache.
func (x *compare) summary() app.UI {
	c, m := x.C, x.M
	if m.Sums[0] == nil && m.Sums[1] == nil {
		return nothing()
	}
	head := []app.UI{app.Td(), app.Th().Scope("col").Text(c.t("compare.full"))}
	for i, name := range sideNames {
		head = append(head, app.Th().Scope("col").Body(app.Span().Text(name), app.Small().Text(c.policyName(m.Ran[i]))))
	}
	var full uint64
	for _, s := range m.Sums {
		if s != nil {
			full = max(full, s.Full)
		}
	}
	n := len(m.Tokens)
	row := func(key, full string, of func(*state.Contrast) string) app.UI {
		cells := []app.UI{app.Th().Scope("row").Text(c.t("compare.sum."+key, "n", n)), app.Td().Text(full)}
		for i := range sideNames {
			text := "–"
			if m.Sums[i] != nil {
				text = of(m.Sums[i])
			}
			cells = append(cells, app.Td().Text(text))
		}
		return app.Tr().Body(cells...)
	}
	percent := func(part int) string { return c.words.Percent(share(uint64(max(0, part)), uint64(max(1, n)))) }
	return named(app.Table(), "compare-sums").Class("ledger sums").Body(
		app.Caption().Class("sr").Text(c.t("compare.sums")),
		app.THead().Body(app.Tr().Body(head...)),
		app.TBody().Body(
			row("bytes", c.words.Bytes(full), func(s *state.Contrast) string { return c.words.Bytes(s.Cap) }),
			row("peak", "–", func(s *state.Contrast) string { return c.words.Bytes(s.Peak) }),
			row("kl", "0", func(s *state.Contrast) string { return c.scientific(float64(s.MeanKL)) }),
			row("maxkl", "0", func(s *state.Contrast) string { return c.scientific(float64(s.MaxKL)) }),
			row("agree", percent(n), func(s *state.Contrast) string { return percent(int(s.Agree)) }),
			row("retained", c.words.Percent(1), func(s *state.Contrast) string {
				if mean, heads := s.Mean(); heads > 0 {
					return c.words.Percent(mean)
				}
				return "–"
			}),
			row("rate", "–", func(s *state.Contrast) string { return c.words.Decimal(float64(s.Rate)) }),
		),
	)
}

// table is the bars as numbers.
func (x *compare) table() app.UI {
	c, m := x.C, x.M
	if len(m.Tokens) == 0 {
		return nothing()
	}
	head := []app.UI{app.Th().Scope("col").Text(c.t("compare.token"))}
	for _, key := range []string{"p.full", "p.a", "p.b", "kl.a", "kl.b"} {
		head = append(head, app.Th().Scope("col").Text(c.t("compare.col."+key)))
	}
	rows := make([]app.UI, len(m.Tokens))
	for i, t := range m.Tokens {
		cells := []app.UI{app.Th().Scope("row").Lang(htmlLang(state.LangOf(m.Asked))).Text(bare(t.Text))}
		for _, p := range t.Prob {
			text := "–"
			if !math.IsNaN(p) {
				text = c.words.Percent(p)
			}
			cells = append(cells, app.Td().Text(text))
		}
		for run, kl := range t.KL {
			text := c.scientific(kl)
			if !t.Agree[run] {
				text += " ≠"
			}
			cells = append(cells, app.Td().Text(text))
		}
		rows[i] = app.Tr().Body(cells...)
	}
	return named(app.Details(), "compare-table").Class("fold").Body(
		app.Summary().Body(app.Span().Text(c.t("compare.table"))),
		app.Div().Class("scroll").TabIndex(0).Role("group").Aria("label", c.t("compare.table")).Body(
			app.Table().Class("ledger").Body(
				app.Caption().Class("small").Text(c.t("compare.table.says")),
				app.THead().Body(app.Tr().Body(head...)), app.TBody().Body(rows...)),
		),
	)
}

// retained is what each run keeps of the attention of every query head.
func (x *compare) retained() app.UI {
	c, m := x.C, x.M
	if m.Sums[0] == nil || m.Sums[1] == nil || m.Sums[0].Retained == nil || m.Sums[1].Retained == nil {
		return nothing()
	}
	a, b := m.Sums[0].Retained, m.Sums[1].Retained
	head := []app.UI{app.Td()}
	for h := range a[0] {
		head = append(head, app.Th().Scope("col").Text(strconv.Itoa(h+1)))
	}
	rows := make([]app.UI, len(a))
	for l := range a {
		cells := []app.UI{app.Th().Scope("row").Text(c.t("kept.layer.n", "n", l+1))}
		for h := range a[l] {
			cells = append(cells, app.Td().Body(
				app.Span().Text(hundredths(a[l][h])), app.Span().Class("below").Text(hundredths(b[l][h])),
			))
		}
		rows[l] = app.Tr().Body(cells...)
	}
	return named(app.Details(), "compare-retained").Class("fold").Body(
		app.Summary().Body(app.Span().Text(c.t("compare.retained"))),
		app.Div().Class("scroll").TabIndex(0).Role("group").Aria("label", c.t("compare.retained")).Body(
			app.Table().Class("ledger heat").Body(
				app.Caption().Class("small").Text(c.t("compare.retained.says")),
				app.THead().Body(app.Tr().Body(head...)), app.TBody().Body(rows...)),
		),
	)
}

func hundredths(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return strconv.Itoa(int(math.Round(100 * min(1, max(0, v)))))
}

// scientific writes a number that may be very small with two or three digits.
func (c *controller) scientific(v float64) string {
	if a := math.Abs(v); v == 0 || a >= 0.01 || math.IsNaN(v) || math.IsInf(v, 0) {
		return c.words.Decimal(v)
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', 1, 64), "e")
	digits := strings.NewReplacer("-", "⁻", "+", "", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹")
	n, _ := strconv.Atoi(exponent)
	return strings.Replace(mantissa, "-", "−", 1) + "×10" + digits.Replace(strconv.Itoa(n))
}

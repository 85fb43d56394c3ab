package ui

import (
	"slices"
	"strconv"
	"strings"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
)

// budgets draws what every list may hold and holds: a bar for each layer, or for each KV head where they differ.
type budgets struct {
	app.Compo
	C         *controller
	Lang      string
	May, Held []int // by bar
	PerLayer  int   // bars of a layer
	Says      string
}

func (c *controller) budgets() app.UI {
	k := c.model.Kept
	if k.All || k.Layers == 0 || len(k.Caps) == 0 {
		return nothing()
	}
	b := &budgets{C: c, Lang: c.model.Lang, PerLayer: 1}
	for l := range k.Layers {
		if row := k.Caps[l*k.Heads : (l+1)*k.Heads]; slices.Min(row) != slices.Max(row) {
			b.PerLayer = k.Heads
		}
	}
	total := 0
	for i, n := range k.Caps {
		total += k.Held(i)
		if i%k.Heads < b.PerLayer {
			b.May, b.Held = append(b.May, int(n)), append(b.Held, k.Held(i))
		} else {
			b.Held[len(b.Held)-1] = max(b.Held[len(b.Held)-1], k.Held(i))
		}
	}
	says := "budget.says"
	if k.Uneven() {
		says = "budget.says.mean"
	}
	b.Says = c.t(says, "b", k.Budget, "reserve", k.Reserve, "lists", len(k.Caps), "total", total)
	if k.Published > 0 {
		b.Says += c.t("sentence.separator") + c.t("policy.observation", "used", k.Window, "published", k.Published)
	}
	return b
}

// The drawing of budgets is budgetWidth × budgetHeight units.
const (
	budgetWidth  = 360
	budgetHeight = 72
)

func (b *budgets) Render() app.UI {
	c := b.C
	title := "budget.layers"
	if b.PerLayer > 1 {
		title = "budget.heads"
	}
	may, held := bars(b.May, b.Held, b.PerLayer)
	return named(app.Figure(), "budgets").Class("budgets").Body(
		app.FigCaption().Class("h").Text(c.t("budget.title")),
		svg("svg").Attr("viewBox", "0 0 "+strconv.Itoa(budgetWidth)+" "+strconv.Itoa(budgetHeight)).Attr("preserveAspectRatio", "none").
			Role("img").Aria("label", c.t(title)+c.t("word.separator")+b.list()).Body(
			svg("path").Class("f-score").Attr("d", held),
			svg("path").Class("f-none").Attr("d", may),
		),
		app.P().Class("small").Text(c.t(title)),
		named(app.P(), "budget-says").Class("small").Text(b.Says),
	)
}

// list is the bars in words.
func (b *budgets) list() string {
	parts := make([]string, len(b.May))
	for i := range parts {
		parts[i] = b.C.t("budget.bar", "held", b.Held[i], "may", b.May[i])
	}
	return strings.Join(parts, b.C.t("list.separator"))
}

// bars are two paths: outlines of what bars may be, and filled what they are.
func bars(may, held []int, perLayer int) (outline, filled string) {
	most := max(1, slices.Max(slices.Concat([]int{1}, may, held)))
	unit := float64(budgetWidth) / (float64(len(may)) + float64(len(may)/perLayer-1)*gapBetweenLayers)
	var o, f strings.Builder
	x := 0.0
	for i := range may {
		if i > 0 && i%perLayer == 0 {
			x += unit * gapBetweenLayers
		}
		rect := func(w *strings.Builder, n int) {
			h := float64(budgetHeight-2) * float64(n) / float64(most)
			w.WriteString("M" + short(x+0.1*unit) + " " + strconv.Itoa(budgetHeight-1) + "v-" + short(h) + "h" + short(0.8*unit) + "v" + short(h) + "z")
		}
		rect(&o, may[i])
		rect(&f, held[i])
		x += unit
	}
	return o.String(), f.String()
}

// gapBetweenLayers is a part of a bar's width.
const gapBetweenLayers = 0.4

// keptNews says how much has left, for those who listen.
func (c *controller) keptNews(before, after state.Model) string {
	k := after.Kept
	if k.All || k.Layers == 0 || k.Tokens == before.Kept.Tokens && k.Recipe == before.Kept.Recipe && k.Budget == before.Kept.Budget {
		return ""
	}
	held, of := k.Count(state.Everywhere)
	if k.Left > 0 {
		return c.t("say.left", "n", k.Left, "held", held, "of", of)
	}
	return c.t("say.kept", "held", held, "of", of)
}

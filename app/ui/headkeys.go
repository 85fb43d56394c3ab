package ui

import (
	"strconv"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
)

// Pointing at a head previews it, choosing one keeps it. These events come in floods: all but the choice change nothing in
// the model, so the page is not rendered for them.

// over previews the head under the pointer, or the one with the focus.
func (h *heads) over(ctx app.Context, e app.Event) {
	ctx.PreventUpdate()
	if i, ok := cellIndex(e.Get("target")); ok {
		h.C.plot.preview(h.head(i))
	}
}

func (h *heads) leave(ctx app.Context, _ app.Event) {
	ctx.PreventUpdate()
	h.C.plot.preview(state.NoHead)
}

// click picks a head; once more lets go of it.
func (h *heads) click(ctx app.Context, e app.Event) {
	i, ok := cellIndex(e.Get("target"))
	if !ok {
		ctx.PreventUpdate()
		return
	}
	h.focus(i)
	h.toggle(i)
}

func (h *heads) toggle(i int) {
	x := h.head(i)
	if x == h.C.model.Attention.Picked {
		x = state.NoHead
	}
	h.C.pick(x)
}

// pick chooses a head for the whole page.
func (c *controller) pick(x state.Head) {
	c.send(state.PickHead{Head: x})
	c.paint(false)
}

func (h *heads) head(i int) state.Head { return state.Head{Layer: i / h.Heads, Head: i % h.Heads} }

// key moves through the grid as it lies, chooses and lets go.
func (h *heads) key(ctx app.Context, e app.Event) {
	ctx.PreventUpdate()
	i, ok := cellIndex(e.Get("target"))
	if !ok {
		return
	}
	row, col, rows, cols := i/h.Heads, i%h.Heads, h.Layers, h.Heads
	if h.wide {
		row, col, rows, cols = col, row, cols, rows
	}
	const page = 5
	switch e.Get("key").String() {
	case "ArrowRight":
		col++
	case "ArrowLeft":
		col--
	case "ArrowDown":
		row++
	case "ArrowUp":
		row--
	case "PageDown":
		row += page
	case "PageUp":
		row -= page
	case "Home":
		col = 0
		if e.Get("ctrlKey").Bool() {
			row = 0
		}
	case "End":
		col = cols - 1
		if e.Get("ctrlKey").Bool() {
			row = rows - 1
		}
	case "Enter", " ":
		e.PreventDefault()
		h.toggle(i)
		return
	case "Escape":
		if h.C.model.Attention.Picked != state.NoHead {
			h.C.pick(state.NoHead)
		}
		return
	default:
		return
	}
	e.PreventDefault()
	row, col = max(0, min(row, rows-1)), max(0, min(col, cols-1))
	if h.wide {
		row, col = col, row
	}
	h.focus(row*h.Heads + col)
}

// focus moves the grid's one stop of the Tab key, and says about the head there what is known now.
func (h *heads) focus(i int) {
	grid := byID("headgrid")
	if !grid.Truthy() {
		return
	}
	if was := grid.Call("querySelector", `[tabindex="0"]`); was.Truthy() {
		attr(was, "tabindex", "-1")
	}
	if to := grid.Call("querySelector", `[data-i="`+strconv.Itoa(i)+`"]`); to.Truthy() {
		attr(to, "tabindex", "0", "aria-label", h.C.headText(h.head(i)))
		to.Call("focus", map[string]any{"preventScroll": false})
	}
}

// headText is a head's name and its numbers over the last tokens.
func (c *controller) headText(x state.Head) string {
	name := c.t("heads.name", "layer", x.Layer+1, "head", x.Head+1)
	m := c.model
	_, heads, _ := m.Shape()
	i := x.Layer*heads + x.Head
	sink, local, top := m.Means(state.BySink), m.Means(state.ByLocal), m.Means(state.ByTop1)
	if i >= len(sink) || i >= len(local) || i >= len(top) {
		return name
	}
	of := func(v []float32) string { return c.words.Percent(float64(v[i])) }
	return name + c.t("list.separator") + c.t("heads.numbers", "sink", of(sink), "local", of(local), "top", of(top))
}

// cellIndex reads which head a cell is, or what lies in it.
func cellIndex(el app.Value) (int, bool) {
	if !el.Truthy() || !el.Get("closest").Truthy() {
		return 0, false
	}
	return tokenIndex(el.Call("closest", ".cell"))
}

package ui

import (
	"strconv"
	"strings"
	"time"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
)

// card shows what is known about one token: for a token of the answer the five most probable at its place. There is one
// card on the page; it can be pointed into, stays while its token has the focus, and Escape puts it away.
type card struct {
	c    *controller
	at   app.Value // the token's element
	keys bool      // the token has the focus
	over bool      // the pointer is on the card
	wish int       // counts what the reader did, so that a late leave is known as stale
}

// cardHolder is the card's place in the page: an element that go-app leaves alone.
type cardHolder struct {
	app.Compo
	C *controller
}

func (h *cardHolder) Render() app.UI {
	return named(app.Div(), "card").ID("card").Class("card").Role("tooltip").Hidden(true).
		On("pointerenter", h.enter).On("pointerleave", h.exit)
}

func (h *cardHolder) enter(ctx app.Context, _ app.Event) { ctx.PreventUpdate(); h.C.card.over = true }

func (h *cardHolder) exit(ctx app.Context, _ app.Event) {
	ctx.PreventUpdate()
	h.C.card.over = false
	h.C.card.leave()
}

// show opens the card beside el.
func (k *card) show(el app.Value, serial uint32, answer bool, index int) {
	t, ok := k.c.turn(serial)
	box := byID("card")
	if !ok || !box.Truthy() {
		return
	}
	k.wish++
	k.unmark()
	var body []any
	var at int
	switch {
	case answer && index < len(t.Answer):
		body, at = k.answer(t, index), int(t.Answer[index].Position)
	case !answer && index < len(t.Pieces):
		body, at = k.piece(t.Pieces[index]), int(t.Pieces[index].At)
	default:
		return
	}
	k.c.plot.light(at)
	box.Call("replaceChildren", body...)
	box.Set("hidden", false)
	k.at = el
	el.Get("classList").Call("add", "sel")
	attr(el, "aria-describedby", "card")
	k.place(box, el)
	k.uncover(box, el)
}

// uncover moves the page on where the card, at the bottom of a narrow screen, would lie over its token.
func (k *card) uncover(box, el app.Value) {
	token, cover := el.Call("getBoundingClientRect"), box.Call("getBoundingClientRect")
	const clear = 12.0
	down := token.Get("bottom").Float() + clear - cover.Get("top").Float()
	if down > 0 && token.Get("top").Float() < cover.Get("bottom").Float() && cover.Get("width").Float() > 0.9*app.Window().Get("innerWidth").Float() {
		app.Window().Call("scrollBy", 0, down)
	}
}

// place puts the card under its token, or above where there is no room; on narrow screens the style sheet puts it at the
// bottom instead.
func (k *card) place(box, el app.Value) {
	const gap = 2.0
	w := app.Window()
	token := el.Call("getBoundingClientRect")
	width, height := box.Get("offsetWidth").Float(), box.Get("offsetHeight").Float()
	left := min(token.Get("left").Float(), w.Get("innerWidth").Float()-width-8)
	top := token.Get("bottom").Float() + gap
	if top+height > w.Get("innerHeight").Float()-8 {
		top = max(8, token.Get("top").Float()-height-gap)
	}
	style := box.Get("style")
	style.Call("setProperty", "--x", px(max(8, left)))
	style.Call("setProperty", "--y", px(top))
}

func px(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) + "px" }

// leave hides the card unless the reader comes back to it at once.
func (k *card) leave() {
	k.wish++
	wish := k.wish
	time.AfterFunc(150*time.Millisecond, func() {
		if wish == k.wish && !k.over && !k.keys {
			k.hide()
		}
	})
}

func (k *card) hide() {
	k.wish++
	k.over, k.keys = false, false
	k.c.plot.away()
	k.unmark()
	if box := byID("card"); box.Truthy() {
		box.Set("hidden", true)
	}
}

func (k *card) unmark() {
	if k.at != nil {
		k.at.Get("classList").Call("remove", "sel")
		k.at.Call("removeAttribute", "aria-describedby")
		k.at = nil
	}
}

// answer is the card of a generated token.
func (k *card) answer(t state.Turn, index int) []any {
	c, tok := k.c, t.Answer[index]
	facts := []string{c.t("card.position", "n", tok.Position+1), c.t("card.id", "id", strconv.Itoa(int(tok.ID)))}
	if tok.Millis > 0 {
		facts = append(facts, c.t("card.millis", "n", c.words.Decimal(float64(tok.Millis))))
	}
	body := []any{
		written("strong", "card-token", visible(tok.Text)),
		written("small", "", strings.Join(facts, c.t("list.separator"))),
	}
	body = append(body, k.kept(int(tok.Position), 1)...)
	if len(tok.Top) == 0 {
		return body
	}
	table := element("table", "top5", written("caption", "", c.t("card.top")))
	for _, x := range tok.Top {
		class := ""
		if x.ID == tok.ID {
			class = "chosen"
		}
		meter := element("progress", "")
		attr(meter, "max", "1", "value", strconv.FormatFloat(float64(x.Prob), 'f', 4, 32), "aria-hidden", "true")
		row := element("tr", class,
			attr(written("th", "", visible(x.Text)), "scope", "row"),
			element("td", "bar", meter),
			written("td", "num", c.words.Percent(float64(x.Prob))))
		if class != "" {
			row.Call("append", written("td", "mark", c.t("card.chosen")))
		}
		table.Call("append", row)
	}
	return append(body, table)
}

// piece is the card of a stretch of the prompt.
func (k *card) piece(p state.Piece) []any {
	c := k.c
	ids := make([]string, len(p.IDs))
	for i, id := range p.IDs {
		ids[i] = strconv.Itoa(int(id))
	}
	facts := c.t("card.position", "n", p.At+1) + c.t("list.separator") + c.t("card.id", "id", strings.Join(ids, " "))
	body := []any{written("strong", "card-token", visible(p.Text)), written("small", "", facts)}
	if len(p.IDs) > 1 {
		body = append(body, written("small", "", c.t("card.merged", "n", len(p.IDs))))
	}
	if special(p.Text) {
		body = append(body, written("small", "", c.t("card.control")))
	}
	return append(body, k.kept(int(p.At), len(p.IDs))...)
}

// visible shows the white space of a token: ␣ for a space and ↵ for a new line.
func visible(s string) string {
	if s == "" {
		return "∅"
	}
	return strings.NewReplacer(" ", "␣", "\n", "↵", "\t", "⇥").Replace(s)
}

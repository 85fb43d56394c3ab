package ui

import (
	"strconv"
	"strings"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
)

// turn is one question and its answer. Its two texts are written token by token into elements that go-app leaves alone.
type turn struct {
	app.Compo
	C      *controller
	Serial uint32
	Asked  string
	Lang   string // of the text
	Page   string // language of the page, which the labels are in
	Live   bool
	Foot   string // how it ended
	Open   bool   // show what else could have been said: the last turn, where it is short

	prompt, answer app.Value
	pieces, tokens int // written so far
	begun          bool

	shownPieces, shownTokens []int  // which of them have an element, in order
	promptMarks, answerMarks string // what is shown of them as kept
	promptLooks, answerLooks string // what is shown of a head's row
}

// CompoID makes another turn another element, with texts of its own.
func (t *turn) CompoID() string { return strconv.Itoa(int(t.Serial)) }

func (t *turn) id(part string) string { return part + "-" + t.CompoID() }

func (t *turn) OnMount(app.Context) {
	t.prompt, t.answer = byID(t.id("prompt")), byID(t.id("answer"))
	t.C.paints = append(t.C.paints, t)
	t.paint(t.C.columns())
	t.answer.Call("scrollIntoView", map[string]any{"block": "nearest"})
	t.C.followTurn()
}

func (t *turn) OnDismount() {
	for i, x := range t.C.paints {
		if x == t {
			t.C.paints = append(t.C.paints[:i], t.C.paints[i+1:]...)
			break
		}
	}
}

func (t *turn) Render() app.UI {
	class := "answer"
	if t.Live {
		class += " live"
	}
	return named(app.Section(), "turn").Class("turn").Body(
		t.text(app.P().ID(t.id("prompt")).Class("pieces"), "prompt", t.C.t("turn.prompt", "asked", t.Asked)),
		t.text(app.P().ID(t.id("answer")).Class(class), "answer", t.C.t("turn.answer", "asked", t.Asked)),
		named(app.P(), "turn-end").Class("foot").Text(t.Foot),
		t.alternatives(),
	)
}

// text is one of the two texts: tokens can be pointed at, and walked through with the arrow keys.
func (t *turn) text(p app.HTMLP, name, label string) app.UI {
	return named(p, name).
		Lang(htmlLang(t.Lang)).
		Role("group").
		Aria("label", label).
		On("pointerover", t.over).
		On("pointerleave", t.leave).
		OnClick(t.pick).
		On("focusin", t.over).
		On("focusout", t.leave).
		OnKeyDown(t.key)
}

// paint writes what has come since the last time.
func (t *turn) paint(columns state.Columns) {
	m, ok := t.C.turn(t.Serial)
	if !ok || !t.prompt.Truthy() {
		return
	}
	t.shrink(len(m.Answer))
	for ; t.pieces < len(m.Pieces); t.pieces++ {
		text := m.Pieces[t.pieces].Text
		if !t.prompt.Get("firstChild").Truthy() {
			text = strings.TrimLeft(text, "\n") // a later turn begins with the line break that ends the answer before
		}
		if text != "" {
			t.add(t.prompt, t.pieces, text, special(text))
			t.shownPieces = append(t.shownPieces, t.pieces)
		}
	}
	for ; t.tokens < len(m.Answer); t.tokens++ {
		text := m.Answer[t.tokens].Text
		if !t.begun {
			text = strings.TrimLeft(text, " \n")
		}
		if text != "" {
			t.add(t.answer, t.tokens, text, false)
			t.shownTokens = append(t.shownTokens, t.tokens)
			t.begun = true
		}
	}
	t.marks(m, columns)
}

// add appends a token. The first of a text is its stop for the Tab key.
func (t *turn) add(to app.Value, index int, text string, control bool) {
	class, tab := "t", "-1"
	if control {
		class = "t control"
	}
	if !to.Get("firstChild").Truthy() {
		tab = "0"
	}
	to.Call("append", attr(written("span", class, text), "data-i", strconv.Itoa(index), "tabindex", tab))
}

// special reports a control token's name, such as <|im_start|>.
func special(s string) bool {
	return strings.HasPrefix(s, "<|") && strings.HasSuffix(s, "|>")
}

// over shows the card of the token under the pointer or with the focus. These events come in floods and change nothing
// in the model, so the page is not rendered for them.
func (t *turn) over(ctx app.Context, e app.Event) {
	ctx.PreventUpdate()
	el := e.Get("target")
	index, ok := tokenIndex(el)
	if !ok {
		t.C.card.leave()
		return
	}
	if e.Get("type").String() == "focusin" {
		t.C.card.keys = true
		t.C.pressable(el)
		if t.follow(ctx, el, index) {
			return
		}
	}
	if t.C.ringed != nil && t.C.ringed.Equal(el) {
		return // the card beside says more
	}
	t.C.card.show(el, t.Serial, t.answers(ctx), index)
}

func (t *turn) leave(ctx app.Context, e app.Event) {
	ctx.PreventUpdate()
	if e.Get("type").String() == "focusout" {
		t.C.card.keys = false
		if el := e.Get("target"); el.Truthy() && (t.C.ringed == nil || !t.C.ringed.Equal(el)) {
			unpressable(el)
		}
	}
	t.C.card.leave()
}

// key walks through the tokens: left and right, Home and End; Escape puts the card away.
func (t *turn) key(ctx app.Context, e app.Event) {
	ctx.PreventUpdate()
	el := e.Get("target")
	if _, ok := tokenIndex(el); !ok {
		return
	}
	parent := ctx.JSSrc()
	var to app.Value
	switch e.Get("key").String() {
	case "ArrowRight":
		to = el.Get("nextElementSibling")
	case "ArrowLeft":
		to = el.Get("previousElementSibling")
	case "Home":
		to = parent.Get("firstElementChild")
	case "End":
		to = parent.Get("lastElementChild")
	case "Enter", " ":
		e.PreventDefault()
		t.choose(ctx, el)
		return
	case "Escape":
		t.C.card.hide()
		t.C.unask()
		return
	default:
		return
	}
	e.PreventDefault()
	if to.Truthy() {
		attr(el, "tabindex", "-1")
		attr(to, "tabindex", "0")
		to.Call("focus")
	}
}

// tokenIndex reads which token an element is.
func tokenIndex(el app.Value) (int, bool) {
	if !el.Truthy() || !el.Get("dataset").Truthy() {
		return 0, false
	}
	v := el.Get("dataset").Get("i")
	if !v.Truthy() {
		return 0, false
	}
	i, err := strconv.Atoi(v.String())
	return i, err == nil && i >= 0
}

// turn finds a turn of the model.
func (c *controller) turn(serial uint32) (state.Turn, bool) {
	for _, t := range c.model.Turns {
		if t.Serial == serial {
			return t, true
		}
	}
	return state.Turn{}, false
}

// most is how many tokens an answer may have for its alternatives to be laid out.
const most = 12

// turns renders the conversation.
func (c *controller) turns() []app.UI {
	out := make([]app.UI, len(c.model.Turns))
	for i, t := range c.model.Turns {
		last := i == len(c.model.Turns)-1
		out[i] = &turn{
			C: c, Serial: t.Serial, Page: c.model.Lang, Asked: t.Asked, Lang: state.LangOf(t.Asked),
			Live: last && c.model.Running(), Foot: c.foot(t),
			Open: last && t.Ended && len(t.Answer) > 0 && len(t.Answer) <= most,
		}
	}
	return out
}

// foot says how a turn ended and how fast it was.
func (c *controller) foot(t state.Turn) string {
	if !t.Ended {
		return ""
	}
	var parts []string
	if t.Undone {
		return c.t("end.undone")
	}
	if t.Failed {
		parts = append(parts, c.t("end.failed"))
	} else {
		parts = append(parts, c.t("end."+state.ReasonName(t.Reason), "n", len(t.Answer), "stored", c.model.Memory.Stored))
	}
	if t.Rates.Prefill > 0 {
		parts = append(parts, c.t("turn.read", "n", promptTokens(t), "rate", c.words.Decimal(float64(t.Rates.Prefill))))
	}
	if t.Rates.Decode > 0 {
		parts = append(parts, c.t("turn.wrote", "n", len(t.Answer), "rate", c.words.Decimal(float64(t.Rates.Decode))))
	}
	return strings.Join(parts, c.t("list.separator"))
}

func promptTokens(t state.Turn) int {
	n := 0
	for _, p := range t.Pieces {
		n += len(p.IDs)
	}
	return n
}

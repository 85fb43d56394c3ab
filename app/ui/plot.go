package ui

import (
	"math"
	"strconv"
	"strings"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/canvas"
	"kvlens/app/state"
)

// plot paints one head: what the pointer previews, else what was picked. It draws the picture when that has changed, and
// only lines and words as the pointer moves.
type plot struct {
	c        *controller
	at       state.Head // previewed
	column   int        // key under the pointer or chosen with the keys; −1 none
	over     int        // query under the pointer; −1 none
	open     bool       // the table
	key      plotKey
	shown    state.Shown
	picture  canvas.Picture
	bytes    pixels
	panel    app.Value
	box      app.Value
	canvases app.Value // the box's one
	side     int       // of the picture, in pixels
	ratio    float64   // of these to CSS pixels
	looks    bool      // the texts show a row
}

// plotKey is all that the picture depends on.
type plotKey struct {
	head         state.Head
	first        *uint8 // code of the newest row
	rows         int
	linear, bare bool
}

func newPlot(c *controller) plot { return plot{c: c, at: state.NoHead, column: -1, over: -1} }

// attach finds the elements again and paints.
func (p *plot) attach() {
	p.panel, p.box, p.canvases = byID("matrix"), byID("plot"), nil
	if p.box.Truthy() {
		p.canvases = p.box.Call("querySelectorAll", "canvas")
	}
	p.side = 0
	p.key = plotKey{}
	p.paint()
}

// preview shows another head for as long as it is pointed at.
func (p *plot) preview(h state.Head) {
	if h != p.at {
		p.at, p.column, p.over = h, -1, -1
		p.paint()
	}
}

// head is the one that is shown.
func (p *plot) head() state.Head {
	if p.at != state.NoHead {
		return p.at
	}
	return p.c.model.Attention.Picked
}

// paint brings the panel up to date.
func (p *plot) paint() {
	m, head := p.c.model, p.head()
	body := byID("matrix-body")
	if p.canvases == nil || !body.Truthy() || m.Running() && !inView(p.panel) {
		return
	}
	s, ok := m.Shown(head)
	hide(body, !ok)
	hide(byID("matrix-hint"), ok)
	if !ok || len(s.Rows) == 0 || len(s.Rows[len(s.Rows)-1]) == 0 {
		p.key = plotKey{}
		write("matrix-title", p.c.t("matrix.none"))
		write("matrix-says", "")
		p.look(s, -1)
		return
	}
	p.shown = s
	newest := s.Rows[len(s.Rows)-1]
	if p.side == 0 { // to ask costs a layout
		const most = 1024
		p.ratio = max(1, app.Window().Get("devicePixelRatio").Float())
		p.side = min(most, int(p.box.Get("clientWidth").Float()*p.ratio))
	}
	key := plotKey{head, &newest[0], len(s.Rows), m.Attention.Linear, m.Attention.Bare}
	if m.Attention.Bare { // its rows are made anew each time
		key.first = nil
	}
	if key != p.key || key.first == nil {
		p.key = key
		p.draw()
		write("matrix-title", p.c.t("heads.name", "layer", head.Layer+1, "head", head.Head+1))
		write("matrix-says", p.says(s))
	}
	p.lines()
}

// says is what the picture is of.
func (p *plot) says(s state.Shown) string {
	c := p.c
	switch {
	case s.Live && c.model.Attention.Wanted && p.at == state.NoHead:
		return c.t("matrix.wait")
	case s.Live:
		return c.t("matrix.live", "n", len(s.Rows))
	case s.Pool > 1:
		return c.t("matrix.all", "n", s.Tokens) + c.t("list.separator") + c.t("matrix.pool", "n", s.Pool)
	}
	return c.t("matrix.all", "n", s.Tokens)
}

func (p *plot) draw() {
	s, scale := p.shown, canvas.Log
	if p.c.model.Attention.Linear {
		scale = canvas.Linear
	}
	side := p.side
	p.picture.Draw(&canvas.Matrix{
		Tokens: s.Tokens, First: s.First, Pool: s.Pool, Step: s.Step, Rows: s.Rows, Left: s.Left, Would: s.Would,
	}, side, side, scale, p.ratio)
	p.bytes.put(p.canvases, p.picture.Pix, side, side)
}

// lines writes what depends on the row and the key that are looked at: cross, profile, sentence, and the texts.
func (p *plot) lines() {
	s, m := p.shown, p.c.model
	query := p.query()
	row := s.Row(query)
	style := p.box.Get("style")
	n := s.Queries()
	style.Call("setProperty", "--row", percent(canvas.Middle(query-s.First, n)))
	x := "-1%"
	if p.column >= 0 {
		x = percent(canvas.Middle(p.column, s.Tokens))
	}
	style.Call("setProperty", "--key", x)
	if el := byID("profile"); el.Truthy() {
		el.Call("setAttribute", "d", profile(row, s, m.Attention.Linear))
	}
	write("matrix-row", p.c.t("matrix.row", "token", p.c.quoted(query, 1), "n", query+1))
	write("matrix-caption", p.caption(query))
	p.look(s, query)
}

func percent(v float64) string { return strconv.FormatFloat(100*v, 'f', 2, 64) + "%" }

// query is the row that is looked at.
func (p *plot) query() int {
	if q := p.over; q >= p.shown.First && q < p.shown.First+p.shown.Queries() {
		return q
	}
	return p.c.model.Query(p.shown)
}

// mostBarsOfProfile is how many bars a row has at most.
const mostBarsOfProfile = 320

// profile is a path of bars, as high as the scale says, of a row over as many tokens as the picture.
func profile(row []uint8, s state.Shown, linear bool) string {
	if len(row) == 0 || s.Tokens == 0 {
		return "M0 0"
	}
	tokens := min(s.Tokens, len(row)*s.Pool)
	codes := row
	if len(row) > mostBarsOfProfile {
		codes = make([]uint8, mostBarsOfProfile)
		canvas.Resample(codes, row)
	}
	unit := 1000 * float64(tokens) / float64(s.Tokens) / float64(len(codes))
	b := make([]byte, 0, 24*len(codes))
	for i, code := range codes {
		h := 100 * float64(code) / 255
		if linear {
			h = 100 * state.Weight(code)
		}
		if h < 1 {
			continue
		}
		b = append(b, 'M')
		b = strconv.AppendFloat(b, unit*(float64(i)+0.1), 'f', 1, 64)
		b = append(b, " 100v-"...)
		b = strconv.AppendInt(b, int64(math.Round(h)), 10)
		b = append(b, 'h')
		b = strconv.AppendFloat(b, unit*0.8, 'f', 1, 64)
		b = append(b, "V100z"...)
	}
	if len(b) == 0 {
		return "M0 0"
	}
	return string(b)
}

// caption says what the row looks at, and what has left.
func (p *plot) caption(query int) string {
	c, s, m := p.c, p.shown, p.c.model
	token := c.quoted(query, 1)
	var parts []string
	if k := p.column; k >= 0 && k < s.Tokens {
		parts = append(parts, p.pointed(query, k))
	} else {
		parts = append(parts, p.most(query, token))
	}
	if n := m.Gone(p.head(), s); n > 0 {
		parts = append(parts, c.t("matrix.evicted", "n", n))
	}
	return strings.Join(parts, c.t("sentence.separator"))
}

// most says which key the row looks at most. The first tokens, which many heads fall back on, are told apart.
func (p *plot) most(query int, token string) string {
	c, s := p.c, p.shown
	top := s.Top(query, 1+first/s.Pool+1)
	if len(top) == 0 {
		return c.t("matrix.nothing", "token", token)
	}
	sinks, beyond := 0.0, -1
	for i, k := range top {
		if k.At < first {
			sinks += state.Weight(k.Code)
		} else if beyond < 0 {
			beyond = i
		}
	}
	args := func(k state.Seen) []any {
		return []any{"token", token, "key", c.quoted(k.At, k.N), "weight", c.words.Percent(state.Weight(k.Code)), "sinks", c.words.Percent(min(1, sinks))}
	}
	if top[0].At >= first || beyond < 0 {
		return c.t("matrix.looks", args(top[0])...)
	}
	return c.t("matrix.looks.beyond", args(top[beyond])...)
}

// first are the tokens that count as sinks.
const first = 4

// pointed says what a query gives a key.
func (p *plot) pointed(query, key int) string {
	c, s := p.c, p.shown
	token, at := c.quoted(query, 1), c.quoted(key/s.Pool*s.Pool, min(s.Pool, s.Tokens-key/s.Pool*s.Pool))
	code := uint8(0)
	if row := s.Row(query); key/s.Pool < len(row) {
		code = row[key/s.Pool]
	}
	args := []any{"token", token, "key", at, "weight", c.words.Percent(state.Weight(code))}
	switch {
	case key > query:
		return c.t("matrix.future", args...)
	case key < len(s.Left) && query >= int(s.Left[key]):
		if row := s.WouldRow(query); key/s.Pool < len(row) {
			if args[5] = c.t("unit.percent.tiny"); row[key/s.Pool] > 0 {
				args[5] = c.words.Percent(state.Weight(row[key/s.Pool]))
			}
			return c.t("matrix.would", args...)
		}
		return c.t("matrix.dropped", args...)
	case code == 0:
		return c.t("matrix.little", args...)
	}
	return c.t("matrix.gives", args...)
}

// look tints the words of the texts by the row, or takes the tint away.
func (p *plot) look(s state.Shown, query int) {
	var row []uint8
	if query >= 0 {
		row = s.Row(query)
	}
	if row == nil && !p.looks {
		return
	}
	p.looks = row != nil
	digit := func(at, n int) byte {
		most := uint8(0)
		for i := at / max(1, s.Pool); i <= (at+n-1)/max(1, s.Pool) && i < len(row); i++ {
			most = max(most, row[i])
		}
		const least, step = 115, 23 // of codes: from 0.6 % in six steps
		if most < least {
			return '0'
		}
		return '1' + min(5, (most-least)/step)
	}
	for _, t := range p.c.paints {
		if m, ok := p.c.turn(t.Serial); ok {
			t.look(m, digit)
		}
	}
}

func write(id, text string) {
	if el := byID(id); el.Truthy() && el.Get("textContent").String() != text {
		el.Set("textContent", text)
	}
}

func hide(el app.Value, on bool) {
	if el.Truthy() && el.Get("hidden").Bool() != on {
		el.Set("hidden", on)
	}
}

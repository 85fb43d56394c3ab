package ui

import (
	"time"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/canvas"
	"kvlens/app/state"
)

// eyes paints the pictures of all heads, and their letters. It writes only what has changed: one picture a head and frame
// while tokens come, letters a few times a second.
type eyes struct {
	c             *controller
	grid          app.Value
	cells         app.Value // lists of elements, nil until the grid is there
	canvases      app.Value
	layers, heads int
	few, wide     bool

	picture canvas.Picture
	bytes   pixels
	strips  []strip
	drawn   *uint8 // first code of the newest row that is drawn
	rows    int    // drawn
	by      state.Measure
	marks   string
	marked  time.Time
}

// strip is a remembered row, made narrower for thumbnails: [heads of all layers][cells].
type strip struct {
	of     *uint8 // first code of the row, by which it is known again
	stride int
	rows   [][]uint8
}

// A thumbnail's row has at most so many cells. It is as high as it has rows while these are few, and then always the same,
// because a canvas of another size is another canvas.
const (
	thumbnail = 96
	fewRows   = 8
	tall      = 32
)

// attach finds the grid's elements, which are other ones after it has been drawn anew.
func (x *eyes) attach(h *heads) {
	grid := byID("headgrid")
	x.cells, x.canvases, x.drawn, x.marks = nil, nil, nil, ""
	if !h.Has || !grid.Truthy() {
		return
	}
	x.grid = grid
	x.layers, x.heads, x.wide, x.few = h.Layers, h.Heads, h.wide, state.Few(h.Layers, h.Heads)
	x.cells, x.canvases = grid.Call("querySelectorAll", ".cell"), grid.Call("querySelectorAll", "canvas")
	x.marked = time.Time{}
	x.paint()
}

// paint brings the pictures up to date.
func (x *eyes) paint() {
	m := x.c.model
	if x.cells == nil || len(m.Attention.Gazes) == 0 || m.Running() && !inView(x.grid) {
		return
	}
	newest := &m.Attention.Gazes[len(m.Attention.Gazes)-1].Codes[0]
	if newest != x.drawn || len(m.Attention.Gazes) != x.rows || m.Attention.By != x.by {
		x.drawn, x.rows, x.by = newest, len(m.Attention.Gazes), m.Attention.By
		if x.few {
			x.thumbnails(m)
		} else {
			x.colours(m)
		}
	}
	const pause = 250 * time.Millisecond
	if !m.Running() || time.Since(x.marked) > pause {
		x.marked = time.Now()
		x.letter(m)
	}
}

// thumbnails paints the remembered rows of every head below each other.
func (x *eyes) thumbnails(m state.Model) {
	gazes := m.Attention.Gazes
	last := gazes[len(gazes)-1]
	stride := last.Stride() * ((last.Cells + thumbnail - 1) / thumbnail)
	strips := make([]strip, len(gazes))
	for i, g := range gazes {
		strips[i] = x.strip(g, stride)
	}
	x.strips = strips
	groups := make([][][]uint8, x.layers*x.heads)
	for head := range groups {
		for _, s := range strips {
			groups[head] = append(groups[head], s.rows[head])
		}
	}
	height := len(strips)
	if height > fewRows {
		height = tall
	}
	x.picture.Strips(groups, (last.Tokens+stride-1)/stride, height, canvas.Log)
	x.bytes.put(x.canvases, x.picture.Pix, x.picture.W, height)
}

// strip makes a row narrower, unless it was made so before.
func (x *eyes) strip(g state.Gaze, stride int) strip {
	of := &g.Codes[0]
	for _, s := range x.strips {
		if s.of == of && s.stride == stride {
			return s
		}
	}
	s := strip{of, stride, make([][]uint8, x.layers*x.heads)}
	w := (g.Tokens + stride - 1) / stride
	codes := make([]uint8, 0, w*len(s.rows))
	for i := range s.rows {
		from := len(codes)
		if at := g.Stride(); stride%at == 0 {
			codes = canvas.Pool(codes, g.Head(i), stride/at)
		} else {
			codes = codes[:from+w]
			canvas.Resample(codes[from:], g.Head(i))
		}
		s.rows[i] = codes[from:]
	}
	return s
}

// colours paints a measure of every head, a pixel each.
func (x *eyes) colours(m state.Model) {
	values, w, h := m.Means(m.Attention.By), x.heads, x.layers
	if x.wide {
		values, w, h = x.across(values), h, w
	}
	x.picture.Cells(values, w, h)
	x.bytes.put(x.canvases, x.picture.Pix, w, h)
}

// across lays values by layer out by head.
func (x *eyes) across(values []float32) []float32 {
	if len(values) != x.layers*x.heads {
		return nil
	}
	out := make([]float32, len(values))
	for i, v := range values {
		out[i%x.heads*x.layers+i/x.heads] = v
	}
	return out
}

// letter writes the letters of all heads, and on colours whether theirs is light.
func (x *eyes) letter(m state.Model) {
	habits := m.Habits()
	if len(habits) != x.layers*x.heads {
		return
	}
	values := m.Means(m.Attention.By)
	marks := make([]byte, 0, 3*len(habits))
	for j := range habits {
		i := j
		if x.wide {
			i = j%x.layers*x.heads + j/x.layers
		}
		light := byte('0')
		if !x.few && i < len(values) && values[i] > 0.5 {
			light = '1'
		}
		marks = append(marks, letters[habits[i]].name[0], light)
	}
	if s := string(marks); s != x.marks {
		x.marks = s
		app.Window().Call("kvlensMarks", x.cells, s)
	}
}

// inView reports whether some of an element can be seen.
func inView(el app.Value) bool {
	return el != nil && app.Window().Call("kvlensSees", el).Bool()
}

// pixels is memory of the browser that pictures go through.
type pixels struct {
	at   app.Value
	size int
}

// put paints pictures of w × h pixels into canvases, in one call.
func (p *pixels) put(canvases app.Value, pix []byte, w, h int) {
	if len(pix) == 0 || canvases == nil {
		return
	}
	if p.size < len(pix) {
		p.size = 2 * len(pix)
		p.at = app.Window().Get("Uint8Array").New(p.size)
	}
	app.CopyBytesToJS(p.at, pix)
	app.Window().Call("kvlensPaint", canvases, p.at, w, h)
}

package ui

import (
	"strconv"
	"strings"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
	"kvlens/wasm/proto"
)

// status is the line at the foot: what goes on, how the memory grew, how fast it is.
type status struct {
	app.Compo
	C              *controller
	Lang           string
	What           string
	Quiet          bool
	Place, Rate    string
	Prompt, Answer string // paths of the timeline
	Label          string
	Used, Cap      uint64
	Parts          []string // of the page that one can jump to
}

func (c *controller) status() app.UI {
	m := c.model
	s := &status{C: c, Lang: m.Lang, Quiet: m.Work.Quiet > 0, Used: m.Memory.Used(), Cap: m.Memory.Cap}
	switch {
	case m.Phase == state.Changing && m.Work.Total == 0 && m.Work.Quiet == 0:
		s.What = c.t("phase.changing")
	case m.Phase == state.Comparing && len(m.Compare.Tokens) > 0 && m.Work.Quiet == 0:
		s.What = c.t("phase.comparing")
	case m.Busy() && (m.Work.Stage == proto.StageRestore || m.Phase != state.Answering && m.Phase != state.Stopping):
		s.What = c.stage()
	case m.Work.Quiet > 0:
		s.What = c.t("stage.quiet", "n", int(m.Work.Quiet/1000))
	default:
		s.What = c.t("phase." + m.Phase.String())
	}
	s.Parts = c.parts()
	t, ok := m.Live()
	if !ok {
		return s
	}
	s.Place = c.t("status.tokens", "prompt", promptTokens(t), "answer", len(t.Answer))
	if r := rate(t); r > 0 {
		s.Rate = c.t("status.rate", "rate", c.words.Decimal(r))
	}
	s.Prompt, s.Answer = timeline(t)
	s.Label = c.t("status.timeline", "n", len(t.Answer))
	return s
}

// rate is the tokens per second of the answer: as measured by the engine at its end, until then from the steps.
func rate(t state.Turn) float64 {
	if t.Rates.Decode > 0 {
		return float64(t.Rates.Decode)
	}
	var ms float64
	n := 0
	for _, k := range t.Answer[min(1, len(t.Answer)):] { // the first token comes with the prompt
		if k.Millis > 0 {
			ms += float64(k.Millis)
			n++
		}
	}
	if ms == 0 {
		return 0
	}
	return float64(n) * 1000 / ms
}

// The timeline's drawing is timelineWidth × timelineHeight units.
const (
	timelineWidth  = 1200
	timelineHeight = 40
	timelineBars   = 96  // the scale of short turns
	mostBars       = 240 // of an answer
)

// timeline draws the bytes in pages after each token of the answer, behind one block for the prompt.
func timeline(t state.Turn) (prompt, answer string) {
	var used []uint64
	most := uint64(1)
	for _, k := range t.Answer {
		if k.Used > 0 {
			used = append(used, k.Used)
			most = max(most, k.Used)
		}
	}
	if len(used) == 0 {
		return "M0 0", "M0 0"
	}
	stride := (len(used) + mostBars - 1) / mostBars // tokens to a bar
	bars := (len(used) + stride - 1) / stride
	for i := range bars {
		used[i] = used[min((i+1)*stride, len(used))-1]
	}
	used = used[:bars]
	read := promptTokens(t) / stride
	unit := float64(timelineWidth) / float64(max(timelineBars, read+len(used)))
	bar := func(b *strings.Builder, x, w float64, bytes uint64) {
		h := 2 + float64(timelineHeight-2)*share(bytes, most)
		b.WriteString("M" + short(x) + " " + strconv.Itoa(timelineHeight) + "v-" + short(h) + "h" + short(w) + "v" + short(h) + "z")
	}
	var p, a strings.Builder
	bar(&p, 0, max(1, unit*float64(read)-1), used[0])
	for i, u := range used {
		bar(&a, unit*float64(read+i)+1, max(1, unit-2), u)
	}
	return p.String(), a.String()
}

func short(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

func (s *status) Render() app.UI {
	class := "what"
	if s.Quiet {
		class += " quiet"
	}
	track := nothing()
	if s.Answer != "" {
		track = svg("svg").Class("track").Attr("viewBox", "0 0 "+strconv.Itoa(timelineWidth)+" "+strconv.Itoa(timelineHeight)).
			Attr("preserveAspectRatio", "none").Role("img").Aria("label", s.Label).Body(
			svg("path").Class("f-recent").Attr("d", s.Prompt),
			svg("path").Class("f-srh").Attr("d", s.Answer),
		)
	}
	return named(app.Footer(), "status").Body(
		named(app.Span(), "stage").Class(class).Text(s.What),
		track,
		named(app.Span(), "place").Text(s.Place),
		named(app.Span(), "rate").Text(s.Rate),
		s.jump(),
	)
}

// parts are the parts of the page that there are.
func (c *controller) parts() []string {
	m := c.model
	parts := []string{"story"}
	if layers, _, _ := m.Shape(); layers > 0 {
		parts = append(parts, "heads")
	}
	if len(m.Attention.Gazes) > 0 {
		parts = append(parts, "matrix")
	}
	return append(parts, "memory")
}

// jump leads to the parts of a narrow page, which stand below each other. The memory's button is its gauge.
func (s *status) jump() app.UI {
	c := s.C
	buttons := make([]app.UI, len(s.Parts))
	for i, p := range s.Parts {
		body := []app.UI{app.Span().Text(c.t("jump." + p))}
		if p == "memory" && s.Cap > 0 {
			width := strconv.Itoa(int(share(min(s.Used, s.Cap), s.Cap) * 1000))
			body = append(body,
				app.Span().Class("small").Text(c.t("memory.short", "used", c.words.Bytes(s.Used), "cap", c.words.Bytes(s.Cap))),
				svg("svg").Class("gauge").Attr("viewBox", "0 0 1000 24").Attr("preserveAspectRatio", "none").Aria("hidden", "true").Body(
					svg("rect").Class("f-rule").Attr("width", "1000").Attr("height", "24"),
					svg("rect").Class("f-recent").Attr("width", width).Attr("height", "24"),
				))
		}
		buttons[i] = named(app.Button(), "jump-"+p).Type("button").Class("to-"+p).Body(body...).OnClick(func(app.Context, app.Event) {
			for _, id := range [...]string{p, "kept", "turns"} { // the story's field gives way to what was read
				if el := byID(id); el.Truthy() && (p != "story" || id != p) {
					scrollTo(id)
					return
				}
			}
		}, app.EventScope(p))
	}
	return app.Div().Class("jump").Role("navigation").Aria("label", c.t("jump.label")).Body(buttons...)
}

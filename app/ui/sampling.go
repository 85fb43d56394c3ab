package ui

import (
	"strconv"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
	"kvlens/wasm/proto"
)

// sampling holds the settings that choose among the probable tokens.
type sampling struct {
	app.Compo
	C        *controller
	Lang     string
	Sampling proto.Sampling
	Max      uint32
	Busy     bool
}

var knobs = []struct {
	knob state.Knob
	name string
}{
	{state.Temperature, "temperature"},
	{state.TopK, "topk"},
	{state.TopP, "topp"},
	{state.MinP, "minp"},
	{state.Repeat, "repeat"},
	{state.Seed, "seed"},
	{state.MaxTokens, "max"},
}

func (s *sampling) Render() app.UI {
	c := s.C
	fields := make([]app.UI, len(knobs))
	for i, k := range knobs {
		fields[i] = s.field(k.knob, k.name)
	}
	summary := "sampling.greedy"
	if s.Sampling.Temperature > 0 {
		summary = "sampling.draw"
	}
	return named(app.Details(), "sampling").Class("sampling").Body(
		app.Summary().Body(
			app.Span().Class("h").Text(c.t("sampling.title")),
			app.Span().Class("small").Text(c.t(summary, "t", c.words.Decimal(float64(s.Sampling.Temperature)))),
		),
		app.Div().Class("knobs").Body(fields...),
	)
}

func (s *sampling) field(k state.Knob, name string) app.UI {
	c := s.C
	r := state.Ranges[k]
	id := "knob-" + name
	in := named(app.Input(), id).ID(id).Type("number").
		Min(r.Min).Max(r.Max).Step(r.Step).Value(number(c.model.Value(k))).
		Aria("describedby", id+"-hint").
		OnChange(func(ctx app.Context, _ app.Event) {
			el := ctx.JSSrc()
			v, err := strconv.ParseFloat(el.Get("value").String(), 64)
			if err != nil {
				v = c.model.Value(k)
			}
			c.send(state.SetSampling{Knob: k, Value: v})
			el.Set("value", number(c.model.Value(k))) // what was typed may have been out of range
		}, app.EventScope(name))
	if s.Busy {
		in = in.Disabled(true)
	}
	return app.Div().Class("knob").Body(
		app.Label().For(id).Text(c.t("knob."+name)),
		in,
		app.P().ID(id+"-hint").Class("small").Text(c.t("knob."+name+".hint")),
	)
}

// number writes a setting as the field of a number wants it, without the noise of float32.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 32) }

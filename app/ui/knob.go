package ui

import (
	"math"
	"strconv"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
	"kvlens/app/text"
	"kvlens/cache/policy"
)

// settingKey is a knob's key in the catalogue: its own where methods mean different things by one name.
func settingKey(words *text.Catalogue, of, name string) string {
	if own := "setting." + of + "." + name; words.Has(own) {
		return own
	}
	return "setting." + name
}

// knob is the control of one knob of a method or wrapper.
func (x *about) knob(of string, k *policy.Knob) app.UI {
	c := x.C
	key := settingKey(c.words, of, k.Name)
	id := "set-" + of + "-" + k.Name
	v := x.P.Value(of, k)
	set := func(v float64) { c.send(state.SetKnob{Of: of, Name: k.Name, Value: v}) }
	hint := app.P().ID(id + "-hint").Class("small").Text(c.t(key+".help") + c.t("sentence.separator") + x.published(k))
	switch k.Kind {
	case policy.KnobBool:
		return app.Div().Class("knob").Body(
			tick(id, c.t(key), v != 0, x.Off, func(on bool) {
				if on {
					set(1)
				} else {
					set(0)
				}
			}), hint)
	case policy.KnobChoice:
		options := make([]app.UI, len(k.Choices))
		for i, name := range k.Choices {
			o := app.Option().Value(strconv.Itoa(i)).Text(c.t("choice." + name))
			if i == int(v) {
				o = o.Selected(true)
			}
			options[i] = o
		}
		s := named(app.Select(), id).ID(id).Aria("describedby", id+"-hint").Body(options...).OnChange(func(ctx app.Context, _ app.Event) {
			if i, err := strconv.Atoi(ctx.JSSrc().Get("value").String()); err == nil {
				set(float64(i))
			}
		}, app.EventScope(id))
		if x.Off {
			s = s.Disabled(true)
		}
		return app.Div().Class("knob").Body(app.Label().For(id).Text(c.t(key)), s, hint)
	}
	in := named(app.Input(), id).ID(id).Type("number").Min(k.Min).Max(k.Max).Step(stepOf(k)).Value(number(v)).Aria("describedby", id+"-hint").
		OnChange(func(ctx app.Context, _ app.Event) {
			el := ctx.JSSrc()
			v, err := strconv.ParseFloat(el.Get("value").String(), 64)
			if err != nil {
				v = math.NaN() // the default
			}
			set(v)
			el.Set("value", number(c.model.Policy.Value(of, k))) // what was typed may have been out of range
		}, app.EventScope(id))
	if x.Off {
		in = in.Disabled(true)
	}
	return app.Div().Class("knob").Body(app.Label().For(id).Text(c.t(key)), in, hint)
}

// published says what a knob stands at when nobody has touched it. A window follows the cap then.
func (x *about) published(k *policy.Knob) string {
	c := x.C
	switch {
	case k.Name == "window":
		return c.t("setting.published", "n", number(k.Default))
	case k.Kind == policy.KnobChoice:
		return c.t("setting.default", "value", c.t("choice."+k.Choices[int(k.Default)]))
	case k.Kind == policy.KnobBool && k.Default != 0:
		return c.t("setting.default", "value", c.t("word.yes"))
	case k.Kind == policy.KnobBool:
		return c.t("setting.default", "value", c.t("word.no"))
	}
	return c.t("setting.default", "value", number(k.Default))
}

// stepOf is a number field's step: any number where the knob takes any.
func stepOf(k *policy.Knob) float64 {
	switch {
	case k.Step > 0:
		return k.Step
	case k.Kind == policy.KnobFloat && k.Max <= 10:
		return 0.01
	}
	return 1
}

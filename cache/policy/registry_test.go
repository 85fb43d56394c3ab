package policy

import (
	"errors"
	"maps"
	"math"
	"testing"
)

// Every knob of every method can be made a control: a range, a default within it, and a sentence of help.
func TestSchema(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Methods() {
		if m.Name == "" || m.Title == "" || m.Rule == "" || m.Looks == "" || m.When == "" || m.Granularity == "" {
			t.Errorf("%s: a field is empty: %+v", m.Name, m)
		}
		if seen[m.Name] {
			t.Errorf("%s: registered twice", m.Name)
		}
		seen[m.Name] = true
		if m.Wrapper != (m.wrap != nil) || m.Wrapper == (m.plan != nil) {
			t.Errorf("%s: wrapper %v, but plan %v and wrap %v", m.Name, m.Wrapper, m.plan != nil, m.wrap != nil)
		}
		knobs := map[string]bool{}
		for _, k := range m.Knobs {
			if k.Name == "" || k.Help == "" || knobs[k.Name] {
				t.Errorf("%s: knob %q: no name, no help, or twice", m.Name, k.Name)
			}
			knobs[k.Name] = true
			if !(k.Min < k.Max) || math.IsInf(k.Min, 0) || math.IsInf(k.Max, 0) {
				t.Errorf("%s: %s: range %v to %v", m.Name, k.Name, k.Min, k.Max)
			}
			if why := k.wrong(k.Default); why != "" {
				t.Errorf("%s: %s: default %v: %s", m.Name, k.Name, k.Default, why)
			}
			switch k.Kind {
			case KnobBool:
				if k.Min != 0 || k.Max != 1 {
					t.Errorf("%s: %s: a switch from %v to %v", m.Name, k.Name, k.Min, k.Max)
				}
			case KnobChoice:
				if k.Min != 0 || int(k.Max) != len(k.Choices)-1 {
					t.Errorf("%s: %s: %d choices, %v to %v", m.Name, k.Name, len(k.Choices), k.Min, k.Max)
				}
			}
		}
	}
}

// Knobs begin with what the papers' code has.
func TestPublishedDefaults(t *testing.T) {
	const avg, highest = float64(PoolAvg), float64(PoolMax)
	for name, want := range map[string]map[string]float64{
		"full":           {},
		"window":         {},
		"streamingllm":   {"sinks": 4, "rank": 1},
		"h2o":            {"recent": .5, "decay": 1, "group": 0},
		"observed":       {"group": 0},
		"snapkv":         {"window": 32, "kernel": 5, "pool": avg, "group": 0, "after": 1},
		"pyramidkv":      {"window": 8, "kernel": 7, "pool": highest, "group": 0, "after": 1, "beta": 20, "rounding": 0},
		"cake":           {"window": 32, "kernel": 5, "gamma": 200, "tau1": 1, "tau2": 1, "rounding": 0},
		"adapyramid":     {"window": 32, "kernel": 7, "pool": highest, "group": 0, "after": 1, "beta": 20, "alpha": .2, "normalise": 0, "rounding": 0},
		"headkv":         {"window": 8, "kernel": 7, "pool": highest, "group": 0, "after": 1, "beta": 1.5, "rounding": 0},
		"compresskv":     {"window": 8, "kernel": 5, "pool": avg, "heads": 4, "floor": 32, "ceiling": 3, "ties": 0},
		"adacompresskv":  {"window": 8, "kernel": 5, "pool": avg, "heads": 4, "floor": 32, "ceiling": 3, "ties": 0, "alpha": .2, "normalise": 0, "rounding": 0},
		"headcompresskv": {"window": 8, "kernel": 5, "pool": avg, "heads": 4, "beta": 1.5, "rounding": 0},
		"razor":          {"sinks": 4, "retrieval": .14, "echo": .01, "local": 4000, "part": .2, "compensation": 1},
		"duo":            {"sinks": 128, "retrieval": .5, "local": 256},
		"tova":           {},
		"knorm":          {"skip": 0},
		"keydiff":        {},
		"expected":       {"future": 512, "sinks": 4, "covariance": 1, "values": 1, "epsilon": 0},
		"quest":          {"page": 16, "read": 128, "skip": 2},
		"random":         {"seed": 1},
		"adakv":          {"alpha": .2, "normalise": 0, "rounding": 0},
		"chunkkv":        {"chunk": 20},
		"criticalkv":     {"first": .5, "epsilon": 1e-4},
	} {
		m := Find(name)
		if m == nil {
			t.Fatalf("no method %q", name)
		}
		knobs, err := m.fill(nil)
		if err != nil || !maps.Equal(knobs, want) {
			t.Errorf("%s: %v, %v, want %v", name, knobs, err, want)
		}
	}
}

// What plans do that no knob says: the published windows, reductions, decode rules and layers left alone.
func TestPublishedPlans(t *testing.T) {
	for name, is := range map[string]func(p *Plan) bool{
		"snapkv": func(p *Plan) bool {
			return p.Score == Score{Kind: ScoreWindow, Window: 32} && p.Protect == Protect{Recent: 32}
		},
		"tova": func(p *Plan) bool {
			return p.Reduce.Kind == ReduceLayer && p.Decode.Kind == DecodeRow && p.Score.Window == 1
		},
		"h2o":      func(p *Plan) bool { return p.Decode.Kind == DecodeSums && !p.Score.PerQuery },
		"observed": func(p *Plan) bool { return p.Decode.Kind == DecodeCap && p.Score.PerQuery },
		"cake": func(p *Plan) bool {
			return p.Decode == Decode{Kind: DecodeRow, Pool: Pool{Kind: PoolAvg, Size: 5}, Recent: 32}
		},
		"compresskv":   func(p *Plan) bool { return p.Reduce.Kind == ReduceLayer && !p.Pool.After && p.Score.Heads == 4 },
		"quest":        func(p *Plan) bool { return p.Store.PageIn(0) == 0 && p.Store.PageIn(1) == 0 && p.Store.PageIn(2) == 16 },
		"full":         func(p *Plan) bool { return *p == Plan{} },
		"window":       func(p *Plan) bool { return p.Decode.Kind == DecodeOldest && p.Protect.Sinks == 0 && !p.Store.Rank },
		"streamingllm": func(p *Plan) bool { return p.Decode.Kind == DecodeOldest && p.Protect.Sinks == 4 && p.Store.Rank },
		"razor":        func(p *Plan) bool { return p.Store.Virtual && !p.Heads.Duo },
		"duo":          func(p *Plan) bool { return !p.Store.Virtual && p.Heads.Duo },
	} {
		if p := mustPlan(t, Recipe{Method: name}); !is(p) {
			t.Errorf("%s: plan %+v", name, *p)
		}
	}
}

// recipes are every method with its defaults, and every wrapper around every method that it can wrap.
func recipes(t *testing.T) map[string]Recipe {
	all := map[string]Recipe{}
	for _, m := range Methods() {
		if m.Wrapper {
			continue
		}
		r := Recipe{Method: m.Name}
		if err := r.Check(); err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		all[m.Name] = r
		for _, w := range Methods() {
			if !w.Wrapper {
				continue
			}
			r.Wraps = []Wrap{{Name: w.Name}}
			var refused *NameError
			switch err := r.Check(); {
			case err == nil:
				all[w.Name+"("+m.Name+")"] = r
			case !errors.As(err, &refused) || refused.Name != w.Name:
				t.Errorf("%s around %s: %v", w.Name, m.Name, err)
			}
		}
	}
	return all
}

func TestRecipeCheck(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name       string
		r          Recipe
		knob, text string // of the error; "" for none
	}{
		{"default", Recipe{Method: "snapkv"}, "", ""},
		{"at the ends", Recipe{Method: "snapkv", Knobs: map[string]float64{"window": 1, "kernel": 31}}, "", ""},
		{"no method", Recipe{}, "", `policy: "": no such method`},
		{"unknown method", Recipe{Method: "snap"}, "", `policy: "snap": no such method`},
		{"wrapper alone", Recipe{Method: "chunkkv"}, "", `policy: "chunkkv": a wrapper needs a method to wrap`},
		{"unknown knob", Recipe{Method: "snapkv", Knobs: map[string]float64{"windows": 4}}, "windows", "policy: snapkv: windows = 4: no such knob"},
		{"NaN", Recipe{Method: "snapkv", Knobs: map[string]float64{"window": nan}}, "window", "policy: snapkv: window = NaN: not a number"},
		{"infinite", Recipe{Method: "snapkv", Knobs: map[string]float64{"window": inf}}, "window", "policy: snapkv: window = +Inf: outside 1 to 256"},
		{"below", Recipe{Method: "snapkv", Knobs: map[string]float64{"window": 0}}, "window", "policy: snapkv: window = 0: outside 1 to 256"},
		{"broken", Recipe{Method: "snapkv", Knobs: map[string]float64{"window": 1.5}}, "window", "policy: snapkv: window = 1.5: not a whole number"},
		{"even kernel", Recipe{Method: "snapkv", Knobs: map[string]float64{"kernel": 4}}, "kernel", "policy: snapkv: kernel = 4: not 1 and whole steps of 2"},
		{"choice", Recipe{Method: "snapkv", Knobs: map[string]float64{"pool": 3}}, "pool", "policy: snapkv: pool = 3: outside 0 to 2"},
		{"unknown wrapper", Recipe{Method: "snapkv", Wraps: []Wrap{{Name: "x"}}}, "", `policy: "x": no such wrapper`},
		{"method as wrapper", Recipe{Method: "snapkv", Wraps: []Wrap{{Name: "tova"}}}, "", `policy: "tova": a method can't wrap another`},
		{"twice", Recipe{Method: "snapkv", Wraps: []Wrap{{Name: "chunkkv"}, {Name: "chunkkv"}}}, "", `policy: "chunkkv": wraps twice`},
		{"nothing to wrap", Recipe{Method: "full", Wraps: []Wrap{{Name: "chunkkv"}}}, "", `policy: "chunkkv": Full cache gives no scores`},
		{"two choices of tokens", Recipe{Method: "snapkv", Wraps: []Wrap{{Name: "chunkkv"}, {Name: "criticalkv"}}}, "", `policy: "criticalkv": another wrapper chooses tokens its way already`},
		{"values that weigh scores below zero", Recipe{Method: "knorm", Wraps: []Wrap{{Name: "adakv"}, {Name: "criticalkv"}}}, "", `policy: "criticalkv": Key norm scores below zero, where a weightier value would count less`},
		{"two budgets of heads", Recipe{Method: "headkv", Wraps: []Wrap{{Name: "adakv"}}}, "", `policy: "adakv": HeadKV gives heads budgets of its own`},
		{"wrapper's knob", Recipe{Method: "snapkv", Wraps: []Wrap{{Name: "chunkkv", Knobs: map[string]float64{"chunk": 1}}}}, "chunk", "policy: chunkkv: chunk = 1: outside 2 to 64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.r.Check()
			if got := errorText(err); got != c.text {
				t.Errorf("error %q, want %q", got, c.text)
			}
			var knob *KnobError
			if errors.As(err, &knob) != (c.knob != "") || knob != nil && knob.Knob != c.knob {
				t.Errorf("%v names no knob %q", err, c.knob)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Wrappers compose: each changes its own stage, in any order.
func TestWrappersCompose(t *testing.T) {
	for _, wraps := range [][]Wrap{{{Name: "adakv"}, {Name: "criticalkv"}}, {{Name: "criticalkv"}, {Name: "adakv"}}} {
		p, err := Recipe{Method: "snapkv", Knobs: map[string]float64{"window": 8}, Wraps: wraps}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		if p.Score.Window != 8 || !p.Score.Mean || p.Select.Kind != SelectCritical || p.Select.First != 0.5 || p.Heads.Kind != HeadsAdaptive {
			t.Errorf("%v: plan %+v", wraps, p)
		}
	}
}

// Heads with budgets of their own have sets of their own, in the prompt and in the answer.
func TestOwnBudgetsOwnSets(t *testing.T) {
	for _, r := range []Recipe{
		{Method: "tova", Wraps: []Wrap{{Name: "adakv"}}},
		{Method: "compresskv", Wraps: []Wrap{{Name: "adakv"}}},
		{Method: "adacompresskv"},
		{Method: "headcompresskv"},
	} {
		if p := mustPlan(t, r); p.Reduce.Kind != ReduceMean || p.Decode.Reduce.Kind != ReduceMean || p.Heads.Kind == HeadsUniform {
			t.Errorf("%+v: plan %+v", r, *p)
		}
	}
}

func TestObservation(t *testing.T) {
	for _, c := range [][3]int{{32, 2048, 32}, {32, 15, 3}, {32, 3, 1}, {8, 40, 8}, {8, 30, 7}} {
		if got := Observation(c[0], c[1]); got != c[2] {
			t.Errorf("Observation(%d, %d) = %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

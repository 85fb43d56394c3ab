package policy

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
)

// NameError says that a recipe names a method or wrapper that can't stand there.
type NameError struct {
	Name string
	Why  string
}

func (e *NameError) Error() string { return fmt.Sprintf("policy: %q: %s", e.Name, e.Why) }

// KnobError says which knob of a recipe is wrong.
type KnobError struct {
	Method, Knob string
	Value        float64
	Why          string
}

func (e *KnobError) Error() string {
	return fmt.Sprintf("policy: %s: %s = %v: %s", e.Method, e.Knob, e.Value, e.Why)
}

// Check says what is wrong with a recipe, as a *NameError or a *KnobError.
func (r Recipe) Check() error {
	_, err := r.Plan()
	return err
}

// Plan checks a recipe and fills its knobs into its stages.
func (r Recipe) Plan() (*Plan, error) {
	m := Find(r.Method)
	switch {
	case m == nil:
		return nil, &NameError{r.Method, "no such method"}
	case m.Wrapper:
		return nil, &NameError{r.Method, "a wrapper needs a method to wrap"}
	}
	knobs, err := m.fill(r.Knobs)
	if err != nil {
		return nil, err
	}
	p := m.plan(knobs)
	for i, wrap := range r.Wraps {
		w := Find(wrap.Name)
		switch {
		case w == nil:
			return nil, &NameError{wrap.Name, "no such wrapper"}
		case !w.Wrapper:
			return nil, &NameError{wrap.Name, "a method can't wrap another"}
		case slices.ContainsFunc(r.Wraps[:i], func(o Wrap) bool { return o.Name == wrap.Name }):
			return nil, &NameError{wrap.Name, "wraps twice"}
		case p.Score.Kind == ScoreNone:
			return nil, &NameError{wrap.Name, m.Title + " gives no scores"}
		}
		if knobs, err = w.fill(wrap.Knobs); err != nil {
			return nil, err
		}
		wrapped := w.wrap(p, knobs)
		switch {
		case p.Select.Kind != SelectTop && wrapped.Select != p.Select:
			return nil, &NameError{wrap.Name, "another wrapper chooses tokens its way already"}
		case wrapped.Select.Kind == SelectCritical && p.Score.signed():
			return nil, &NameError{wrap.Name, m.Title + " scores below zero, where a weightier value would count less"}
		case p.Heads.Kind != HeadsUniform && wrapped.Heads != p.Heads:
			return nil, &NameError{wrap.Name, m.Title + " gives heads budgets of its own"}
		}
		p = wrapped
	}
	return &p, nil
}

// Needs are the head tables that a recipe uses, its wrappers' among them.
func (r Recipe) Needs() Needs {
	var n Needs
	add := func(name string) {
		if m := Find(name); m != nil {
			n.Semantic = n.Semantic || m.Needs.Semantic
			n.Retrieval = n.Retrieval || m.Needs.Retrieval
			n.Induction = n.Induction || m.Needs.Induction
			n.Errors = n.Errors || m.Needs.Errors
		}
	}
	add(r.Method)
	for _, w := range r.Wraps {
		add(w.Name)
	}
	return n
}

// fill checks given knobs and adds the defaults of the others.
func (m *Method) fill(given map[string]float64) (Knobs, error) {
	names := slices.Collect(maps.Keys(given))
	sort.Slice(names, func(a, b int) bool { return names[a] < names[b] })
	for _, name := range names {
		i := slices.IndexFunc(m.Knobs, func(k Knob) bool { return k.Name == name })
		if i < 0 {
			return nil, &KnobError{m.Name, name, given[name], "no such knob"}
		}
		if why := m.Knobs[i].wrong(given[name]); why != "" {
			return nil, &KnobError{m.Name, name, given[name], why}
		}
	}
	k := make(Knobs, len(m.Knobs))
	for _, knob := range m.Knobs {
		k[knob.Name] = knob.Default
	}
	maps.Copy(k, given)
	return k, nil
}

// wrong says what is wrong with a value, "" if nothing is.
func (k *Knob) wrong(v float64) string {
	switch {
	case math.IsNaN(v):
		return "not a number"
	case v < k.Min || v > k.Max:
		return fmt.Sprintf("outside %v to %v", k.Min, k.Max)
	case k.Kind != KnobFloat && v != math.Trunc(v):
		return "not a whole number"
	case k.Step > 0 && math.Mod(v-k.Min, k.Step) != 0:
		return fmt.Sprintf("not %v and whole steps of %v", k.Min, k.Step)
	}
	return ""
}

func (k Knobs) integer(name string) int { return int(k[name]) }
func (k Knobs) is(name string) bool     { return k[name] != 0 }

// Observation is the observation window to begin with for a budget of so many tokens a list: the published one, or a
// quarter of the budget. With a window as large as the budget, every method that has one is a sliding window.
func Observation(published, tokens int) int {
	return min(published, max(1, tokens/4))
}

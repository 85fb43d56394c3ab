package main

import (
	"strings"

	"kvlens/cache/policy"
)

// schema describes every recipe, as JSON Schema. What a form needs beside it has names that begin with "x-".
func schema() map[string]any {
	var methods, wrappers []any
	for _, m := range policy.Methods() {
		s := map[string]any{
			"title": m.Title, "description": m.Rule, "type": "object",
			"x-paper": m.Paper, "x-looks": m.Looks, "x-when": m.When, "x-granularity": m.Granularity,
			"x-lossy": m.Lossy, "x-question": m.Question, "x-stops": m.Stops, "x-needs": needs(m.Needs),
		}
		name := "method"
		if m.Wrapper {
			name = "name"
		}
		s["required"] = []string{name}
		s["properties"] = map[string]any{name: map[string]any{"const": m.Name}, "knobs": knobSchema(m.Knobs)}
		if m.Wrapper {
			s["additionalProperties"] = false
			wrappers = append(wrappers, s)
		} else {
			methods = append(methods, s)
		}
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Recipe", "type": "object", "oneOf": methods,
		"properties":            map[string]any{"wraps": map[string]any{"type": "array", "items": map[string]any{"oneOf": wrappers}}},
		"unevaluatedProperties": false,
	}
}

func needs(n policy.Needs) []string {
	out := []string{}
	for _, need := range []struct {
		name string
		is   bool
	}{{"semantic", n.Semantic}, {"retrieval", n.Retrieval}, {"induction", n.Induction}, {"errors", n.Errors}} {
		if need.is {
			out = append(out, need.name)
		}
	}
	return out
}

func knobSchema(knobs []policy.Knob) map[string]any {
	of := map[string]any{}
	for _, k := range knobs {
		s := map[string]any{"description": k.Help, "minimum": k.Min, "maximum": k.Max, "default": k.Default, "type": "integer"}
		switch k.Kind {
		case policy.KnobFloat:
			s["type"] = "number"
		case policy.KnobBool:
			s["x-kind"] = "switch"
		case policy.KnobChoice:
			s["x-choices"] = k.Choices
		}
		if k.Step > 0 {
			s["x-step"] = k.Step
		}
		of[k.Name] = s
	}
	return map[string]any{"type": "object", "properties": of, "additionalProperties": false}
}

// readmeTable is the README's table of policies.
func readmeTable() string {
	var b strings.Builder
	b.WriteString("| policy | rule | looks at | acts | granularity | published as |\n|---|---|---|---|---|---|\n")
	for _, m := range policy.Methods() {
		title := m.Title
		if m.Wrapper {
			title += " (around others)"
		}
		b.WriteString("| " + strings.Join([]string{title, m.Rule, m.Looks, m.When, m.Granularity, m.Paper}, " | ") + " |\n")
	}
	return b.String()
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"

	"kvlens/cache/policy"
	"kvlens/wasm/heads"
	"kvlens/wasm/llama"
)

// recipeInput are the settings of a session that may drop tokens.
type recipeInput struct {
	Recipe string `json:"recipe" help:"what stays when the cache is full, as 'snapkv window=8 + adakv'; the default is full: everything"`
	Budget int    `json:"budget" help:"tokens a list instead of what the cap allows"`
	Parity bool   `json:"parity" help:"published triggers, and growth while decoding, instead of a cap that always holds"`
	Tables string `json:"tables" help:"a file of head tables instead of those that come with the program"`
}

// recipeOutput is what a recipe made of the prompt.
type recipeOutput struct {
	policy.Recipe
	Budget  int         `json:"budget"`  // tokens a list on average
	Reserve int         `json:"reserve"` // slots beyond it
	Window  int         `json:"window,omitempty"`
	Caps    [][]int     `json:"caps"` // tokens that a list may hold, [layers][n_kv_heads]
	Kept    [][][]int32 `json:"kept"` // positions after the prompt, [layers][n_kv_heads]
}

// options makes session options; tokens is what the full cache would hold.
func (in *recipeInput) options(s *source, tokens int) (o llama.SessionOptions, err error) {
	o = llama.SessionOptions{Tokens: tokens, Budget: in.Budget, Parity: in.Parity}
	if in.Recipe == "" {
		return o, nil
	}
	if o.Recipe, err = parseRecipe(in.Recipe); err != nil {
		return o, err
	}
	o.Tables, err = s.tables(in.Tables)
	if errors.Is(err, heads.ErrUnknown) {
		return o, nil // a recipe that needs them says so
	}
	return o, err
}

// output describes what stays; nil for a session that was not given a recipe.
func (in *recipeInput) output(e *engine) *recipeOutput {
	if in.Recipe == "" {
		return nil
	}
	b := e.Session.Budget()
	out := &recipeOutput{Recipe: e.Session.Recipe(), Budget: b.Tokens, Reserve: b.Reserve, Caps: e.Caps()}
	out.Window, _ = e.Window()
	c := e.model.Config()
	for layer := range c.Layers {
		var kept [][]int32
		for h := range c.KVHeads {
			kept = append(kept, e.Kept(layer, h))
		}
		out.Kept = append(out.Kept, kept)
	}
	return out
}

// tables are those of a file, or what the program knows of the model.
func (s *source) tables(path string) (*policy.Tables, error) {
	if path != "" {
		return readTables(path)
	}
	sha, err := s.sum()
	if err != nil {
		return nil, err
	}
	return heads.For(sha)
}

// parseRecipe reads a recipe: a JSON object as the schema describes it, or its short form, in which a method and its
// wrappers are joined by "+" and each is followed by its knobs: "snapkv window=8 kernel=7 + adakv alpha=0.2".
func parseRecipe(text string) (policy.Recipe, error) {
	var r policy.Recipe
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			return r, usageError("recipe: %v", err)
		}
	} else {
		for i, part := range strings.Split(text, "+") {
			name, knobs, err := parseMethod(part)
			if err != nil {
				return r, err
			}
			if i == 0 {
				r.Method, r.Knobs = name, knobs
			} else {
				r.Wraps = append(r.Wraps, policy.Wrap{Name: name, Knobs: knobs})
			}
		}
	}
	if err := r.Check(); err != nil {
		return r, usageError("recipe: %v", err)
	}
	return r, nil
}

func parseMethod(text string) (name string, knobs map[string]float64, err error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return "", nil, usageError("recipe: a name is missing")
	}
	for _, word := range words[1:] {
		knob, value, _ := strings.Cut(word, "=")
		x, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return "", nil, usageError("recipe: %q is no knob=number", word)
		}
		if knobs == nil {
			knobs = map[string]float64{}
		}
		knobs[knob] = x
	}
	return words[0], knobs, nil
}

// readTables reads a file of head tables.
func readTables(path string) (*policy.Tables, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	t := new(policy.Tables)
	if err := d.Decode(t); err != nil {
		return nil, usageError("tables %s: %v", path, err)
	}
	return t, nil
}

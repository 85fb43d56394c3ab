//go:build !js

package ui

import (
	"slices"
	"strings"
	"testing"

	"kvlens/app/state"
	"kvlens/cache/policy"
	"kvlens/wasm/proto"
)

// Every registered method, wrapper, knob and choice has its words, and its place in the chooser.
func TestEveryMethodHasWords(t *testing.T) {
	for _, lang := range state.Languages {
		c := words(t, lang)
		need := func(keys ...string) {
			for _, k := range keys {
				if !c.Has(k) {
					t.Errorf("%s lacks %s", lang, k)
				}
			}
		}
		var listed []string
		for _, g := range groups {
			need("policy.group." + g.name)
			listed = append(listed, g.methods...)
		}
		for _, m := range policy.Methods() {
			need("policy."+m.Name, "policy."+m.Name+".rule")
			if !m.Wrapper {
				need("policy."+m.Name+".looks", "policy."+m.Name+".when", "policy."+m.Name+".grain")
				if n := len(slices.DeleteFunc(slices.Clone(listed), func(s string) bool { return s != m.Name })); n != 1 {
					t.Errorf("%s is %d times in the chooser", m.Name, n)
				}
			}
			for _, k := range m.Knobs {
				key := settingKey(c, m.Name, k.Name)
				need(key, key+".help")
				for _, x := range k.Choices {
					need("choice." + x)
				}
				// In English the sentence is the registry's own, so that the two can't part.
				if lang == "en" && c.T(key+".help") != k.Help && key+".help" != "setting.sinks.help" {
					t.Errorf("%s says %q, the registry %q", key, c.T(key+".help"), k.Help)
				}
			}
			if lang == "en" && c.T("policy."+m.Name+".rule") != m.Rule {
				t.Errorf("the rule of %s is not the registry's", m.Name)
			}
		}
		for _, name := range decodeNames {
			need("policy.decode." + name)
		}
		for _, k := range keeps {
			need("keeps." + k.name)
		}
	}
}

// The signs of the reasons differ, so that nothing depends on colour.
func TestSignsDiffer(t *testing.T) {
	seen := map[string]bool{goneSign: true}
	for i, k := range keeps {
		if seen[k.sign] || k.sign == "" {
			t.Errorf("reason %d has the sign %q of another", i, k.sign)
		}
		seen[k.sign] = true
	}
}

// Whoever listens hears how a turn ended, also one that was stopped before its first word and is gone from the page.
func TestAStopIsAnnounced(t *testing.T) {
	c := newController(words(t, "en"), noHost{})
	c.reduce(state.Start{Offers: []state.Offer{{Manifest: "a.json", BuiltIn: true}}})
	c.reduce(state.Opened{Opened: proto.Opened{Modes: []uint8{uint8(proto.Story)}}})
	for _, steps := range []bool{false, true} {
		c.reduce(state.Run{})
		want := "say.halted"
		if steps {
			c.reduce(state.Stepped{Steps: []proto.Step{{Text: "no"}}})
			want = "say.stopped"
		}
		c.reduce(state.Halt{})
		c.reduce(state.Ended{Done: proto.Done{Reason: proto.ReasonStopped}})
		if got := c.live.message; got != c.t(want, "text", "no") || c.model.Phase != state.Idle {
			t.Errorf("with steps %v: %q in phase %v", steps, got, c.model.Phase)
		}
	}
}

func TestFateLetters(t *testing.T) {
	c := newController(words(t, "en"), noHost{})
	if got := fate(c.columns(), 0, 1); got != "-0" {
		t.Errorf("of no cache: %q", got)
	}
	// Two lists of nine tokens: 0 in both, 1 in one, 2 in none.
	c.reduce(state.Keeps{Kept: proto.Kept{
		Tokens: 9, Layers: 1, KVHeads: 2, Budget: 2, Bits: []uint8{1 | 2, 0, 1, 0},
		Reasons: []uint8{1, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}, Caps: []uint32{2, 2},
	}})
	for at, want := range map[int]string{0: "b8", 1: "d4", 2: "x0", 9: "-0"} {
		if got := fate(c.columns(), at, 1); got != want {
			t.Errorf("position %d: %q, want %q", at, got, want)
		}
	}
	c.reduce(state.SetScope{Scope: state.Scope{Layer: 0, Head: 1}})
	if got := fate(c.columns(), 1, 1); got != "x0" {
		t.Errorf("in the second head: %q", got)
	}
	if got := c.scopeText(); got != "layer 1 · head 2 · kept 1 of 9" {
		t.Errorf("%q", got)
	}
	if got := fate(c.columns(), 0, 2); got != "b4" { // a character of two tokens
		t.Errorf("of two tokens: %q", got)
	}
}

func TestBars(t *testing.T) {
	outline, filled := bars([]int{10, 20}, []int{5, 20}, 1)
	if outline != "M15.0 71v-35.0h120.0v35.0zM225.0 71v-70.0h120.0v70.0z" || strings.Count(filled, "M") != 2 || !strings.Contains(filled, "v-17.5") {
		t.Errorf("%s\n%s", outline, filled)
	}
	if _, filled := bars([]int{0}, []int{0}, 1); !strings.Contains(filled, "v-0.0") {
		t.Errorf("of nothing: %s", filled)
	}
}

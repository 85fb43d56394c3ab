package state

import (
	"reflect"
	"strings"
	"testing"
)

func TestSettingsAreClampedAndSaved(t *testing.T) {
	m := ready(t)
	for _, c := range []struct {
		knob     Knob
		in, want float64
	}{
		{Temperature, 9, 2},
		{Temperature, -1, 0},
		{TopK, 3.6, 4},
		{TopP, 0, 0.05},
		{MinP, 0.25, 0.25},
		{Repeat, 0, 1},
		{Seed, 1e12, 4294967295},
		{Seed, 42, 42},
		{MaxTokens, 0, 1},
		{MaxTokens, 1e9, 1024},
	} {
		got, _ := Reduce(m, SetSampling{c.knob, c.in})
		if v := got.Value(c.knob); float32(v) != float32(c.want) {
			t.Errorf("knob %d: %v became %v, want %v", c.knob, c.in, v, c.want)
		}
	}
	m, effects := play(t, m, SetTheme{"dark"})
	if m.Theme != "dark" || !reflect.DeepEqual(effects, []Effect{Save{KeyTheme, "dark"}}) {
		t.Errorf("theme %q, %v", m.Theme, effects)
	}
	if _, effects = play(t, m, SetLang{"zh"}); !reflect.DeepEqual(effects, []Effect{Fetch{"zh"}}) {
		t.Errorf("language: %v", effects)
	}
	if m, effects = play(t, m, LangReady{"zh"}); m.Lang != "zh" || !reflect.DeepEqual(effects, []Effect{Save{KeyLang, "zh"}}) {
		t.Errorf("language %q, %v", m.Lang, effects)
	}
}

func TestPresetKeepsTheSystemLine(t *testing.T) {
	m, _ := play(t, ready(t), Edit{System, "be brief"}, Edit{Story, "mine"}, Preset{Draft{Preset: "q", Story: "s"}})
	if m.Draft.System != "be brief" || m.Draft.Story != "s" || m.Draft.Preset != "q" {
		t.Errorf("draft: %+v", m.Draft)
	}
	if m, _ = play(t, m, Edit{Story, "mine"}); m.Draft.Preset != "" || m.Draft.More != nil {
		t.Error("an edited story still counts as the preset")
	}
}

func TestSnapshotNamesWhatTestsNeed(t *testing.T) {
	s := string(Snapshot(answered(t)))
	for _, want := range []string{`"phase":"idle"`, `"text":" here."`, `"reason":"stop-text"`, `"kind":"kv-f16"`, `"problem":null`, `"mode":"story"`} {
		if !strings.Contains(s, want) {
			t.Errorf("no %s in %s", want, s)
		}
	}
}

package stories

import (
	"strings"
	"testing"
)

// A new story keeps what the presets keep: its answers stand in it once, and its questions do not give them away.
func TestNewStories(t *testing.T) {
	seen := map[string]bool{}
	for _, lang := range []string{"en", "zh"} {
		for seed := range uint64(60) {
			s := New(lang, seed, 120)
			if n := CountWords(s.Text); n < 110 || n > 160 {
				t.Errorf("%s %d: %d words", lang, seed, n)
			}
			if len(s.Asks) != 3 || s.Lang != lang || s.Text != New(lang, seed, 120).Text {
				t.Errorf("%s %d: %d questions, or not the same story again", lang, seed, len(s.Asks))
			}
			for _, a := range s.Asks {
				if strings.Count(s.Text, a.Answer) != 1 || strings.Contains(a.Question, a.Answer) {
					t.Errorf("%s %d: %q %q in %q", lang, seed, a.Question, a.Answer, s.Text)
				}
			}
			seen[s.Text] = true
		}
	}
	if len(seen) != 120 {
		t.Errorf("%d different stories of 120", len(seen))
	}
	if s := New("en", 1, 0); len(s.Asks) != 3 {
		t.Error("a story without room for filler still asks")
	}
}

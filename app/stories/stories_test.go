package stories

import (
	"strings"
	"testing"
)

// A story must hold the answers to its own questions, each only once: otherwise a right answer would prove nothing.
func TestAnswersStandInTheirStory(t *testing.T) {
	for _, lang := range []string{"en", "zh"} {
		for _, s := range All(lang) {
			if s.Lang != lang {
				t.Errorf("%s/%s: language %q", lang, s.ID, s.Lang)
			}
			if len(s.Asks) < 2 {
				t.Errorf("%s/%s: want a second question for the second turn", lang, s.ID)
			}
			for _, a := range s.Asks {
				if n := strings.Count(s.Text, a.Answer); n != 1 {
					t.Errorf("%s/%s: %q stands in the story %d times, want once", lang, s.ID, a.Answer, n)
				}
				if strings.Contains(a.Question, a.Answer) {
					t.Errorf("%s/%s: the question %q gives its answer away", lang, s.ID, a.Question)
				}
			}
		}
	}
}

// The languages offer the same stories with the same number of questions, so that switching the language keeps the choice.
func TestLanguagesOfferTheSame(t *testing.T) {
	en, zh := All("en"), All("zh")
	if len(en) == 0 || len(en) != len(zh) {
		t.Fatalf("%d stories in English, %d in Chinese", len(en), len(zh))
	}
	seen := map[string]bool{}
	for i := range en {
		if en[i].ID != zh[i].ID || len(en[i].Asks) != len(zh[i].Asks) {
			t.Errorf("story %d: %s with %d questions, %s with %d", i, en[i].ID, len(en[i].Asks), zh[i].ID, len(zh[i].Asks))
		}
		if seen[en[i].ID] {
			t.Errorf("two stories are called %s", en[i].ID)
		}
		seen[en[i].ID] = true
		if s, ok := Find("zh", en[i].ID); !ok || s.Text != zh[i].Text {
			t.Errorf("Find does not find %s", en[i].ID)
		}
	}
	if All("xx") != nil {
		t.Error("an unknown language has stories")
	}
}

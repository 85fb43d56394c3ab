package tokenizer

import (
	"slices"
	"testing"
)

// TestSmolLM follows the two-stage rule by hand where its cases meet.
func TestSmolLM(t *testing.T) {
	for text, want := range map[string][]string{
		"a b":           {"a", " b"},
		"a  b":          {"a", " ", " b"},
		"a   b":         {"a", "  ", " b"},
		"a   ":          {"a", "   "},
		"   123":        {"   ", "1", "2", "3"},
		" 1 a":          {" ", "1", " a"},
		"a \n b":        {"a", " \n", " b"},
		"a\nb":          {"a", "\n", "b"},
		"a\n\nb":        {"a", "\n", "\n", "b"},
		"a\t.":          {"a", "\t", "."},
		"a .":           {"a", " ."},
		"x\u00a0y":      {"x", "\u00a0", "y"},
		"x \u00a0y":     {"x", " ", "\u00a0", "y"},
		"x\u00a0 y":     {"x", "\u00a0", " y"},
		"it's":          {"it", "'s"},
		"it'S":          {"it", "'", "S"},
		"they'really":   {"they", "'re", "ally"},
		" 'll":          {" '", "ll"},
		"''ve":          {"''", "ve"},
		"'d1've":        {"'d", "1", "'ve"},
		"½x²":           {"½", "x", "²"},
		"Ⅷ٣3":           {"Ⅷ", "٣", "3"},
		"e\u0301a":      {"e", "\u0301", "a"}, // a combining mark is no letter
		"好，吗":           {"好", "，", "吗"},
		" 好":            {" 好"},
		"a\xff\xfeb":    {"a", "\xff\xfe", "b"},
		"\u200b \u200b": {"\u200b", " \u200b"},
		"\u0085\u3000":  {"\u0085\u3000"},
	} {
		var got []string
		for rest := text; rest != ""; {
			n := nextSmolLM(rest)
			got = append(got, rest[:n])
			rest = rest[n:]
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

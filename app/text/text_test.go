//go:build !js

package text

import (
	"strings"
	"testing"
)

func mustParse(t *testing.T, lang, data string) *Catalogue {
	t.Helper()
	c, err := Parse(lang, []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestMessages(t *testing.T) {
	const data = `{
		"plain": "as it is",
		"name": "{who} and {who}, {n}",
		"number": "{n, number} of #",
		"plural": "{n, plural, one {# token by {who}} other {# tokens by {who}}}!",
		"other": "{n, plural, other {#个}}"
	}`
	en, zh := mustParse(t, "en", data), mustParse(t, "zh", data)
	for _, c := range []struct {
		words *Catalogue
		key   string
		args  []any
		want  string
	}{
		{en, "plain", nil, "as it is"},
		{en, "name", []any{"who", "Ming", "n", 1234}, "Ming and Ming, 1,234"},
		{en, "name", nil, "{who} and {who}, {n}"},
		{en, "number", []any{"n", uint64(1234567)}, "1,234,567 of #"},
		{en, "plural", []any{"n", 1, "who", "x"}, "1 token by x!"},
		{en, "plural", []any{"n", 0, "who", "x"}, "0 tokens by x!"},
		{en, "plural", []any{"n", uint32(2048), "who", "x"}, "2,048 tokens by x!"},
		{zh, "plural", []any{"n", 1, "who", "x"}, "1 tokens by x!"}, // Chinese has one form
		{zh, "other", []any{"n", int64(-5)}, "−5个"},
		{en, "missing", nil, "⟦missing⟧"},
		{nil, "plain", nil, ""},
	} {
		if got := c.words.T(c.key, c.args...); got != c.want {
			t.Errorf("%s %v: %q, want %q", c.key, c.args, got, c.want)
		}
	}
	if !en.Has("plain") || en.Has("missing") || (*Catalogue)(nil).Has("plain") || en.Lang() != "en" || (*Catalogue)(nil).Lang() != "" {
		t.Error("Has or Lang")
	}
}

func TestMessagesThatCannotBeRead(t *testing.T) {
	for _, m := range []string{
		"{", "}", "{n", "{}", "{n, date}", "{n, plural, one {x}}", "{n, plural, other {x}", "{n, plural, few {x} other {y}}", "{a {b}}", "x} y",
	} {
		_, err := Parse("en", []byte(`{"the.key": "`+m+`"}`))
		if err == nil || !strings.Contains(err.Error(), "the.key") {
			t.Errorf("%q: error %v", m, err)
		}
	}
	if _, err := Parse("en", []byte(`[]`)); err == nil {
		t.Error("a list is no catalogue")
	}
}

func TestNumbers(t *testing.T) {
	c, err := Load("en")
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[uint64]string{
		0: "0 bytes", 1: "1 byte", 1023: "1,023 bytes", 1024: "1 KiB", 1280: "1.25 KiB", 23040: "22.5 KiB", 75981: "74.2 KiB",
		1<<20 - 1: "1 MiB", 1 << 20: "1 MiB", 98362432: "93.8 MiB", 1127428915: "1.05 GiB", 64 << 30: "64 GiB", 1023 << 10: "1,023 KiB", 5000 << 30: "5,000 GiB",
	} {
		if got := c.Bytes(n); got != want {
			t.Errorf("%d bytes: %q, want %q", n, got, want)
		}
	}
	for p, want := range map[float64]string{
		0: "0 %", 1: "100 %", 0.98: "98 %", 0.032: "3.2 %", 0.9996: "99.96 %", 0.99999: "99.99 %", 0.0005: "0.05 %", 0.00001: "under 0.01 %",
	} {
		if got := c.Percent(p); got != want {
			t.Errorf("%v: %q, want %q", p, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 9.994: "9.99", 9.996: "10", 21.44: "21.4", 337.2: "337", 1234.5: "1,235", -0.5: "-0.5"} {
		if got := c.Decimal(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
	zero := 0.0
	if got := c.Decimal(1 / zero); got != "–" {
		t.Errorf("infinity: %q", got)
	}
}

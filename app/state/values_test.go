package state

import (
	"reflect"
	"testing"
)

func TestParseQuery(t *testing.T) {
	for query, want := range map[string]Options{
		"":                                     {Seed: DefaultSeed},
		"?lang=zh&backend=cpu&seed=42":         {Lang: "zh", Backend: "cpu", Seed: 42},
		"?backend=webgpu-int8":                 {Backend: "webgpu-int8", Seed: DefaultSeed},
		"lang=zh-Hans-CN":                      {Lang: "zh", Seed: DefaultSeed},
		"?lang=fr":                             {Seed: DefaultSeed, Notices: []Notice{{"notice.lang", []string{"fr"}}}},
		"?backend=<script>":                    {Seed: DefaultSeed, Notices: []Notice{{"notice.backend", []string{"<script>"}}}},
		"?seed=-1":                             {Seed: DefaultSeed, Notices: []Notice{{"notice.seed", []string{"-1", "7"}}}},
		"?seed=4294967296":                     {Seed: DefaultSeed, Notices: []Notice{{"notice.seed", []string{"4294967296", "7"}}}},
		"?seed=4294967295":                     {Seed: 4294967295},
		"?%zz&seed=3":                          {Seed: 3, Notices: []Notice{{Key: "notice.address"}}},
		"?lang=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": {Seed: DefaultSeed, Notices: []Notice{{"notice.lang", []string{"aaaaaaaaaaaaaaaaaaaaaaaa…"}}}},
	} {
		if got := ParseQuery(query); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", query, got, want)
		}
	}
}

func TestChooseLang(t *testing.T) {
	for _, c := range []struct {
		asked, saved string
		browser      []string
		want         string
	}{
		{"", "", nil, "en"},
		{"", "", []string{"fr-FR", "zh-TW", "en"}, "zh"},
		{"", "en", []string{"zh"}, "en"},
		{"zh", "en", []string{"en"}, "zh"},
		{"xx", "zz", []string{"de", "ZH_cn"}, "zh"},
	} {
		if got := ChooseLang(c.asked, c.saved, c.browser); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestParseOffers(t *testing.T) {
	got, err := ParseOffers([]byte(`{"models":[{"manifest":"teach.json","id":"teach","name":"T","licence":"MIT","size":3},{"manifest":"big/manifest.json","id":"b"}]}`))
	want := []Offer{{Manifest: "teach.json", ID: "teach", Name: "T", Licence: "MIT", Size: 3, BuiltIn: true}, {Manifest: "big/manifest.json", ID: "b"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{`{`, `{"models":[{"manifest":""}]}`, `{"models":[{"manifest":"../x"}]}`, `{"models":[{"manifest":"https://elsewhere/x"}]}`, `{"models":[{"manifest":"/x"}]}`} {
		if got, err := ParseOffers([]byte(bad)); err == nil {
			t.Errorf("%s: %+v", bad, got)
		}
	}
}

// The shares are of what the last turn takes in full, on the arena's unit of 16 bytes.
func TestSharesOfTheCache(t *testing.T) {
	m := Memory{Default: 2 << 20, TokenBytes: 1024}
	if m.Full() != 2<<20 || m.Share(50) != 1<<20 || m.Share(0) != 0 {
		t.Errorf("before a turn: full %d, half %d", m.Full(), m.Share(50))
	}
	m.Need = 62 * 1024
	if got := m.Share(25); got != 15872 {
		t.Errorf("a quarter of 62 tokens: %d bytes", got)
	}
	if got := m.Share(35); got != 22224 { // 22220.8 rounded up to 16
		t.Errorf("35 %%: %d bytes", got)
	}
	m.Need = 9 << 20
	if m.Full() != 2<<20 {
		t.Error("more than the default cap counts as full")
	}
}

func TestLangOf(t *testing.T) {
	for text, want := range map[string]string{"": "en", "abc 123": "en", "a 中 b": "zh", "ñé": "en"} {
		if got := LangOf(text); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}

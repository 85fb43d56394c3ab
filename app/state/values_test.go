package state

import (
	"net/url"
	"reflect"
	"strings"
	"testing"
)

func TestParseAddress(t *testing.T) {
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
		want.Policy = fullCache()
		if got := ParseAddress(query, "#main"); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", query, got, want)
		}
	}
}

func TestNonsenseInTheAddressIsToldInAFewSentences(t *testing.T) {
	o := ParseAddress("?lang=fr", "#wrap="+strings.Repeat("odd+", 1000)+"&cap=-1")
	if n := len(o.Notices); n != mostNotices || o.Notices[0].Key != "notice.lang" || o.Notices[n-1].Key != "notice.address" {
		t.Errorf("%d notices: %v", n, o.Notices[:min(n, 9)])
	}
}

// A browser hands over any fragment; go-app ends at an address that net/url does not take.
func TestReadableFragments(t *testing.T) {
	for fragment, want := range map[string]string{
		"":                    "",
		"#cap=25&pol=snapkv":  "#cap=25&pol=snapkv",
		"#pol=%73nap%4bv%2B":  "#pol=%73nap%4bv%2B",
		"#cap=%zz":            "#cap=%25zz",
		"#%":                  "#%25",
		"#a%4":                "#a%254",
		"#%%41%":              "#%25%41%25",
		"#%FF%00<b>%u4e2d 中%": "#%FF%00<b>%25u4e2d 中%25",
	} {
		got := Readable(fragment)
		if got != want {
			t.Errorf("%q: %q, want %q", fragment, got, want)
		}
		if _, err := url.Parse("https://example.org/" + got); err != nil {
			t.Error(err)
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

func TestLangOf(t *testing.T) {
	for text, want := range map[string]string{"": "en", "abc 123": "en", "a 中 b": "zh", "ñé": "en"} {
		if got := LangOf(text); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}

package state

import (
	"net/url"
	"strconv"
	"strings"
)

// Options are what the address of the page asks for.
type Options struct {
	Lang    string // "" when not asked for
	Backend string
	Seed    uint32
	Policy  Policy
	Rival   Policy   // B of a comparison; without a method there is none
	Notices []Notice // what was asked for and cannot be had
}

// mostNotices is how many notices an address is worth.
const mostNotices = 4

// DefaultSeed is the seed when the address names none: the same question gives the same answer on every visit.
const DefaultSeed = 7

// Languages are the languages of the page, the first being the one to fall back to.
var Languages = []string{"en", "zh"}

// Backends are the ones that the address may ask for.
var Backends = []string{"cpu", "ref", "webgpu"}

// unlisted is a backend that the address may ask for and the page does not offer: WebGPU with activations in 8 bits, for
// measurements.
const unlisted = "webgpu-int8"

// ParseAddress reads the query of the page's address, and its fragment, which holds the policy. Anything odd is left out
// with a notice, never passed on.
func ParseAddress(query, fragment string) Options {
	o := Options{Seed: DefaultSeed}
	q, err := url.ParseQuery(strings.TrimPrefix(query, "?"))
	asked, odd := url.ParseQuery(strings.TrimPrefix(fragment, "#"))
	if err != nil || odd != nil && strings.Contains(fragment, "=") { // else it names a place on the page
		o.Notices = append(o.Notices, Notice{Key: "notice.address"})
	}
	if v := q.Get("lang"); v != "" {
		if o.Lang = matchLanguage(v); o.Lang == "" {
			o.Notices = append(o.Notices, Notice{Key: "notice.lang", Args: []string{clip(v)}})
		}
	}
	if v := q.Get("backend"); v != "" {
		if contains(Backends, v) || v == unlisted {
			o.Backend = v
		} else {
			o.Notices = append(o.Notices, Notice{Key: "notice.backend", Args: []string{clip(v)}})
		}
	}
	if v := q.Get("seed"); v != "" {
		n, err := strconv.ParseUint(v, 10, 32)
		if err == nil {
			o.Seed = uint32(n)
		} else {
			o.Notices = append(o.Notices, Notice{Key: "notice.seed", Args: []string{clip(v), strconv.Itoa(DefaultSeed)}})
		}
	}
	p, notices := policyOf(asked)
	o.Policy, o.Notices = p, append(o.Notices, notices...)
	o.Rival, notices = rivalOf(asked)
	o.Notices = append(o.Notices, notices...)
	if len(o.Notices) > mostNotices { // an address of nothing but nonsense must not fill the page
		o.Notices = append(o.Notices[:mostNotices-1:mostNotices-1], Notice{Key: "notice.address"})
	}
	return o
}

// Readable is a fragment whose percent signs all begin an escape. A browser takes any; net/url, and with it the framework,
// takes none of an address that has another.
func Readable(fragment string) string {
	var b strings.Builder
	for i := range len(fragment) {
		b.WriteByte(fragment[i])
		if fragment[i] != '%' {
			continue
		}
		if _, err := url.PathUnescape(fragment[i:min(i+3, len(fragment))]); err != nil {
			b.WriteString("25")
		}
	}
	return b.String()
}

// ChooseLang picks the language: the address, then the saved choice, then the browser's list.
func ChooseLang(asked, saved string, browser []string) string {
	for _, v := range append([]string{asked, saved}, browser...) {
		if l := matchLanguage(v); l != "" {
			return l
		}
	}
	return Languages[0]
}

// matchLanguage maps a language tag ("zh-Hans-CN") to one of Languages, or "".
func matchLanguage(tag string) string {
	primary, _, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(tag, "_", "-")), "-")
	if contains(Languages, primary) {
		return primary
	}
	return ""
}

func contains(list []string, v string) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

// clip shortens foreign text before it is shown.
func clip(s string) string {
	const most = 24
	r := []rune(s)
	if len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

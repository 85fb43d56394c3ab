//go:build !js

package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// TestFits looks at the page with an answer on it: no width makes it scroll sideways, in no language and no theme.
func TestFits(t *testing.T) {
	needBrowser(t)
	h := startHost(t)
	for _, lang := range []string{"en", "zh"} {
		v := open(t, h, lang, 1440, 900)
		v.load("")
		v.wait("the built-in model", `s.phase === "idle" && s.opened`)
		v.ask("run")
		for _, theme := range []string{"light", "dark"} {
			_, err := chromedp.Call(v.b.Ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, size := range [][2]int{{1920, 1080}, {1440, 900}, {768, 1024}, {390, 844}, {320, 640}} {
				v.size = size
				v.do("resize", chromedp.EmulateViewport(int64(size[0]), int64(size[1])))
				eval[bool](v, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
				v.shot("fits-" + theme)
				if wide := eval[int](v, `document.documentElement.scrollWidth`); wide > size[0] {
					v.Errorf("%s, %s: the page is %d pixels wide in a window of %d", lang, theme, wide, size[0])
				}
			}
		}
		v.clean()
	}
}

// TestFitsWhatReadersDo writes words without an end, sets type of twice the size and walks the page with the Tab key: it
// stays as wide as the window, and what has the focus is not under a bar.
func TestFitsWhatReadersDo(t *testing.T) {
	needBrowser(t)
	h := startHost(t)
	v := open(t, h, "en", 390, 844)
	wide := func(what string) {
		t.Helper()
		eval[bool](v, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
		if wide := eval[int](v, `document.documentElement.scrollWidth`); wide > v.size[0] {
			v.Errorf("%s: the page is %d pixels wide in a window of %d", what, wide, v.size[0])
		}
	}
	long := strings.Repeat("w", 300)
	v.load("&backend=" + long)
	v.wait("the built-in model", `s.phase === "idle" && s.opened`)
	wide("a long word in the address")
	v.click("mode-raw")
	v.until("the raw text", `!!document.querySelector('`+testID("raw")+`')`)
	v.fill("raw", long)
	wide("a long word of raw text")
	v.click("mode-story")
	v.until("the story", `!!document.querySelector('`+testID("story")+`')`)
	v.fill("story", long)
	v.fill("question", long)
	wide("a long word in the story")
	v.ask("run")
	wide("a long word in an answered story")

	eval[bool](v, `(scrollTo(0, 0), document.querySelector(".skip").focus(), true)`)
	walked := 0
	for ; walked < 60; walked++ {
		v.do("tab", chromedp.KeyEvent("\t"))
		const look = `(() => { const e = document.activeElement; if (e === document.body) return "end"; if (e.closest("header, footer")) return "";
			const r = e.getBoundingClientRect(), bars = [document.querySelector("header"), document.querySelector("footer")];
			const under = bars.some((b) => { const a = b.getBoundingClientRect(); return r.top >= a.top && r.bottom <= a.bottom; });
			return under ? (e.dataset.testid ?? e.textContent) : ""; })()`
		covered := eval[string](v, look)
		if covered == "end" {
			break
		}
		if covered != "" {
			v.Errorf("the focus is on %s, which lies under a bar", covered)
		}
	}
	if walked < 12 || walked == 60 {
		v.Errorf("the Tab key walked through %d controls", walked)
	}

	_, err := chromedp.Call(v.b.Ctx, page.SetFontSizes, page.SetFontSizesParams{FontSizes: &page.FontSizes{Standard: 32}})
	if err != nil {
		t.Fatal(err)
	}
	v.load("")
	v.wait("the built-in model", `s.phase === "idle" && s.opened`)
	v.ask("run")
	wide("type of twice the size")
	v.shot("fits-large")
}

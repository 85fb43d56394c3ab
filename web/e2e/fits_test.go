//go:build !js

package e2e

import (
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// TestFits looks at the page with an answer on it: no width makes it scroll sideways, in no language and no theme.
func TestFits(t *testing.T) {
	needBrowser(t)
	h := startHost(t)
	for _, lang := range []string{"en", "zh"} {
		v := open(t, h, lang, 1440, 900)
		v.load("")
		v.wait("the built-in model", time.Minute, `s.phase === "idle" && s.opened`)
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
					t.Errorf("%s, %s: the page is %d pixels wide in a window of %d", lang, theme, wide, size[0])
				}
			}
		}
		v.clean()
	}
}

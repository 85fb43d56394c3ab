//go:build !js

package e2e

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kvlens/web/e2e/browser"
)

// ready waits until the service worker has the shell and serves this page.
func (v *visitor) ready() {
	v.Helper()
	eval[bool](v, `navigator.serviceWorker.ready.then((r) => new Promise((done) => {
		const look = () => r.active?.state === "activated" ? done(true) : setTimeout(look, 20); look(); }))`)
}

func (v *visitor) caches() []string { return eval[[]string](v, `caches.keys()`) }

// console reports whether the page has logged something with that text.
func (v *visitor) console(text string) bool {
	return slices.ContainsFunc(v.b.Console(), func(m browser.Message) bool { return strings.Contains(m.Text, text) })
}

// text fetches a file of the site from within the page.
func (v *visitor) text(name string) string {
	v.Helper()
	return eval[string](v, `fetch(`+quote(v.host.url+name)+`).then((r) => r.text(), (e) => "failed: " + e)`)
}

// TestShell holds the service worker to its rules: whole shells, only its own caches, never weights.
func TestShell(t *testing.T) {
	needBrowser(t)
	h := startHost(t)
	v := open(t, h, "en", 1440, 900)
	v.visit("")
	eval[bool](v, `caches.open("another site's").then(() => true)`)
	v.ready()
	if said := v.console("has been updated"); said {
		v.Errorf("the first visit was told of an update")
	}
	first := v.caches()
	if len(first) != 2 || !slices.Contains(first, "another site's") {
		v.Fatalf("caches after the first visit: %q", first)
	}

	// Without a network the shell is whole, whatever the query says, and weights are not part of it.
	h.set(func(h *host) { h.offline = true })
	v.expected = append(v.expected, "net::ERR_")
	v.visit("&backend=ref")
	if v.until("the page offline", `document.title !== ""`); !strings.HasPrefix(v.text("web/text/zh.json"), "{") {
		v.Errorf("offline: no Chinese catalogue")
	}
	if got := v.text("web/models/teach-q8_0.gguf"); !strings.HasPrefix(got, "failed") {
		v.Errorf("offline: weights came from the shell: %.40q", got)
	}
	h.set(func(h *host) { h.offline = false })

	// A new version replaces the old one as a whole and leaves other caches alone.
	version := regexp.MustCompile(`const cacheName = family \+ "[0-9a-f]+"`)
	h.set(func(h *host) {
		h.change = func(name string, body []byte) []byte {
			switch name {
			case "app-worker.js":
				return version.ReplaceAll(body, []byte(`const cacheName = family + "next"`))
			case "web/shell.json":
				return bytes.Replace(body, []byte(`"KV Lens"`), []byte(`"KV Lens, the next"`), 1)
			}
			return body
		}
	})
	v.visit("")
	v.until("the new version", `caches.keys().then((k) => k.length === 2 && k.some((n) => n.endsWith(" next")))`)
	v.poll("word of the update", func() bool { return v.console("has been updated") })
	if now := v.caches(); !slices.Contains(now, "another site's") {
		v.Errorf("the update took caches that are not its own: %q", now)
	}
	v.visit("")
	if !strings.Contains(v.text("web/shell.json"), "the next") {
		v.Errorf("after the update a file is still the old one")
	}
	v.clean()
}

// TestDeadProgram: a page whose program cannot start, or has died, says so in its language.
func TestDeadProgram(t *testing.T) {
	needBrowser(t)
	for _, c := range []struct{ name, lang, want string }{
		{"never starts", "zh", "页面已停止"},
		{"trap", "en", "The page has stopped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := startHost(t)
			if c.name == "never starts" {
				h.change = func(name string, body []byte) []byte {
					if name == "web/app.wasm" {
						return body[:len(body)/2]
					}
					return body
				}
			}
			v := open(t, h, c.lang, 390, 844)
			v.visit("")
			if c.name == "trap" {
				v.until("the page", `document.readyState === "complete"`)
				eval[bool](v, `dispatchEvent(new ErrorEvent("error", {error: new WebAssembly.RuntimeError("unreachable")}))`)
			}
			v.until("the notice", `document.querySelector('[data-testid="dead"]')?.textContent.includes(`+quote(c.want)+`) ?? false`)
			v.shot("dead-" + strings.ReplaceAll(c.name, " ", "-"))
		})
	}
}

// TestWrongAddress: the site's own page answers, and leads home.
func TestWrongAddress(t *testing.T) {
	needBrowser(t)
	h := startHost(t)
	v := open(t, h, "zh", 390, 844)
	h.url += "nowhere/at/all"
	v.visit("")
	if !eval[bool](v, `document.body.innerText.includes("这里没有页面")`) {
		v.Errorf("the page for a wrong address does not say so in Chinese")
	}
	if home := eval[string](v, `document.querySelector("a").getAttribute("href")`); home != prefix+"/" {
		v.Errorf("it leads to %s", home)
	}
}

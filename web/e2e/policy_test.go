//go:build !js

package e2e

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// pick chooses an option of a list once it is there and enabled.
func (v *visitor) pick(id, value string) {
	v.Helper()
	v.until(id, fmt.Sprintf(`(() => {
		const e = document.querySelector(%s);
		if (!e || e.disabled) return false;
		e.value = %s;
		e.dispatchEvent(new Event("change", {bubbles: true}));
		return e.value === %[2]s; })()`, quote(testID(id)), quote(value)))
}

// marked waits until some tokens of the texts, or none, have a mark that begins with a letter: marks are drawn after the
// state has changed.
func (v *visitor) marked(letter string, some bool) {
	v.Helper()
	v.until("marks "+letter, fmt.Sprintf(`!!document.querySelector('.t[data-k^=%q]') === %v`, letter, some))
}

// share lowers or raises the cap, step by step, with the buttons.
func (v *visitor) share(button string, percent int) {
	v.Helper()
	for v.state().Policy.Share != percent {
		before := v.state().Policy.Share
		v.click(button)
		v.wait("another cap", fmt.Sprintf(`s.phase === "idle" && s.policy.share !== %d`, before))
	}
}

// TestPolicy: a quarter of the memory under SnapKV, what left is marked; less memory in the middle of the conversation; the
// full cache again; the question later; and all of it from the address.
func TestPolicy(t *testing.T) {
	needBrowser(t)
	for _, c := range []struct {
		lang, theme   string
		width, height int
	}{{"en", "light", 1440, 900}, {"zh", "dark", 390, 844}, {"en", "dark", 320, 640}} {
		t.Run(fmt.Sprintf("%s-%d", c.lang, c.width), func(t *testing.T) {
			v := open(t, startHost(t), c.lang, c.width, c.height)
			v.load("")
			v.wait("the built-in model", `s.phase === "idle" && s.opened`)
			for v.state().Theme != c.theme {
				v.click("theme")
			}
			v.pick("policy", "snapkv")
			v.wait("the policy", `s.phase === "idle" && s.policy.recipe.method === "snapkv"`)
			v.share("cap-less", 25)
			v.ask("run")
			v.shot("policy")
			s := v.state()
			slots := s.Kept.Budget + s.Kept.Reserve
			if s.Kept.Recipe != "snapkv" || slots < 1 || s.Kept.Layers < 2 || len(s.Kept.Held) != s.Kept.Layers*s.Kept.Heads {
				t.Fatalf("the cache: %+v", s.Kept)
			}
			for list, n := range s.Kept.Held {
				if n > slots || n < s.Kept.Budget {
					t.Errorf("list %d holds %d of %d + %d", list, n, s.Kept.Budget, s.Kept.Reserve)
				}
			}
			v.marked("x", true)
			v.until("marks of what is kept", `!!document.querySelector('.t[data-k^="c"], .t[data-k^="d"]')`)
			v.oneHead()
			v.keepsFocus()
			v.until("the address", `location.hash === "#cap=25&pol=snapkv"`)

			before := s.Memory.Cap
			v.share("cap-less", 12)
			s = v.state()
			if s.Memory.Cap >= before || len(s.Turns) != 1 || s.Kept.Held[0] >= slots || s.Memory.Position == 0 {
				t.Errorf("under a lower cap: %d bytes, before %d; %d turns, %+v", s.Memory.Cap, before, len(s.Turns), s.Kept)
			}
			v.click("more-0")
			v.wait("the second answer", `s.phase === "idle" && s.turns.length === 2 && s.turns[1].ended`)
			v.shot("policy-12")

			v.pick("policy", "full")
			v.wait("the full cache", `s.phase === "idle" && s.kept.all && s.policy.share === 100`)
			v.marked("x", false)
			if n := len(v.state().Turns); n != 2 {
				t.Errorf("in the full cache the conversation has %d turns, want 2", n)
			}
			v.later()
			v.narrow()
			v.clean()
		})
	}
}

// oneHead looks at one KV head and compares what its sentence says with what is marked.
func (v *visitor) oneHead() {
	v.Helper()
	v.pick("scope-layer", "1")
	v.wait("a layer", `s.scope.layer === 1`)
	v.pick("scope-head", "0")
	s := v.wait("a head", `s.scope.head === 0`)
	v.until("the sentence of the head", fmt.Sprintf(`document.querySelector('[data-testid="scope-text"]')?.textContent.match(/\d+/g)?.includes("%d") ?? false`, s.Kept.Held[s.Kept.Heads]))
	// One head has a token or has it not: no line is broken. Every piece of this story is one token, but for the bos.
	v.until("no token of one head that is kept in part", `!document.querySelector('.t[data-k]:not([data-k^="-"], [data-k^="x"], [data-k$="8"])')`)
	v.shot("policy-head")
	v.pick("scope-layer", "-1")
}

// keepsFocus changes the cap from the keyboard: the button is disabled while the cache changes, and has the focus again.
func (v *visitor) keepsFocus() {
	v.Helper()
	for _, b := range []struct{ id, then string }{{"cap-more", "35"}, {"cap-less", "25"}} {
		eval[bool](v, fmt.Sprintf(`(() => { document.querySelector(%s).focus(); return true; })()`, quote(testID(b.id))))
		v.do("Enter", chromedp.KeyEvent(kb.Enter))
		v.wait("another cap", `s.phase === "idle" && s.policy.share === `+b.then)
		v.until("the focus", fmt.Sprintf(`document.activeElement === document.querySelector(%s)`, quote(testID(b.id))))
	}
}

// later asks two questions about one compressed story.
func (v *visitor) later() {
	v.Helper()
	v.pick("policy", "tova")
	v.wait("the policy", `s.phase === "idle" && s.policy.recipe.method === "tova"`)
	v.share("cap-less", 50)
	v.press(testID("policy-details") + " summary")
	v.click("later")
	v.wait("the question later", `s.policy.later`)
	v.ask("run")
	s := v.state()
	if len(s.Turns) != 1 || s.Kept.Recipe != "tova" {
		v.Errorf("%d turns, %+v", len(s.Turns), s.Kept)
	}
	v.shot("policy-later")
	var checkpoints int64
	for _, r := range s.Memory.Rows {
		if r.Kind == "checkpoints" {
			checkpoints = r.Allocated
		}
	}
	if checkpoints == 0 {
		v.Error("no compressed story is kept")
	}
	v.click("more-0")
	v.wait("another answer", `s.phase === "idle" && s.turns.length === 1 && s.turns[0].ended && s.turns[0].asked !== `+quote(s.Turns[0].Asked))

	v.visit("#pol=headkv&headkv.kernel=99&cap=50&wrap=criticalkv&%zz") // net/url would not parse that
	s = v.wait("the policy of the address", `s.phase === "idle" && s.policy.recipe.method === "headkv"`)
	if s.Policy.Share != 50 || s.Policy.Fragment != "cap=50&headkv.kernel=31&pol=headkv&wrap=criticalkv" || s.Notices != 1 {
		v.Errorf("from the address: %+v, %d notices", s.Policy, s.Notices)
	}
}

// narrow checks that nothing is wider than the window.
func (v *visitor) narrow() {
	v.Helper()
	v.ask("run")
	eval[bool](v, `(() => {
		const about = document.querySelector('[data-testid="about"]');
		about.querySelector("details").open = true;
		document.querySelector(".chooser").scrollIntoView({block: "start"});
		return true; })()`)
	v.shot("policy-details")
	if wide := eval[int](v, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
		v.Errorf("the page is %d pixels wider than its window", wide)
	}
}

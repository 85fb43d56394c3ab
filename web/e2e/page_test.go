//go:build !js

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"kvlens/web/e2e/browser"
)

// visitor is one browser with one tab.
type visitor struct {
	*testing.T
	b    *browser.Browser
	host *host
	lang string
	size [2]int // of the window
	// expected are parts of console messages that a fault of the test itself brings about.
	expected []string
	problem  string // code of the problem that the page is expected to have, "" for none
}

// state is what the tests read of window.kvlens.state().
type state struct {
	Phase, Lang, Backend, Model, Mode string
	Opened                            bool
	Draft                             struct{ Question string }
	Turns                             []struct {
		Asked, Text, Reason     string
		Pieces, Tokens          int
		Ended, Failed           bool
		PrefillRate, DecodeRate float64
	}
	Offers []struct {
		Manifest, ID string
		Size, Stored uint64
		BuiltIn      bool
	}
	Memory struct {
		Rows []struct {
			Kind                     string
			Logical, Allocated, Peak int64
		}
		Cap, Used, Reserved int64
		Stored, Position    int
	}
	Theme  string
	Policy struct {
		Recipe   struct{ Method string }
		Share    int
		Later    bool
		Fragment string
	}
	Kept struct {
		All             bool
		Recipe          string
		Layers, Heads   int
		Held            []int // by list
		Budget, Reserve int
	}
	Left []struct{ Kind, Tokens, Back, Notes, Lists, Of int }
	Pins []int
	Why  struct {
		On, Known, Kept, Answer                    bool
		At, List, Stage, Decided, Rank, Of, Voters int
	}
	Compare struct {
		Ended, Stopped, Failed bool
		Tokens                 int
		A, B                   struct {
			Recipe struct{ Method string }
			Agree  int
			KL     float64
			Free   string
		}
	}
	Notices int
	Work    struct {
		Stage                string
		Done, Total, Resumed uint64
		Refetched            uint32
	}
	Problem *struct{ Code, Action, Op, Msg string }
}

// open starts a browser for the site; it is not there yet.
func open(t *testing.T, h *host, lang string, width, height int) *visitor {
	t.Helper()
	return openWith(t, h, lang, browser.Options{Width: width, Height: height})
}

func openWith(t *testing.T, h *host, lang string, o browser.Options) *visitor {
	t.Helper()
	width, height := o.Width, o.Height
	// Not the test's own context: that ends before the cleanup, which looks at the page once more.
	b, err := browser.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{T: t, b: b, host: h, lang: lang, size: [2]int{width, height}}
	// Chromium itself says so when a page looks for a graphics adapter and there is none.
	v.expected = append(v.expected, "No available adapters.")
	t.Cleanup(func() {
		if t.Failed() {
			v.shot("failed")
			v.report()
		}
		b.Close()
	})
	options := []chromedp.EmulateViewportOption{}
	if width < 600 {
		options = append(options, chromedp.EmulateMobile, chromedp.EmulateTouch)
	}
	v.do("viewport", chromedp.EmulateViewport(int64(width), int64(height), options...))
	if _, err := chromedp.Call(b.Ctx, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: watchWorkers}); err != nil {
		t.Fatal(err)
	}
	return v
}

// visit goes to the page.
func (v *visitor) visit(query string) {
	v.Helper()
	v.do("navigate", chromedp.Navigate(v.host.url+"?lang="+v.lang+query))
}

// load goes to the page and waits until its program answers.
func (v *visitor) load(query string) {
	v.Helper()
	v.visit(query)
	v.wait("the page's program", "true")
}

func (v *visitor) do(what string, a chromedp.Action[chromedp.Void]) {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.b.Ctx, hang)
	defer cancel()
	if err := chromedp.Do(ctx, a); err != nil {
		v.Fatalf("%s: %v", what, err)
	}
}

// hang is when a test gives up waiting. Nothing that works takes nearly as long, however slow or busy the machine is.
const hang = 10 * time.Minute

// eval evaluates an expression in the page and waits for a promise.
func eval[T any](v *visitor, expression string) T {
	v.Helper()
	out, err := evaluate[T](v, expression)
	if err != nil {
		v.Fatalf("evaluating %s: %v", expression, err)
	}
	return out
}

func evaluate[T any](v *visitor, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(v.b.Ctx, hang)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// snapshot is an expression that is the page's state, null before there is one.
const snapshot = `(window.kvlens?.state() ?? null)`

func (v *visitor) state() state {
	v.Helper()
	var s state
	if err := json.Unmarshal([]byte(eval[string](v, `JSON.stringify(`+snapshot+`)`)), &s); err != nil {
		v.Fatalf("%v", err)
	}
	return s
}

// wait waits until the page's state s fulfils a condition, and returns that state. A problem that is not expected ends
// the wait.
func (v *visitor) wait(what, condition string) state {
	v.Helper()
	expression := `(() => { const s = ` + snapshot + `; if (!s) return ""; if (` + condition + `) return JSON.stringify(s);
		return s.problem?.code ?? ""; })()`
	for end := time.Now().Add(hang); ; time.Sleep(50 * time.Millisecond) {
		switch answer := eval[string](v, expression); {
		case strings.HasPrefix(answer, "{"):
			var s state
			if err := json.Unmarshal([]byte(answer), &s); err != nil {
				v.Fatalf("%v", err)
			}
			return s
		case answer != "" && answer != v.problem:
			v.Fatalf("waiting for %s: the page has the problem %q: %s", what, answer, v.brief())
		}
		if time.Now().After(end) {
			v.Fatalf("waiting for %s in vain: %s", what, v.brief())
		}
	}
}

// until evaluates an expression until it is true.
func (v *visitor) until(what, expression string) {
	v.Helper()
	v.poll(what, func() bool { return eval[bool](v, expression) })
}

// poll asks until the answer is true.
func (v *visitor) poll(what string, f func() bool) {
	v.Helper()
	for end := time.Now().Add(hang); !f(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			v.Fatalf("waiting for %s in vain: %s", what, v.brief())
		}
	}
}

func testID(id string) string { return fmt.Sprintf(`[data-testid=%q]`, id) }

// quote writes a string as JavaScript.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string can always be written
	}
	return string(b)
}

// click presses the control with a test id once it is there, enabled, and nothing lies over it. A reader looks and
// presses at once; so does this, in one task of the page, because between two the page may have changed.
func (v *visitor) click(id string) {
	v.Helper()
	v.press(testID(id))
}

func (v *visitor) press(selector string) {
	v.Helper()
	v.until(selector, fmt.Sprintf(`(() => {
		const e = document.querySelector(%s);
		if (!e?.checkVisibility() || e.disabled) return false;
		e.scrollIntoView({block: "center", behavior: "instant"}); // away from the bars at the edges
		const {left, top, width, height} = e.getBoundingClientRect();
		if (!e.contains(document.elementFromPoint(left + width / 2, top + height / 2))) return false;
		e.click();
		return true; })()`, quote(selector)))
}

// fill replaces the text of a field once it is there.
func (v *visitor) fill(id, text string) {
	v.Helper()
	v.until(id, fmt.Sprintf(`(() => {
		const e = document.querySelector(%s);
		if (!e || e.disabled) return false;
		const proto = e instanceof HTMLTextAreaElement ? HTMLTextAreaElement : HTMLInputElement;
		Object.getOwnPropertyDescriptor(proto.prototype, "value").set.call(e, %s);
		e.dispatchEvent(new Event("input", {bubbles: true})); e.dispatchEvent(new Event("change", {bubbles: true}));
		return true; })()`, quote(testID(id)), quote(text)))
}

// shot keeps a picture of the page in web/e2e/out.
func (v *visitor) shot(name string) {
	ctx, cancel := context.WithTimeout(v.b.Ctx, hang)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.MkdirAll("out", 0o755)
	}
	if err == nil {
		name = fmt.Sprintf("%s-%s-%d.png", name, v.lang, v.size[0])
		err = os.WriteFile(filepath.Join("out", name), png, 0o644)
	}
	if err != nil {
		v.Errorf("screenshot %s: %v", name, err)
	}
}

// clean fails the test for anything in the console that no fault of the test explains, and for any other host.
func (v *visitor) clean() {
	v.Helper()
	for _, m := range v.b.Errors() {
		explained := false
		for _, e := range v.expected {
			explained = explained || strings.Contains(m.Text, e)
		}
		if !explained {
			v.Errorf("console %s: %s (%s)", m.Level, m.Text, m.URL)
		}
	}
	v.late()
	if hosts := v.b.Foreign(); len(hosts) > 0 {
		v.Errorf("the page asked other hosts: %v", hosts)
	}
	origin := v.host.url[:strings.Index(v.host.url, prefix)]
	for _, url := range v.b.Requests() {
		if !strings.HasPrefix(url, origin+prefix+"/") && !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "blob:") {
			v.Errorf("the page asked for %s", url)
		}
	}
}

//go:build !js

// Command benchui prints what the page's own thread does for every token of an answer, with the heads watched and one of
// them looked at, at 1,024 tokens of context: at 1440 × 900, and at 390 × 844 with the processor slowed down four times.
// It judges nothing: times depend on the machine and on what else it does.
//
//	go run ./web/e2e/benchui built-in smollm2-135m-instruct
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"kvlens/app/stories"
	"kvlens/web/e2e/browser"
	"kvlens/web/serve/files"
)

// screens are what is measured, and the milliseconds of script a token that the design aims for.
var screens = []struct {
	name          string
	width, height int
	slower        float64
	aim           float64
}{
	{"1440 × 900", 1440, 900, 1, 8},
	{"390 × 844, four times slower", 390, 844, 4, 16},
}

// The answer's length, and the context that it begins at.
const (
	answer = 96
	prompt = 1024 - answer/2
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "benchui:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "kvlens-benchui-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	dist := filepath.Join(dir, "dist")
	gen := exec.Command("go", "run", "./web/gen", "-out", dist)
	gen.Stderr = os.Stderr
	if err := gen.Run(); err != nil {
		return fmt.Errorf("building the site: %w", err)
	}
	server := httptest.NewServer(files.Handler(dist, ""))
	defer server.Close()
	for _, model := range flag.Args() {
		if model == "built-in" {
			model = ""
		}
		for _, s := range screens {
			b, err := browser.Start(context.Background(), browser.Options{Width: s.width, Height: s.height})
			if err != nil {
				return err
			}
			p := page{b.Ctx}
			r, err := p.measure(server.URL, model, s.width, s.height, s.slower)
			b.Close()
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if r.tokens == 0 {
				fmt.Printf("SKIPPED: %s is not there\n", model)
				break
			}
			fmt.Printf("%s, %s: %.1f ms of script a token (aim: at most %g), %.1f of style, %.1f of layout, %.1f in all with painting; %d tokens at %.0f a second\n",
				r.model, s.name, r.script, s.aim, r.style, r.layout, r.all, r.tokens, r.rate)
		}
	}
	return nil
}

// result is what one answer took.
type result struct {
	model                      string
	tokens                     int
	script, style, layout, all float64 // milliseconds of the thread's own time, a token
	rate                       float64
}

// page is a tab.
type page struct{ ctx context.Context }

// measure has the model answer and looks at the page's counters before the first and after the last token.
func (p page) measure(url, model string, width, height int, slower float64) (r result, err error) {
	if err := chromedp.Do(p.ctx, chromedp.EmulateViewport(int64(width), int64(height))); err != nil {
		return r, err
	}
	if err := chromedp.Do(p.ctx, chromedp.Navigate(url+"/?lang=en&backend=cpu")); err != nil {
		return r, err
	}
	if err := p.wait(`s.phase === "idle" && s.opened`); err != nil {
		return r, err
	}
	if model != "" {
		there, err := eval[bool](p, fmt.Sprintf(`(() => { const e = document.querySelector('[data-testid="open-%s"]'); e?.click(); return !!e; })()`, model))
		if err != nil || !there {
			return r, err
		}
		if err := p.wait(`s.phase === "idle" && s.model.includes(` + quote(model) + `)`); err != nil {
			return r, err
		}
	}
	if r.model, err = eval[string](p, `window.kvlens.state().name`); err != nil {
		return r, err
	}
	steps := []string{
		`press("mode-raw")`,
		`(document.querySelector('[data-testid="sampling"]').open = true)`,
		`fill("knob-max", "` + fmt.Sprint(answer) + `")`,
		`fill("raw", ` + quote(p.text()) + `)`,
	}
	if on, err := eval[bool](p, `window.kvlens.state().attention.on`); err != nil || !on {
		if err != nil {
			return r, err
		}
		steps = append(steps, `press("heads-watch")`)
	}
	// A first short answer, so that there are heads to choose from.
	steps = append(steps, `press("run")`)
	for _, x := range steps {
		if err := p.step(x); err != nil {
			return r, err
		}
	}
	if err := p.wait(`s.turns.at(-1)?.tokens > 0`); err != nil {
		return r, err
	}
	if err := p.step(`document.querySelector('.cell[data-i="13"]')?.click() ?? true`); err != nil {
		return r, err
	}
	if _, err := chromedp.Call(p.ctx, emulation.SetCPUThrottlingRate, emulation.SetCPUThrottlingRateParams{Rate: slower}); err != nil {
		return r, err
	}
	if _, err := chromedp.Call(p.ctx, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}); err != nil {
		return r, err
	}
	before, from, err := p.counters()
	if err != nil {
		return r, err
	}
	if err := p.wait(`s.phase === "idle"`); err != nil {
		return r, err
	}
	after, to, err := p.counters()
	if err != nil {
		return r, err
	}
	r.tokens = to - from
	n := float64(max(1, r.tokens))
	each := func(name string) float64 { return 1000 * (after[name] - before[name]) / n }
	r.script, r.style, r.layout, r.all = each("ScriptDuration"), each("RecalcStyleDuration"), each("LayoutDuration"), each("TaskDuration")
	r.rate = n / (after["Timestamp"] - before["Timestamp"])
	return r, nil
}

// text is a prompt of about the length that is wanted.
func (p page) text() string {
	story := stories.All("en")[0].Text + "\n\n"
	return strings.TrimSpace(strings.Repeat(story, prompt/46))
}

// counters are Chromium's own, of the page's thread, and the tokens of the answer so far.
func (p page) counters() (map[string]float64, int, error) {
	got, err := chromedp.Call(p.ctx, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		return nil, 0, err
	}
	m := map[string]float64{}
	for _, x := range got.Metrics {
		m[x.Name] = x.Value
	}
	n, err := eval[int](p, `window.kvlens.state().turns.at(-1).tokens`)
	return m, n, err
}

// step does something in the page once that is possible.
func (p page) step(what string) error {
	const tools = `const find = (id) => { const e = document.querySelector('[data-testid="' + id + '"]'); return e && !e.disabled ? e : null; };
		const press = (id) => { const e = find(id); e?.click(); return !!e; };
		const fill = (id, text) => { const e = find(id); if (!e) return false;
			Object.getOwnPropertyDescriptor((e instanceof HTMLTextAreaElement ? HTMLTextAreaElement : HTMLInputElement).prototype, "value").set.call(e, text);
			e.dispatchEvent(new Event("input", {bubbles: true})); e.dispatchEvent(new Event("change", {bubbles: true})); return true; };`
	return p.until(`(() => { ` + tools + ` return ` + what + ` !== false; })()`)
}

// wait waits until the page's state s is so.
func (p page) wait(condition string) error {
	return p.until(`(() => { const s = window.kvlens?.state(); return !!s && (` + condition + `); })()`)
}

func (p page) until(expression string) error {
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if ok, err := eval[bool](p, expression); err != nil || ok {
			return err
		}
	}
	return fmt.Errorf("waiting in vain for %s", expression)
}

func eval[T any](p page, expression string) (T, error) {
	return chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string can always be written
	}
	return string(b)
}

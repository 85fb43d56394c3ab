//go:build !js

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// attention is what the tests read of what heads look at.
type attention struct {
	On, Live, Wanted            bool
	Rows, Bytes, Layer, Head    int
	Matrix, Query, Tokens, Pool int
	Codes                       []int
}

func (v *visitor) attention() attention {
	v.Helper()
	var a attention
	if err := json.Unmarshal([]byte(eval[string](v, `JSON.stringify(window.kvlens.state().attention)`)), &a); err != nil {
		v.Fatal(err)
	}
	return a
}

// TestHeads goes through the grid of heads with the keyboard, chooses one, and compares its row in figures with the state; on
// a desktop, on a phone and on a narrow one.
func TestHeads(t *testing.T) {
	needBrowser(t)
	for _, c := range []struct {
		lang          string
		width, height int
	}{{"en", 1440, 900}, {"zh", 390, 844}, {"en", 320, 640}} {
		t.Run(fmt.Sprintf("%s-%d", c.lang, c.width), func(t *testing.T) {
			v := open(t, startHost(t), c.lang, c.width, c.height)
			v.load("")
			v.wait("the built-in model", `s.phase === "idle" && s.opened`)
			v.ask("run")
			v.wait("rows of attention", `s.attention.rows > 0 && s.attention.rows === s.turns[0].tokens`)
			v.painted(`#headgrid canvas`)
			v.grid()
			v.row()
			v.again()
			if wide := eval[int](v, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
				t.Errorf("the page is %d pixels wider than its window", wide)
			}
			v.shot("heads")
			v.clean()
		})
	}
}

// painted waits until every canvas that a selector finds shows something.
func (v *visitor) painted(canvases string) {
	v.Helper()
	v.until("pictures in "+canvases, fmt.Sprintf(`(() => {
		const all = [...document.querySelectorAll(%s)];
		const copy = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
		return all.length > 0 && all.every((c) => {
			if (c.width === 0 || c.height === 0) return false;
			[copy.canvas.width, copy.canvas.height] = [c.width, c.height]; // which clears it
			copy.drawImage(c, 0, 0);
			return copy.getImageData(0, 0, c.width, c.height).data.some((x, i) => i %% 4 === 3 && x === 255);
		}); })()`, quote(canvases)))
}

// grid walks through the heads. The built-in model has 5 layers of 6 heads, layers downwards.
func (v *visitor) grid() {
	v.Helper()
	const focused = `+(document.activeElement.closest(".cell")?.dataset.i ?? -1)`
	if n := eval[int](v, `document.querySelectorAll('#headgrid [tabindex="0"]').length`); n != 1 {
		v.Errorf("the grid has %d stops of the Tab key, want 1", n)
	}
	if small := eval[float64](v, `Math.min(...[...document.querySelectorAll(".cell")].flatMap((c) => [c.offsetWidth, c.offsetHeight]))`); small < 24 {
		v.Errorf("a cell has a side of %g pixels, want 24 or more", small)
	}
	eval[bool](v, `(document.querySelector('#headgrid [tabindex="0"]').focus(), true)`)
	for _, x := range []struct {
		key  string
		want int
	}{
		{kb.ArrowRight, 1},
		{kb.ArrowDown, 7},
		{kb.End, 11},
		{kb.ArrowRight, 11},
		{kb.ArrowUp, 5},
		{kb.ArrowUp, 5},
		{kb.Home, 0},
		{kb.ArrowLeft, 0},
		{kb.PageDown, 24},
		{kb.PageUp, 0},
		{kb.ArrowDown, 6},
		{kb.ArrowDown, 12},
		{kb.ArrowRight, 13},
	} {
		v.do("a key", chromedp.KeyEvent(x.key))
		if got := eval[int](v, focused); got != x.want {
			v.Fatalf("after %q the focus is on head %d, want %d", x.key, got, x.want)
		}
	}
	if a := v.attention(); a.Layer != -1 {
		v.Errorf("moving the focus has chosen a head: %+v", a)
	}
	if name := eval[string](v, `document.activeElement.getAttribute("aria-label")`); len(name) < 20 {
		v.Errorf("the head with the focus is called %q: its numbers are missing", name)
	}
	v.do("Enter", chromedp.KeyEvent(kb.Enter))
	v.wait("the head", `s.attention.layer === 2 && s.attention.head === 1 && s.scope.layer === 2 && s.scope.head === 0`)
	v.do("Escape", chromedp.KeyEvent(kb.Escape))
	v.wait("no head", `s.attention.layer === -1 && s.scope.layer === -1`)
	v.do("the space bar", chromedp.KeyEvent(" "))
	v.wait("the whole matrix", `s.attention.layer === 2 && !s.attention.live && !s.attention.wanted && s.attention.matrix > 0 && s.attention.matrix === s.memory.position`)
	if n := eval[int](v, `document.querySelectorAll('.cell[aria-selected="true"]').length`); n != 1 {
		v.Errorf("%d heads are marked as chosen", n)
	}
	v.painted(`#plot canvas`)
}

// row opens the table, and holds it against the codes of the state: once for the newest row and once for one further up.
func (v *visitor) row() {
	v.Helper()
	v.press(testID("matrix-table") + " summary")
	v.table()
	before := v.attention().Query
	eval[bool](v, `(document.querySelector("#plot").focus(), true)`)
	for range 3 {
		v.do("up", chromedp.KeyEvent(kb.ArrowUp))
	}
	v.wait("another row", fmt.Sprintf(`s.attention.query === %d`, before-3))
	v.table()
	v.until("the sentence of the row", `document.querySelector("#matrix-caption").textContent.length > 10`)
	v.until("words that are looked at", `!!document.querySelector('.t[data-a="6"], .t[data-a="5"], .t[data-a="4"]')`)
	v.click("row-down")
	v.wait("the row below", fmt.Sprintf(`s.attention.query === %d`, before-2))
}

// table waits until the table shows the 20 keys that the row looks at most.
func (v *visitor) table() {
	v.Helper()
	a := v.attention()
	type key struct{ at, code int }
	var keys []key
	for i, code := range a.Codes {
		if code > 0 {
			keys = append(keys, key{i * a.Pool, code})
		}
	}
	sort.SliceStable(keys, func(i, j int) bool { return keys[i].code > keys[j].code })
	keys = keys[:min(20, len(keys))]
	if len(keys) == 0 {
		v.Fatal("the row looks at nothing")
	}
	var want [][2]int
	for _, k := range keys {
		want = append(want, [2]int{k.at + 1, int(math.Round(1000 * math.Pow(10, 4*float64(k.code)/255-4)))})
	}
	expected, err := json.Marshal(want)
	if err != nil {
		v.Fatal(err)
	}
	// The place of the token, and its weight in thousandths within what rounding to whole percents may do.
	v.until("the table of the row", fmt.Sprintf(`(() => {
		const want = %s, rows = [...document.querySelectorAll('[data-testid="matrix-table"] tbody tr')];
		return rows.length === want.length && rows.every((r, i) => {
			const [place, weight, fate] = [...r.querySelectorAll("td")].map((d) => d.textContent);
			return +place === want[i][0] && Math.abs(parseFloat(weight.replace(/[^0-9.]/g, "")) * 10 - want[i][1]) <= 6 && fate !== "";
		}); })()`, expected))
}

// again asks once more with the head chosen: its row is live meanwhile, and its matrix is that of the longer conversation.
func (v *visitor) again() {
	v.Helper()
	before := v.attention().Matrix
	v.click("more-0")
	v.wait("a larger matrix", fmt.Sprintf(`s.phase === "idle" && s.turns.length === 2 && s.turns[1].ended && !s.attention.live && s.attention.matrix > %d`, before))
	v.painted(`#plot canvas`)
	v.click("head-drop")
	v.wait("no head", `s.attention.layer === -1`)
	v.until("words without a tint", `!document.querySelector('.t[data-a]:not([data-a="0"])')`)
}

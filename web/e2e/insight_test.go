//go:build !js

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"kvlens/app/stories"
)

// evening is the word that a policy should not forget.
var evening = map[string]string{"en": "evening", "zh": "晚上"}

// marks are the marks of a text: why each token is kept, and in how many lists.
func (v *visitor) marks(text string) []string {
	v.Helper()
	return eval[[]string](v, fmt.Sprintf(`[...document.querySelector(%s).children].map((e) => e.dataset.k ?? "")`, quote(testID(text))))
}

// facts are the numbers of the why card, by their place.
func (v *visitor) facts() []string {
	v.Helper()
	return eval[[]string](v, `[...document.querySelectorAll('[data-testid="why-facts"] dd')].map((e) => e.textContent)`)
}

// pickWord asks about the first token of the prompt with some text.
func (v *visitor) pickWord(word string) state {
	v.Helper()
	v.until(word, fmt.Sprintf(`(() => {
		const e = [...document.querySelectorAll('[data-testid="prompt"] .t')].find((e) => e.textContent.includes(%s));
		if (!e) return false;
		e.scrollIntoView({block: "center", behavior: "instant"});
		e.click();
		return true; })()`, quote(word)))
	return v.wait("an explanation of "+word, `s.why.on && s.why.known`)
}

// TestWhy: why a word stays or left, under votes of all heads and of those that retrieve; an eviction undone to the letter;
// a word pinned, and the story read again with it.
func TestWhy(t *testing.T) {
	needBrowser(t)
	for _, c := range []struct {
		lang          string
		width, height int
	}{{"en", 1440, 900}, {"zh", 390, 844}} {
		t.Run(fmt.Sprintf("%s-%d", c.lang, c.width), func(t *testing.T) {
			v := open(t, startHost(t), c.lang, c.width, c.height)
			v.load("#pol=snapkv&cap=25")
			v.wait("the policy", `s.phase === "idle" && s.opened && s.policy.recipe.method === "snapkv"`)
			v.ask("run")
			after, total := v.marks("prompt"), 0
			for _, n := range v.state().Kept.Held {
				total += n
			}
			s := v.pickWord(evening[c.lang])
			v.until("numbers", `document.querySelectorAll('[data-testid="why-facts"] dd').length >= 5`)
			f := v.facts()
			if s.Why.Rank < 1 || s.Why.Of < s.Why.Rank || !strings.Contains(f[1], fmt.Sprint(s.Why.Rank)) || !strings.Contains(f[1], fmt.Sprint(s.Why.Of)) {
				t.Errorf("rank %d of %d, the card says %q", s.Why.Rank, s.Why.Of, f)
			}
			if s.Why.Voters < 1 || strings.Count(f[4], "h") < s.Why.Voters {
				t.Errorf("%d voters, the card says %q", s.Why.Voters, f)
			}
			sign := eval[string](v, `document.querySelector('[data-testid="why-verdict"] .sign').textContent`)
			if (sign == "✕") == s.Why.Kept {
				t.Errorf("kept %v under the sign %q", s.Why.Kept, sign)
			}
			v.until("the word in sight", `(() => {
				const word = document.querySelector(".t.asked").getBoundingClientRect(), card = document.querySelector("#reason").getBoundingClientRect();
				return word.bottom <= card.top || word.right <= card.left; })()`)
			v.shot("why")

			// The same budget by the votes of those heads that retrieve.
			v.pick("policy", "compresskv")
			v.wait("the other vote", `s.phase === "idle" && s.kept.recipe === "compresskv" && s.why.known`)
			v.until("other marks", "!("+sameMarks("prompt", after)+")")
			other := 0
			for _, n := range v.state().Kept.Held {
				other += n
			}
			if lists := len(v.state().Kept.Held); other > total+lists || other < total-lists {
				t.Errorf("%d notes under one vote, %d under the other", total, other)
			}
			v.pick("policy", "snapkv")
			v.wait("the first vote", `s.phase === "idle" && s.kept.recipe === "snapkv" && s.why.known`)
			v.until("the same marks", sameMarks("prompt", after))
			v.click("why-close")
			v.wait("no question", `!s.why.on`)

			v.pick("policy", "h2o") // something leaves with every token
			v.wait("H2O", `s.phase === "idle" && s.kept.recipe === "h2o"`)
			v.undone()
			v.pinned()
			v.recalled()
			v.keyboard()
			if wide := eval[int](v, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
				v.Errorf("the page is %d pixels wider than its window", wide)
			}
			v.clean()
		})
	}
}

// undone takes the answer token by token, undoes what left with one of them, and goes on.
func (v *visitor) undone() {
	v.Helper()
	v.afresh()
	whole := v.ask("run")
	v.afresh()
	v.click("step")
	v.wait("one token", `s.phase === "idle" && s.turns.length === 1 && s.turns[0].tokens === 1 && s.turns[0].reason === "max"`)
	first := v.marks("prompt")
	v.click("continue")
	s := v.wait("the rest", `s.phase === "idle" && s.turns[0].tokens > 1 && s.turns[0].ended`)
	if last(s).Text != whole {
		v.Errorf("token by token the answer is %q, at once %q", last(s).Text, whole)
	}
	end, tokens := v.marks("prompt"), last(s).Tokens
	if events := len(s.Left); events < 2 || slices.Equal(first, end) {
		v.Fatalf("nothing left with the answer: %+v", s.Left)
	}
	for events := len(s.Left); events > 1; events-- { // one by one, back to where the prompt had been read
		v.click("undo")
		s = v.wait("the way back", fmt.Sprintf(`s.phase === "idle" && s.left.length === %d`, events-1))
	}
	if last(s).Tokens >= tokens || len(s.Left) != 1 {
		v.Errorf("after undoing all: %d of %d tokens, %+v", last(s).Tokens, tokens, s.Left)
	}
	v.until("the marks before", sameMarks("prompt", first))
	v.shot("undone")
	v.click("continue")
	v.wait("the rest again", fmt.Sprintf(`s.phase === "idle" && s.turns[0].tokens === %d && s.turns[0].ended`, tokens))
	if got := last(v.state()); got.Text != whole {
		v.Errorf("after going back the answer is %q, before it was %q", got.Text, whole)
	}
	v.until("the marks of the end", sameMarks("prompt", end))
	v.click("step-back")
	v.wait("one token less", fmt.Sprintf(`s.phase === "idle" && s.turns[0].tokens === %d`, tokens-1))
}

// afresh empties the conversation and asks for the story's first question again.
func (v *visitor) afresh() {
	v.Helper()
	v.click("again")
	v.wait("an empty conversation", `s.turns.length === 0`)
	v.fill("question", stories.All(v.lang)[0].Asks[0].Question)
}

func jsonOf(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ",") + "]"
}

// sameMarks is an expression: a text has these marks.
func sameMarks(text string, want []string) string {
	return fmt.Sprintf(`JSON.stringify([...document.querySelector(%s).children].map((e) => e.dataset.k ?? "")) === %s`, quote(testID(text)), quote(jsonOf(want)))
}

// pinned pins a word that has left every list, and reads the story again with it.
func (v *visitor) pinned() {
	v.Helper()
	v.afresh()
	v.ask("run")
	at := v.gone()
	v.click("pin-again")
	s := v.wait("the story again", fmt.Sprintf(`s.phase === "idle" && s.pins.length === 1 && s.pins[0] === %d && s.turns[0].tokens === 0 && s.why.known`, at))
	if !s.Why.Kept || s.Why.Stage != 4 { // pinned
		v.Errorf("pinned and read again: %+v", s.Why)
	}
	v.until("its mark", `document.querySelector('.t.asked')?.dataset.k === "i8"`)
	v.shot("pinned")
	v.click("continue")
	s = v.wait("an answer", `s.phase === "idle" && s.turns[0].tokens > 0 && s.turns[0].ended`)
	if !slices.Contains(s.Pins, at) || !s.Why.Kept {
		v.Errorf("after the answer: pins %v, %+v", s.Pins, s.Why)
	}
	v.click("why-close")
}

// gone asks about a word that has left every list, and returns its position.
func (v *visitor) gone() int {
	v.Helper()
	v.until("a word that is gone", `(() => {
		const e = document.querySelector('[data-testid="prompt"] .t[data-k^="x"]');
		if (!e) return false;
		e.scrollIntoView({block: "center", behavior: "instant"});
		e.click();
		return true; })()`)
	return v.wait("why", `s.why.on && s.why.known && !s.why.kept`).Why.At
}

// recalled keeps copies of what leaves, and calls a word back.
func (v *visitor) recalled() {
	v.Helper()
	v.afresh()
	v.press(testID("records") + " summary")
	v.click("record-shadow")
	v.wait("copies", `s.phase === "idle" && s.records.Shadow`)
	v.ask("run")
	v.gone()
	v.click("recall")
	const recalled = 12 // the number of the decision
	v.wait("the word", fmt.Sprintf(`s.phase === "idle" && s.why.known && s.why.kept && s.why.stage === %d`, recalled))
	v.click("why-close")
}

// keyboard asks about a token and the one after it without a pointer.
func (v *visitor) keyboard() {
	v.Helper()
	eval[bool](v, `(() => { document.querySelector('[data-testid="prompt"] .t[tabindex="0"]').focus(); return true; })()`)
	v.do("right", chromedp.KeyEvent(kb.ArrowRight))
	v.do("Enter", chromedp.KeyEvent(kb.Enter))
	at := v.wait("a question", `s.why.on`).Why.At
	v.until("what a screen reader is told", `document.activeElement.getAttribute("aria-pressed") === "true"`)
	v.do("right", chromedp.KeyEvent(kb.ArrowRight))
	v.wait("the next token", fmt.Sprintf(`s.why.on && s.why.at > %d`, at))
	v.do("Escape", chromedp.KeyEvent(kb.Escape))
	v.wait("no question", `!s.why.on`)
	v.until("the focus in the text", `document.activeElement.classList.contains("t")`)
}

// TestCompare: the full cache beside itself differs in nothing; two policies differ, token by token; the conversation stays.
func TestCompare(t *testing.T) {
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
			before := eval[string](v, `JSON.stringify([window.kvlens.state().turns, window.kvlens.state().kept])`)
			v.click("compare-open")
			v.click("match-2")
			v.click("compare-run")
			s := v.wait("the full cache beside itself", `s.phase === "idle" && s.compare.ended`)
			for name, x := range map[string]struct {
				agree int
				kl    float64
			}{"A": {s.Compare.A.Agree, s.Compare.A.KL}, "B": {s.Compare.B.Agree, s.Compare.B.KL}} {
				if x.kl > 1e-6 || x.agree != s.Compare.Tokens || s.Compare.Tokens == 0 {
					t.Errorf("%s of full and full: KL %g, %d of %d agree", name, x.kl, x.agree, s.Compare.Tokens)
				}
			}
			if s.Compare.A.Free != s.Compare.B.Free || strings.TrimSpace(s.Compare.A.Free) == "" {
				t.Errorf("free answers %q and %q", s.Compare.A.Free, s.Compare.B.Free)
			}
			v.until("numbers of both", `document.querySelectorAll('[data-testid="compare-sums"] tbody tr').length === 7`)
			v.shot("compare-full")

			v.click("match-0")
			v.click("compare-run")
			s = v.wait("two policies", `s.phase === "idle" && s.compare.ended && s.compare.a.recipe.method === "streamingllm" && s.compare.tokens > 0`)
			if s.Compare.B.Recipe.Method != "h2o" || s.Compare.A.KL <= 1e-6 && s.Compare.B.KL <= 1e-6 {
				t.Errorf("%+v", s.Compare)
			}
			v.until("the token's row", fmt.Sprintf(`document.querySelectorAll('[data-testid="compare-table"] tbody tr').length === %d`, s.Compare.Tokens))
			v.until("the strip", `document.querySelectorAll('[data-testid="compare-strip"] .pieces span').length > 20`)
			if now := eval[string](v, `JSON.stringify([window.kvlens.state().turns, window.kvlens.state().kept])`); now != before {
				t.Errorf("the conversation was\n%s\nand is\n%s", before, now)
			}
			eval[bool](v, `(() => { document.querySelector('[data-testid="compare-bars"]').scrollIntoView({block: "start"}); return true; })()`)
			v.shot("compare")
			if wide := eval[int](v, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
				v.Errorf("the page is %d pixels wider than its window", wide)
			}
			v.clean()
		})
	}
}

//go:build !js

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kvlens/app/stories"
)

const smolBytes = 98_362_432 // SmolLM2-135M-Instruct.Q4_1.gguf

// Words of the chat scenarios. The first question is a long answer's, the second is about what was said before.
var chat = map[string]struct{ first, second, long string }{
	"en": {
		"Tell me about the ocean.", "Why is that so?",
		strings.Repeat("The river runs past the mill and the old bridge. ", 12) + "What runs past the mill?",
	},
	"zh": {
		"请介绍一下海洋。", "为什么？",
		strings.Repeat("小河流过磨坊和老桥。", 16) + "什么流过磨坊？",
	},
}

// TestVisit is the way of a visitor from the first visit to an offline one, in both languages, on a desktop and a phone.
func TestVisit(t *testing.T) {
	needBrowser(t)
	for _, lang := range []string{"en", "zh"} {
		for _, size := range [][2]int{{1440, 900}, {390, 844}} {
			t.Run(fmt.Sprintf("%s-%d", lang, size[0]), func(t *testing.T) {
				v := open(t, startHost(t), lang, size[0], size[1])
				v.load("")
				answer := v.builtIn()
				v.download()
				v.stop()
				v.turns()
				v.memory()
				v.kill()
				v.offline(answer)
				v.clean()
			})
		}
	}
}

// builtIn asks the built-in model about its story and returns the answer.
func (v *visitor) builtIn() string {
	v.Helper()
	s := v.wait("the built-in model", time.Minute, `s.phase === "idle" && s.opened`)
	if s.Lang != v.lang || s.Mode != "story" || s.Backend != "cpu" {
		v.Errorf("language %s, mode %s, backend %s; want %s, story, cpu", s.Lang, s.Mode, s.Backend, v.lang)
	}
	v.shot("first")
	answer := v.ask("run")
	story := stories.All(v.lang)[0]
	if want := story.Asks[0].Answer; !strings.Contains(answer, want) {
		v.Errorf("the built-in model answered %q to %q, want %q in it", answer, story.Asks[0].Question, want)
	}
	if reason := last(v.state()).Reason; reason != "stop-text" {
		v.Errorf("the answer ended with %q, want its stop string", reason)
	}
	v.shot("answer")
	return answer
}

type turn = struct {
	Asked, Text, Reason     string
	Pieces, Tokens          int
	Ended, Failed           bool
	PrefillRate, DecodeRate float64
}

func last(s state) turn {
	if len(s.Turns) == 0 {
		return turn{}
	}
	return s.Turns[len(s.Turns)-1]
}

// ask presses a control that starts a turn, waits for its end and returns the answer.
func (v *visitor) ask(control string) string {
	v.Helper()
	before := eval[string](v, `JSON.stringify(window.kvlens.state().turns)`) // its rates make every turn different
	v.click(control)
	s := v.wait("the answer", 2*time.Minute,
		`s.phase === "idle" && s.turns.at(-1)?.ended && JSON.stringify(s.turns) !== `+quote(before))
	return last(s).Text
}

// download fetches SmolLM2 over a connection that breaks at 60 % and, after a reload, delivers one part broken.
func (v *visitor) download() {
	v.Helper()
	v.expected = append(v.expected, ".bin", "net::ERR_")
	v.host.set(func(h *host) { h.cutAt = smolBytes * 60 / 100 })
	v.choose("smollm2-135m-instruct")
	v.problem = "network"
	v.wait("the broken connection", 2*time.Minute, `s.problem?.code === "network"`)
	v.problem = ""
	v.shot("network")

	v.host.set(func(h *host) {
		h.cutAt, h.cut, h.served, h.corrupt = 0, false, 0, "part-020.bin"
		clear(h.requests)
	})
	v.load("")
	v.wait("the built-in model", time.Minute, `s.phase === "idle"`)
	v.choose("smollm2-135m-instruct")
	s := v.wait("resuming", time.Minute, `s.work.stage === "fetch" && s.work.resumed > 0`)
	if share := float64(s.Work.Resumed) / smolBytes; share < 0.55 {
		v.Errorf("%.0f %% were kept, want at least 55 %%", share*100)
	}
	v.wait("SmolLM2", 2*time.Minute, `s.phase === "idle" && s.mode === "chat"`)
	if again := v.host.sent(); again > smolBytes*45/100+2*(4<<20) {
		v.Errorf("%d bytes were fetched again, too many of %d", again, smolBytes)
	}
	if n := v.host.asked("part-020.bin"); n != 2 {
		v.Errorf("the broken part was fetched %d times, want 2", n)
	}
	if n := v.host.asked("part-021.bin"); n != 1 {
		v.Errorf("a whole part was fetched %d times, want 1", n)
	}
}

// choose opens a model of the list.
func (v *visitor) choose(id string) {
	v.Helper()
	v.click("models-button")
	v.shot("models")
	v.click("open-" + id)
}

// say writes a chat message and returns the answer.
func (v *visitor) say(message string) string {
	v.Helper()
	v.fill("message", message)
	return v.ask("run")
}

// stop presses Stop in the middle of an answer.
func (v *visitor) stop() {
	v.Helper()
	v.fill("message", chat[v.lang].first)
	v.click("run")
	v.wait("tokens", time.Minute, `s.phase === "answering" && s.turns.at(-1).tokens >= 3`)
	v.wait("more tokens", time.Minute, `s.turns.at(-1).tokens >= 6`)
	v.shot("streaming")
	before := eval[int](v, `(() => { const s = window.kvlens.state();
		document.querySelector('[data-testid="stop"]').click(); return s.turns.at(-1).tokens; })()`)
	s := v.wait("the stop", 10*time.Second, `s.phase === "idle"`)
	// The page shows tokens 30 times a second, so a few may have been on their way when the button was pressed.
	if got := last(s); got.Reason != "stopped" || got.Tokens > before+4 {
		v.Errorf("stopped at %d tokens: ended with %q after %d", before, got.Reason, got.Tokens)
	}
}

// turns compares two conversations: one with a turn that is cancelled while it is read and asked again, one without.
func (v *visitor) turns() {
	v.Helper()
	words := chat[v.lang]
	v.limit(16)
	var answers [2][]string
	for i := range answers {
		v.click("again")
		v.wait("an empty conversation", 10*time.Second, `s.turns.length === 0 && s.memory.stored === 0`)
		answers[i] = append(answers[i], v.say(words.first))
		answers[i] = append(answers[i], v.say(words.second))
		if i == 0 {
			v.fill("message", words.long)
			v.click("run")
			v.wait("reading", time.Minute, `s.phase === "prefill"`)
			v.click("stop")
			s := v.wait("the stop", 10*time.Second, `s.phase === "idle"`)
			if len(s.Turns) != 2 {
				v.Errorf("after a turn that was cancelled while it was read there are %d turns, want 2", len(s.Turns))
			}
		}
		answers[i] = append(answers[i], v.say(words.long))
	}
	if !slices.Equal(answers[0], answers[1]) {
		v.Errorf("with a cancelled turn: %q; without: %q", answers[0], answers[1])
	}
	v.shot("conversation")
}

// limit sets the answer limit.
func (v *visitor) limit(tokens int) {
	v.Helper()
	if !eval[bool](v, `!!document.querySelector('[data-testid="knob-max"]')?.checkVisibility()`) {
		v.press(testID("sampling") + " > summary")
	}
	v.fill("knob-max", fmt.Sprint(tokens))
	v.wait("the limit", 5*time.Second, fmt.Sprintf(`s.max === %d`, tokens))
}

// kill ends the worker in the middle of an answer without a word, as a crash does, and asks again.
func (v *visitor) kill() {
	v.Helper()
	v.limit(400)
	v.fill("message", chat[v.lang].first)
	v.click("run")
	v.wait("tokens", time.Minute, `s.phase === "answering" && s.turns.at(-1).tokens >= 2`)
	eval[bool](v, `(window.testWorkers.at(-1).terminate(), true)`)
	v.problem = "dead"
	v.wait("the page to notice", time.Minute, `s.problem?.code === "dead"`)
	v.shot("dead-worker")
	v.wait("another worker", 2*time.Minute, `s.opened && s.phase === "idle"`)
	v.limit(8)
	if answer := v.say(chat[v.lang].first); answer == "" {
		v.Error("the new worker has no answer")
	}
	v.problem = ""
}

// offline takes the network away, loads the page again and asks the built-in model again.
func (v *visitor) offline(answer string) {
	v.Helper()
	eval[bool](v, `navigator.serviceWorker.ready.then(() => true)`)
	v.host.set(func(h *host) { h.offline = true })
	v.load("")
	v.wait("the built-in model without a network", time.Minute, `s.phase === "idle" && s.opened`)
	if again := v.ask("run"); again != answer {
		v.Errorf("offline the built-in model answered %q, online %q", again, answer)
	}
	v.shot("offline")
	v.host.set(func(h *host) { h.offline = false })
}

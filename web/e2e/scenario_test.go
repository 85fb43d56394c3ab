//go:build !js

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kvlens/app/stories"
)

// SmolLM2-135M-Instruct.Q4_1.gguf: all parts but the last are of one size.
const (
	smolBytes = 98_362_432
	smolParts = 24
	partBytes = 4 << 20
)

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
				v := open(t, startHost(t).withBrake(), lang, size[0], size[1])
				v.load("")
				answer := v.builtIn()
				v.download()
				v.turns(v.stop())
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
	s := v.wait("the built-in model", `s.phase === "idle" && s.opened`)
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
	s := v.wait("the answer", `s.phase === "idle" && s.turns.at(-1)?.ended && JSON.stringify(s.turns) !== `+quote(before))
	return last(s).Text
}

// download fetches SmolLM2 over a connection that breaks at 60 % and, after a reload, delivers one part broken. Parts come
// one after the other, so those before the last one that was asked for are kept, and no others.
func (v *visitor) download() {
	v.Helper()
	v.expected = append(v.expected, ".bin", "net::ERR_")
	v.host.set(func(h *host) { h.cutAt = smolBytes * 60 / 100 })
	v.choose("smollm2-135m-instruct")
	v.problem = "network"
	v.wait("the broken connection", `s.problem?.code === "network"`)
	v.problem = ""
	v.shot("network")
	kept := 0
	for v.host.asked(partName(kept+1)) > 0 {
		kept++
	}
	if kept == 0 {
		v.Fatalf("the connection broke before there was a whole part")
	}

	gate := make(chan struct{})
	v.host.set(func(h *host) {
		h.cutAt, h.cut, h.served, h.corrupt, h.gate = 0, false, 0, partName(20), gate
		clear(h.requests)
	})
	v.load("")
	v.wait("the built-in model", `s.phase === "idle"`)
	v.choose("smollm2-135m-instruct")
	s := v.wait("resuming", `s.work.stage === "fetch" && s.work.resumed > 0`)
	if want := uint64(kept * partBytes); s.Work.Resumed != want {
		v.Errorf("%d bytes were kept, want %d parts, %d bytes", s.Work.Resumed, kept, want)
	}
	close(gate)
	v.wait("SmolLM2", `s.phase === "idle" && s.mode === "chat"`)
	for i := range smolParts {
		want := 1
		switch {
		case i < kept:
			want = 0
		case i == 20:
			want = 2 // it came broken
		}
		if n := v.host.asked(partName(i)); n != want {
			v.Errorf("part %d was asked for %d times after the break, with %d parts kept; want %d", i, n, kept, want)
		}
	}
}

func partName(i int) string { return fmt.Sprintf("part-%03d.bin", i) }

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

// stop presses Stop in the middle of an answer and returns what there is of it. The engine has heard of Stop before it goes
// on: no token comes any more.
func (v *visitor) stop() string {
	v.Helper()
	const tokens = 6
	v.fill("message", chat[v.lang].first)
	v.hold(tokens)
	v.click("run")
	v.wait("tokens", fmt.Sprintf(`s.phase === "answering" && s.turns.at(-1).tokens === %d`, tokens))
	v.shot("streaming")
	v.click("stop")
	got := last(v.wait("the stop", `s.phase === "idle"`))
	if got.Reason != "stopped" || got.Tokens != tokens || got.Text == "" {
		v.Errorf("stopped at %d tokens: ended with %q after %d, %q", tokens, got.Reason, got.Tokens, got.Text)
	}
	return got.Text
}

// turns compares two conversations: one with a turn that is cancelled while it is read and asked again, one without. Both
// begin with the question whose answer was stopped before.
func (v *visitor) turns(stopped string) {
	v.Helper()
	words := chat[v.lang]
	v.limit(16)
	var answers [2][]string
	for i := range answers {
		v.click("again")
		v.wait("an empty conversation", `s.turns.length === 0 && s.memory.stored === 0`)
		answers[i] = append(answers[i], v.say(words.first))
		answers[i] = append(answers[i], v.say(words.second))
		if i == 0 {
			before := v.state().Memory
			v.fill("message", words.long)
			v.hold(0)
			v.click("run")
			v.wait("reading", `s.phase === "prefill"`)
			v.click("stop")
			s := v.wait("the stop", `s.phase === "idle"`)
			if len(s.Turns) != 2 || s.Memory.Stored != before.Stored {
				v.Errorf("a turn that was cancelled while it was read leaves %d turns and %d tokens, before there were 2 and %d",
					len(s.Turns), s.Memory.Stored, before.Stored)
			}
		}
		answers[i] = append(answers[i], v.say(words.long))
	}
	if !slices.Equal(answers[0], answers[1]) {
		v.Errorf("with a cancelled turn: %q; without: %q", answers[0], answers[1])
	}
	if !strings.HasPrefix(answers[0][0], stopped) {
		v.Errorf("the stopped answer %q does not begin the whole one, %q", stopped, answers[0][0])
	}
	v.late()
	v.shot("conversation")
}

// limit sets the answer limit.
func (v *visitor) limit(tokens int) {
	v.Helper()
	if !eval[bool](v, `!!document.querySelector('[data-testid="knob-max"]')?.checkVisibility()`) {
		v.press(testID("sampling") + " > summary")
	}
	v.fill("knob-max", fmt.Sprint(tokens))
	v.wait("the limit", fmt.Sprintf(`s.max === %d`, tokens))
}

// kill ends the worker in the middle of an answer without a word, as a crash does, and asks again.
func (v *visitor) kill() {
	v.Helper()
	v.limit(400)
	v.fill("message", chat[v.lang].first)
	v.hold(2)
	v.click("run")
	v.wait("tokens", `s.phase === "answering" && s.turns.at(-1).tokens === 2`)
	eval[bool](v, `(window.testWorkers.at(-1).terminate(), true)`)
	v.problem = "dead"
	v.wait("the page to notice", `s.problem?.code === "dead"`)
	v.shot("dead-worker")
	v.wait("another worker", `s.opened && s.phase === "idle"`)
	v.limit(8)
	if answer := v.say(chat[v.lang].first); answer == "" {
		v.Errorf("the new worker has no answer")
	}
	v.problem = ""
}

// offline takes the network away, loads the page again and asks the built-in model again.
func (v *visitor) offline(answer string) {
	v.Helper()
	v.ready()
	v.host.set(func(h *host) { h.offline = true })
	v.load("")
	v.wait("the built-in model without a network", `s.phase === "idle" && s.opened`)
	if again := v.ask("run"); again != answer {
		v.Errorf("offline the built-in model answered %q, online %q", again, answer)
	}
	v.shot("offline")
	v.host.set(func(h *host) { h.offline = false })
}

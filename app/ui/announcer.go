package ui

import (
	"time"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/state"
	"kvlens/wasm/proto"
)

// announcer tells screen readers what changed, at most once a second: of several messages the latest counts.
type announcer struct {
	c       *controller
	message string
	why     string // the last answer to the reader's question
	waiting bool
	last    time.Time
}

// changed compares two models and announces what a sighted reader would notice.
func (a *announcer) changed(before, after state.Model) {
	c := a.c
	if news := c.keptNews(before, after); news != "" && after.Phase == state.Answering {
		a.say(news)
	}
	if after.Why.On {
		if news := c.whyNews(); news != a.why {
			a.why = news
			a.say(news)
		}
	} else {
		a.why = ""
	}
	switch {
	case before.Phase == after.Phase:
	case after.Phase == state.Opening:
		a.say(c.t("say.opening"))
	case before.Phase == state.Opening && after.Phase == state.Idle:
		a.say(c.t("say.ready"))
	case before.Phase == state.Comparing && after.Phase == state.Idle:
		a.say(c.t("say.compared"))
	case before.Phase == state.Changing && after.Phase == state.Idle:
		message := c.t("say.changed")
		switch {
		case len(after.Notices) > 0:
			message = c.t(after.Notices[0].Key)
		case len(after.Kept.Pins) != len(before.Kept.Pins):
			message = c.t("say.pinned", "n", len(after.Kept.Pins))
		case length(after) < length(before):
			message = c.t("say.undone")
		}
		if after.Kept.Tokens > 0 && !after.Kept.All {
			message += c.t("sentence.separator") + c.scopeText()
		}
		a.say(message)
	case after.Phase == state.Prefill:
		a.say(c.t("say.reading"))
	case before.Running() && after.Phase == state.Idle && len(after.Turns) < len(before.Turns) && after.Problem == nil:
		a.say(c.t("say.halted"))
	case before.Running() && after.Phase == state.Idle:
		if t, ok := after.Live(); ok && t.Ended && !t.Failed {
			key := "say.answer"
			if t.Reason == proto.ReasonStopped {
				key = "say.stopped"
			}
			a.say(c.t(key, "text", t.Text()))
		}
	}
}

// length is how long a conversation is on the page.
func length(m state.Model) (n int) {
	for _, t := range m.Turns {
		n += len(t.Pieces) + len(t.Answer)
	}
	return n
}

func (a *announcer) say(message string) {
	a.message = message
	if a.waiting {
		return
	}
	a.waiting = true
	time.AfterFunc(max(0, time.Second-time.Since(a.last)), func() {
		a.waiting, a.last = false, time.Now()
		if el := byID("live"); el.Truthy() {
			el.Set("textContent", a.message)
		}
	})
}

// liveRegion is the announcer's element.
type liveRegion struct{ app.Compo }

func (*liveRegion) Render() app.UI {
	return named(app.Div(), "live").ID("live").Class("sr").Role("status").Aria("live", "polite")
}

// Package ui is the page: go-app components over the model of app/state. Components only read the model and send events;
// the controller reduces them, does the effects and decides what is drawn again. What changes with every token (the
// answer, the card) is written straight to its own element instead of going through a re-rendering of the page.
package ui

import (
	"time"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/engineclient"
	"kvlens/app/state"
	"kvlens/app/stories"
	"kvlens/app/text"
	"kvlens/wasm/proto"
)

// host is what the controller needs of the browser. Where there is none (prerendering, tests) nothing happens.
type host interface {
	// Now is a clock in milliseconds.
	Now() float64
	// Fetch loads the catalogue of a language and hands it over later, or nil if it cannot be had.
	Fetch(lang string, then func(*text.Catalogue))
	Save(key, value string)
	// Address puts a fragment into the page's address.
	Address(fragment string)
	Reload()
}

// controller owns the model. All of it runs on the goroutine of the page.
type controller struct {
	model   state.Model
	words   *text.Catalogue
	host    host
	client  *engineclient.Client
	inbox   *inbox
	home    app.Context
	there   bool // the page is mounted
	updated bool // a newer version of the site is there
	drawn   time.Time

	requests map[uint32]state.Effect // sent by the page, not yet ended
	long     uint32                  // the opening or turn that runs
	view     uint32                  // the request for a matrix that runs
	paints   []*turn                 // the turns on the page, in order
	card     card
	eyes     eyes
	plot     plot
	follower follower
	live     announcer
	ringed   app.Value   // the token that is asked about; nil for none
	seen     int         // of the one that the card was moved away from last: its place, from 1, twice, and 1 more once it was explained
	focused  app.Value   // what had the focus when a change of the cache began; nil for nothing
	begin    state.Start // what the address, the settings and the list of models say
}

func newController(words *text.Catalogue, h host) *controller {
	c := &controller{model: state.New(), words: words, host: h, requests: map[uint32]state.Effect{}}
	c.model.Lang = words.Lang()
	if all := stories.All(words.Lang()); len(all) > 0 {
		c.model.Draft = draft(all[0])
	}
	c.card.c, c.live.c, c.eyes.c, c.plot = c, c, c, newPlot(c)
	return c
}

// draft is a story as the reader's next question.
func draft(s stories.Story) state.Draft {
	d := state.Draft{Preset: s.ID, Story: s.Text, More: s.Questions()}
	for _, a := range s.Asks {
		d.Answers = append(d.Answers, a.Answer)
	}
	if len(d.More) > 0 {
		d.Question = d.More[0]
	}
	return d
}

// t is a message of the page's language.
func (c *controller) t(key string, args ...any) string { return c.words.T(key, args...) }

// send reduces an event, does what it asks for and has the page drawn again.
func (c *controller) send(e state.Event) {
	c.reduce(e)
	c.draw()
}

func (c *controller) reduce(e state.Event) {
	before := c.model
	next, effects := state.Reduce(c.model, e)
	c.model = next
	for _, x := range effects {
		c.do(x)
	}
	c.live.changed(before, c.model)
	emptied(before.Draft, c.model.Draft)
	if p := c.model.Problem; p != nil && p != before.Problem {
		c.reveal("problem")
	}
	c.refocus(before.Occupied(), c.model.Occupied())
}

// refocus gives the focus back to the control that began something: while that lasts the control is disabled, and browsers
// take the focus from those. A focus that has moved on stays where it is. Controls that are no longer there hand it on.
func (c *controller) refocus(before, after bool) {
	switch {
	case !c.there || before == after:
	case after:
		c.focused = document().Get("activeElement")
	case c.focused != nil:
		el := c.focused
		c.focused = nil
		c.home.Defer(func(app.Context) {
			if now := document().Get("activeElement"); now.Truthy() && !now.Equal(document().Get("body")) {
				return
			}
			for _, id := range []string{"", "reason", "step"} {
				if id != "" {
					el = byID(id)
				}
				if el.Truthy() && el.Get("isConnected").Bool() {
					el.Call("focus", map[string]any{"preventScroll": true})
					return
				}
			}
		})
	}
}

// reveal moves the page so that an element which is new on it can be seen.
func (c *controller) reveal(id string) {
	if !c.there {
		return
	}
	c.home.Defer(func(app.Context) {
		if el := byID(id); el.Truthy() {
			el.Call("scrollIntoView", map[string]any{"block": "nearest"})
		}
	})
}

// emptied clears fields whose text the model has dropped: go-app takes an empty value for none.
func emptied(before, after state.Draft) {
	for id, was := range map[string][2]string{
		"story": {before.Story, after.Story}, "question": {before.Question, after.Question}, "message": {before.Message, after.Message}, "raw": {before.Raw, after.Raw},
	} {
		if was[0] != "" && was[1] == "" {
			if el := byID(id); el.Truthy() {
				el.Set("value", "")
			}
		}
	}
}

// draw renders the page's components soon.
func (c *controller) draw() {
	if c.there {
		c.drawn = time.Now()
		c.home.Update()
	}
}

// mounted starts the page's life.
func (c *controller) mounted(ctx app.Context, start func(func(uint32, proto.Event), func(engineclient.State)) *engineclient.Client) {
	c.home, c.there = ctx, true
	c.inbox = newInbox(c.flush)
	c.client = start(c.inbox.event, c.inbox.state)
	c.send(c.begin)
	c.setRoot("theme", c.model.Theme)
	go c.clock()
}

// clock ticks once a second while something is going on.
func (c *controller) clock() {
	for range time.Tick(time.Second) {
		if c.model.Busy() {
			c.home.Dispatch(func(ctx app.Context) {
				quiet, long := c.model.Work.Quiet, c.model.Work.Long
				c.reduce(state.Tick{Now: c.host.Now()})
				if (quiet > 0) == (c.model.Work.Quiet > 0) && quiet == 0 && long == c.model.Work.Long {
					ctx.PreventUpdate()
				}
			})
		}
	}
}

func (c *controller) do(e state.Effect) {
	switch e := e.(type) {
	case state.OpenModel:
		c.long = c.request(e, e.Open)
	case state.Generate:
		c.long = c.request(e, e.Generate)
	case state.Cancel:
		if c.client != nil {
			c.client.Stop(c.long)
		}
	case state.Remake:
		c.long = c.request(e, proto.SetMemory{Memory: e.Memory})
	case state.Undo:
		c.long = c.request(e, proto.Undo(e))
	case state.Pin:
		c.long = c.request(e, e.Pin)
	case state.Recall:
		c.long = c.request(e, proto.Recall(e))
	case state.RunCompare:
		c.long = c.request(e, e.Compare)
	case state.Explain:
		c.request(e, e.Explain)
	case state.Look:
		c.unlook()
		c.view = c.request(e, e.View)
	case state.Unlook:
		c.unlook()
	case state.Address:
		c.host.Address(e.Fragment)
	case state.Empty:
		c.request(e, proto.Reset{})
	case state.List:
		c.request(e, proto.ListModels(e))
	case state.Delete:
		c.request(e, proto.DeleteModel(e))
	case state.Save:
		c.host.Save(e.Key, e.Value)
		if e.Key == state.KeyTheme {
			c.setRoot("theme", e.Value)
		}
	case state.Fetch:
		c.host.Fetch(e.Lang, func(words *text.Catalogue) { c.speak(e.Lang, words) })
	case state.Reload:
		c.host.Reload()
	case state.Focus:
		c.focus(e.ID)
	}
}

// unlook stops the request for a matrix that runs.
func (c *controller) unlook() {
	if c.client != nil && c.view != 0 {
		c.client.Stop(c.view)
	}
}

func (c *controller) request(e state.Effect, m proto.Request) uint32 {
	if c.client == nil {
		return 0
	}
	id := c.client.Send(m)
	c.requests[id] = e
	return id
}

// speak changes the page's language. The story on the page changes with it unless the reader has written or asked.
func (c *controller) speak(lang string, words *text.Catalogue) {
	c.home.Dispatch(func(app.Context) {
		if words == nil {
			c.reduce(state.LangMissed{})
			return
		}
		before := c.words.Lang()
		c.words = words
		c.reduce(state.LangReady{Lang: lang})
		if s, ok := c.translated(before, lang); ok {
			c.reduce(state.Preset{Draft: draft(s)})
		}
		c.card.hide()
		c.setRoot("lang", lang)
	})
}

// translated is the story on the page in another language, if it is still as it came and nothing has been asked.
func (c *controller) translated(from, to string) (stories.Story, bool) {
	d := c.model.Draft
	was, ok := stories.Find(from, d.Preset)
	if fresh := draft(was); !ok || len(c.model.Turns) > 0 || d.Story != fresh.Story || d.Question != fresh.Question {
		return stories.Story{}, false
	}
	return stories.Find(to, d.Preset)
}

// flush takes what the engine said since the last frame.
func (c *controller) flush() {
	c.home.Dispatch(func(ctx app.Context) {
		hot, running := true, c.model.Running()
		for _, in := range c.inbox.take() {
			hot = c.hear(in) && hot
		}
		c.paint(running)
		// Tokens and progress are drawn where they are; the panels beside them follow ten times a second.
		if hot && time.Since(c.drawn) < 100*time.Millisecond {
			ctx.PreventUpdate()
			return
		}
		c.drawn = time.Now()
	})
}

func (c *controller) focus(id string) {
	c.home.Defer(func(app.Context) {
		el := byID(id)
		if !el.Truthy() {
			return
		}
		if id == "models" {
			el.Call("showPopover")
			return
		}
		el.Call("focus")
	})
}

// setRoot sets what the whole document depends on.
func (c *controller) setRoot(what, value string) {
	root := app.Window().Get("document").Get("documentElement")
	if !root.Truthy() {
		return
	}
	switch what {
	case "theme":
		root.Get("dataset").Set("theme", value)
	case "lang":
		root.Set("lang", htmlLang(value))
		app.Window().Get("document").Set("title", c.t("title"))
	}
}

// htmlLang is the tag for the lang attribute.
func htmlLang(lang string) string {
	if lang == "zh" {
		return "zh-Hans"
	}
	return lang
}

package ui

import (
	"errors"
	"syscall/js"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/engineclient"
	"kvlens/app/state"
	"kvlens/app/text"
	"kvlens/wasm/proto"
)

// Run starts the page in the browser and does not return. build must be the engine's. Until the words are there the
// prerendered page stays.
func Run(build string) error {
	readable()
	js.Global().Call("addEventListener", "popstate", js.FuncOf(func(js.Value, []js.Value) any { // before go-app's
		readable()
		return nil
	}))
	location := js.Global().Get("location")
	options := state.ParseAddress(location.Get("search").String(), location.Get("hash").String())
	lang := state.ChooseLang(options.Lang, saved(state.KeyLang), navigatorLanguages())
	words, err := catalogue(lang)
	if err != nil {
		return err
	}
	c := newController(words, browser{})
	c.begin = state.Start{Options: options, Theme: saved(state.KeyTheme), Offers: offers()}
	c.begin.Lang = lang
	c.setRoot("lang", lang)
	c.expose()
	c.follow()
	start := func(event func(uint32, proto.Event), on func(engineclient.State)) *engineclient.Client {
		return engineclient.New(engineclient.StartWorker(address("web/engine.js")), build, engineclient.Handler{Event: event, State: on})
	}
	app.Route("/", func() app.Composer { return &Home{c: c, start: start} })
	app.RunWhenOnBrowser()
	return nil
}

// readable mends an address that go-app could not parse, and would end at.
func readable() {
	hash := js.Global().Get("location").Get("hash").String()
	if mended := state.Readable(hash); mended != hash {
		browser{}.Address(mended)
	}
}

// follow listens for links to this page that are followed on it.
func (c *controller) follow() {
	js.Global().Call("addEventListener", "hashchange", js.FuncOf(func(js.Value, []js.Value) any {
		fragment := js.Global().Get("location").Get("hash").String()
		if c.there {
			c.home.Dispatch(func(app.Context) { c.reduce(state.Follow{Fragment: fragment}) })
		}
		return nil
	}))
}

// expose gives tests and the curious a snapshot: window.kvlens.state().
func (c *controller) expose() {
	object := js.Global().Get("Object").New()
	object.Set("state", js.FuncOf(func(js.Value, []js.Value) any {
		return js.Global().Get("JSON").Call("parse", string(state.Snapshot(c.model)))
	}))
	js.Global().Set("kvlens", js.Global().Get("Object").Call("freeze", object))
}

// browser is the controller's host.
type browser struct{}

func (browser) Now() float64 { return js.Global().Get("performance").Call("now").Float() }

func (browser) Fetch(lang string, then func(*text.Catalogue)) {
	go func() {
		words, err := catalogue(lang)
		if err != nil {
			js.Global().Get("console").Call("warn", err.Error())
		}
		then(words)
	}()
}

func (browser) Save(key, value string) {
	defer func() { _ = recover() }() // storage may be full or forbidden: then the setting lasts for this visit
	js.Global().Get("localStorage").Call("setItem", key, value)
}

func (browser) Address(fragment string) {
	url := js.Global().Get("URL").New(js.Global().Get("location").Get("href"))
	url.Set("hash", fragment)
	js.Global().Get("history").Call("replaceState", js.Global().Get("history").Get("state"), "", url.Get("href"))
}

func (browser) Reload() { js.Global().Get("location").Call("reload") }

func saved(key string) string {
	v := js.Global().Get("localStorage").Call("getItem", key)
	if v.Type() != js.TypeString {
		return ""
	}
	return v.String()
}

func navigatorLanguages() []string {
	list := js.Global().Get("navigator").Get("languages")
	if list.Type() != js.TypeObject {
		return nil
	}
	out := make([]string, list.Length())
	for i := range out {
		out[i] = list.Index(i).String()
	}
	return out
}

// address is a file of the site, wherever the site lies.
func address(path string) string {
	return js.Global().Get("URL").New(path, js.Global().Get("document").Get("baseURI")).Get("href").String()
}

func catalogue(lang string) (*text.Catalogue, error) {
	data, err := fetch(address("web/text/" + lang + ".json"))
	if err != nil {
		return nil, err
	}
	return text.Parse(lang, data)
}

// offers reads the list of the site's models; without it there is nothing to open, which the page then says.
func offers() []state.Offer {
	const folder = "web/models/"
	data, err := fetch(address(folder + "index.json"))
	if err != nil {
		return nil
	}
	offers, err := state.ParseOffers(data)
	if err != nil {
		return nil
	}
	for i := range offers {
		offers[i].Manifest = address(folder + offers[i].Manifest)
	}
	return offers
}

// fetch loads a small file.
func fetch(url string) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	var then, body, fail js.Func
	then = js.FuncOf(func(_ js.Value, args []js.Value) any {
		if !args[0].Get("ok").Bool() {
			done <- result{err: errors.New("ui: " + url + ": status " + args[0].Get("statusText").String())}
			return nil
		}
		args[0].Call("arrayBuffer").Call("then", body, fail)
		return nil
	})
	body = js.FuncOf(func(_ js.Value, args []js.Value) any {
		a := js.Global().Get("Uint8Array").New(args[0])
		data := make([]byte, a.Length())
		js.CopyBytesToGo(data, a)
		done <- result{data: data}
		return nil
	})
	fail = js.FuncOf(func(_ js.Value, args []js.Value) any {
		done <- result{err: errors.New("ui: " + url + ": " + args[0].Call("toString").String())}
		return nil
	})
	defer then.Release()
	defer body.Release()
	defer fail.Release()
	js.Global().Call("fetch", url).Call("then", then, fail)
	r := <-done
	return r.data, r.err
}

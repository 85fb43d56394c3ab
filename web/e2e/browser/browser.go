//go:build !js

// Package browser starts the system's Chromium for the tests and keeps what it said: console messages, page errors and
// the address of every request.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Options of a browser. The zero value is a desktop window with an empty profile.
type Options struct {
	Width, Height int            // of the window in pixels; 0 means 1440×900
	Flags         map[string]any // more command-line flags: a string value or true
}

// Message is one line of the console: a call of the console API, an exception that nothing caught (level "exception")
// or an entry of the browser's log.
type Message struct {
	Level, Text, URL string
}

// Browser is a running Chromium with one tab and an empty profile.
type Browser struct {
	// Ctx is the chromedp context of the tab.
	Ctx context.Context

	cancel []context.CancelFunc
	proxy  *recorder

	mu       sync.Mutex
	console  []Message
	requests []string
}

// Path finds Chromium: the environment's CHROMIUM, else a usual name in PATH.
func Path() (string, error) {
	names := []string{"chromium", "chromium-browser", "google-chrome"}
	if p := os.Getenv("CHROMIUM"); p != "" {
		names = []string{p}
	}
	for _, n := range names {
		if p, err := exec.LookPath(n); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("browser: none of %v found: install chromium or set CHROMIUM", names)
}

// Start starts Chromium. What it asks of any other host than this machine is refused and recorded (see Foreign).
func Start(ctx context.Context, o Options) (*Browser, error) {
	path, err := Path()
	if err != nil {
		return nil, err
	}
	if o.Width == 0 {
		o.Width, o.Height = 1440, 900
	}
	proxy, err := newRecorder()
	if err != nil {
		return nil, err
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:len(chromedp.DefaultExecAllocatorOptions):len(chromedp.DefaultExecAllocatorOptions)],
		chromedp.ExecPath(path),
		chromedp.NoSandbox,
		chromedp.NoFirstRun,
		chromedp.WindowSize(o.Width, o.Height),
		chromedp.ProxyServer(proxy.url),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
	)
	for k, v := range o.Flags {
		opts = append(opts, chromedp.Flag(k, v))
	}
	b := &Browser{proxy: proxy}
	alloc, cancelAlloc := chromedp.NewExecAllocator(ctx, opts...)
	b.cancel = append(b.cancel, cancelAlloc)
	tab, cancelTab := chromedp.NewContext(alloc, chromedp.WithListener(b.hear))
	b.cancel = append(b.cancel, cancelTab)
	b.Ctx = tab
	if err := chromedp.Do(tab); err != nil {
		b.Close()
		return nil, fmt.Errorf("browser: start %s: %w", path, err)
	}
	if _, err := chromedp.Call(tab, network.Enable, network.EnableParams{}); err != nil {
		b.Close()
		return nil, fmt.Errorf("browser: enable network events: %w", err)
	}
	return b, nil
}

// hear records one event of the tab.
func (b *Browser) hear(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := ev.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *runtime.EventConsoleAPICalled:
		b.console = append(b.console, Message{Level: string(e.Type), Text: argText(e.Args), URL: stackURL(e.StackTrace)})
	case *runtime.EventExceptionThrown:
		d := e.ExceptionDetails
		text := d.Text
		if d.Exception != nil && d.Exception.Description != "" {
			text = d.Exception.Description
		}
		b.console = append(b.console, Message{Level: "exception", Text: text, URL: d.URL})
	case *log.EventEntryAdded:
		b.console = append(b.console, Message{Level: string(e.Entry.Level), Text: e.Entry.Text, URL: e.Entry.URL})
	}
}

func argText(args []*runtime.RemoteObject) string {
	s := ""
	for i, a := range args {
		if i > 0 {
			s += " "
		}
		var str string
		switch {
		case a.Type == "string" && decodeString(a.Value, &str):
			s += str
		case a.Description != "":
			s += a.Description
		default:
			s += string(a.Value)
		}
	}
	return s
}

func stackURL(st *runtime.StackTrace) string {
	if st == nil || len(st.CallFrames) == 0 {
		return ""
	}
	return st.CallFrames[0].URL
}

// Console returns the messages so far.
func (b *Browser) Console() []Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.console)
}

// Errors returns the messages that a clean console does not have: errors, warnings, failed assertions and exceptions.
func (b *Browser) Errors() []Message {
	return slices.DeleteFunc(b.Console(), func(m Message) bool {
		return !slices.Contains([]string{"error", "warning", "assert", "exception"}, m.Level)
	})
}

// Requests returns the addresses that the tab asked for, workers aside (each has a target of its own).
func (b *Browser) Requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests)
}

// Foreign returns the hosts other than this machine that page, workers and service worker asked for. They were all
// refused. Services that Chromium asks on its own account are left out.
func (b *Browser) Foreign() []string { return b.proxy.seen() }

// Close ends the browser and removes its profile.
func (b *Browser) Close() {
	if b.Ctx != nil {
		ctx, cancel := context.WithTimeout(b.Ctx, 5*time.Second)
		_ = chromedp.Cancel(ctx) // the contexts below end it the hard way if this fails
		cancel()
	}
	for _, c := range slices.Backward(b.cancel) {
		c()
	}
	b.proxy.close()
}

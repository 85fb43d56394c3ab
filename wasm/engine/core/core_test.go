//go:build !js

package core

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kvlens/cache"
	"kvlens/wasm/proto"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
	"kvlens/wasm/weights"
)

const (
	build   = "b1"
	builtIn = "../../../web/static/models/teach.json"
)

// files is the network: addresses are paths.
type files struct{}

func (files) Get(_ context.Context, path string, _ weights.Caching) (*weights.Response, error) {
	f, err := os.Open(path)
	if err != nil {
		return &weights.Response{Status: 404, Body: io.NopCloser(strings.NewReader(""))}, nil
	}
	return &weights.Response{Status: 200, Body: f}, nil
}

// page is the page's end of an engine.
type page struct {
	t    *testing.T
	conn proto.Conn
	last uint32
	led  *cache.Ledger
}

// hooks are what a test may put into the engine.
type hooks struct {
	yield   func()
	backend func(b step.Backend) step.Backend
	choose  func(w Wish, led *cache.Ledger) (step.Backend, string, error) // instead of backend
}

func newPage(t *testing.T, h hooks) *page {
	t.Helper()
	mine, theirs := proto.Pipe()
	p := &page{t: t, conn: mine}
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = Serve(context.Background(), theirs, Config{
			Build: build, Store: weights.NewStore(weights.NewMemoryFS(), files{}), Yield: h.yield,
			Backend: func(_ context.Context, w Wish, led *cache.Ledger) (step.Backend, string, error) {
				p.led = led
				if h.choose != nil {
					return h.choose(w, led)
				}
				if w.Backend == "webgpu" {
					return nil, "", proto.Failure{Code: proto.CodeBackend}
				}
				b := ref.New(led)
				if h.backend != nil {
					return h.backend(b), proto.WhyAsked, nil
				}
				return b, proto.WhyAsked, nil
			},
		})
	})
	t.Cleanup(func() {
		mine.Close()
		wg.Wait()
		for kind, r := range p.led.Rows() {
			if r.Allocated != 0 || r.Logical != 0 {
				t.Errorf("the engine is gone and still holds %d bytes of kind %d", r.Allocated, kind)
			}
		}
	})
	p.led = &cache.Ledger{}
	if m, ok := p.next().msg.(proto.Hello); !ok || m.Version != proto.Version || m.Build != build {
		t.Fatalf("the engine greets with %+v", m)
	}
	p.send(0, proto.Hello{Version: proto.Version, Build: build})
	return p
}

// opened is a page with the built-in model.
func opened(t *testing.T, h hooks) *page {
	t.Helper()
	p := newPage(t, h)
	p.ask(proto.Open{Manifest: builtIn, Backend: "ref"}).ok()
	return p
}

type event struct {
	id  uint32
	msg proto.Message
}

func (p *page) next() event {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	packet, err := p.conn.Recv(ctx)
	if err != nil {
		p.t.Fatalf("waiting for the engine: %v", err)
	}
	id, m, err := proto.Decode(packet)
	if err != nil {
		p.t.Fatal(err)
	}
	return event{id, m}
}

func (p *page) send(id uint32, m proto.Message) {
	p.t.Helper()
	if err := p.conn.Send(proto.Encode(id, m)); err != nil {
		p.t.Fatal(err)
	}
}

// outcome is all that a request gave.
type outcome struct {
	t       *testing.T
	opened  proto.Opened
	prompt  proto.Prompt
	stages  []proto.Stage
	steps   []proto.Step
	state   proto.State
	models  proto.Models
	matrix  proto.Matrix
	moved   []proto.Moved
	kept    []proto.Kept
	told    []proto.Compared
	strayed []proto.Strayed
	sums    []proto.Contrast

	explained proto.Explained

	read    proto.Progress // the last of reading
	done    proto.Done
	failure *proto.Failure
}

// ask sends a request and collects what comes back until it ends.
func (p *page) ask(m proto.Request) *outcome {
	p.t.Helper()
	p.last++
	p.send(p.last, m)
	return p.wait(p.last, nil)
}

// wait collects the events of a request. each sees every event of the connection first.
func (p *page) wait(id uint32, each func(event)) *outcome {
	p.t.Helper()
	o := &outcome{t: p.t}
	for {
		e := p.next()
		if each != nil {
			each(e)
		}
		if e.id != id {
			continue
		}
		switch m := e.msg.(type) {
		case proto.Progress:
			if !slices.Contains(o.stages, m.Stage) {
				o.stages = append(o.stages, m.Stage)
			}
			if m.Stage == proto.StagePrefill {
				o.read = m
			}
		case proto.Opened:
			o.opened = m
		case proto.Prompt:
			o.prompt = m
		case proto.Step:
			o.steps = append(o.steps, m)
		case proto.State:
			o.state = m
		case proto.Models:
			o.models = m
		case proto.Matrix:
			o.matrix = m
		case proto.Kept:
			o.kept = append(o.kept, m)
		case proto.Moved:
			o.moved = append(o.moved, m)
		case proto.Compared:
			o.told = append(o.told, m)
		case proto.Explained:
			o.explained = m
		case proto.Strayed:
			o.strayed = append(o.strayed, m)
		case proto.Contrast:
			o.sums = append(o.sums, m)
		case proto.Done:
			o.done = m
			return o
		case proto.Failure:
			o.failure = &m
			return o
		}
	}
}

// ok fails the test if the request failed.
func (o *outcome) ok() *outcome {
	o.t.Helper()
	if o.failure != nil {
		o.t.Fatalf("failure %d: %s: %s", o.failure.Code, o.failure.Op, o.failure.Msg)
	}
	return o
}

func (o *outcome) fails(code proto.Code, args ...string) {
	o.t.Helper()
	if o.failure == nil || o.failure.Code != code || !slices.Equal(o.failure.Args, args) {
		o.t.Errorf("got %+v %+v, want failure %d %q", o.done, o.failure, code, args)
	}
}

func (o *outcome) text() string {
	s := ""
	for _, step := range o.steps {
		s += step.Text
	}
	return s
}

func (o *outcome) tokens() []uint32 {
	var ids []uint32
	for _, step := range o.steps {
		ids = append(ids, step.Token)
	}
	return ids
}

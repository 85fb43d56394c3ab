package page

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"kvlens/app/state"
	"kvlens/app/stories"
	"kvlens/cache"
	"kvlens/wasm/engine/core"
	"kvlens/wasm/proto"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
	"kvlens/wasm/weights"
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

// engine is an engine with the built-in model, and the page's end of it.
type engine struct {
	t    *testing.T
	conn proto.Conn
	last uint32
}

func open(t *testing.T) *engine {
	t.Helper()
	mine, theirs := proto.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = core.Serve(context.Background(), theirs, core.Config{
			Build: "b", Store: weights.NewStore(weights.NewMemoryFS(), files{}),
			Backend: func(_ context.Context, _ core.Wish, led *cache.Ledger) (step.Backend, string, error) {
				return ref.New(led), proto.WhyAsked, nil
			},
		})
	})
	t.Cleanup(func() {
		mine.Close()
		wg.Wait()
	})
	e := &engine{t: t, conn: mine}
	if _, err := mine.Recv(context.Background()); err != nil { // its Hello
		t.Fatal(err)
	}
	e.post(0, proto.Hello{Version: proto.Version, Build: "b"})
	e.ask(proto.Open{Manifest: "../../static/models/teach.json"}, nil)
	return e
}

func (e *engine) post(id uint32, m proto.Message) {
	e.t.Helper()
	if err := e.conn.Send(proto.Encode(id, m)); err != nil {
		e.t.Fatal(err)
	}
}

// ask sends a request and hands out its events until it is done.
func (e *engine) ask(m proto.Request, event func(proto.Event)) proto.Done {
	e.t.Helper()
	e.last++
	e.post(e.last, m)
	for {
		p, err := e.conn.Recv(context.Background())
		if err != nil {
			e.t.Fatal(err)
		}
		_, got, err := proto.Decode(p)
		switch got := got.(type) {
		case proto.Done:
			return got
		case proto.Failure:
			e.t.Fatalf("%T: %v", m, got)
		case proto.Event:
			if event != nil {
				event(got)
			}
		}
		if err != nil {
			e.t.Fatal(err)
		}
	}
}

// The built-in model answers every question of every story, asked in turn in one conversation as the page does, and each
// alone.
func TestStoriesAreAnswered(t *testing.T) {
	e := open(t)
	asked, right := 0, 0
	for _, lang := range state.Languages {
		for _, s := range stories.All(lang) {
			for _, together := range []bool{false, true} {
				for i, a := range s.Asks {
					g := proto.Generate{
						Mode: proto.Story, Text: s.Text, Question: a.Question, Max: 24, Continue: together && i > 0,
						Sampling: proto.Sampling{TopP: 1, Repeat: 1},
					}
					var said strings.Builder
					done := e.ask(g, func(v proto.Event) {
						if step, ok := v.(proto.Step); ok {
							said.WriteString(step.Text)
						}
					})
					asked++
					got := strings.TrimRight(strings.TrimSpace(said.String()), ".。")
					if got != a.Answer || done.Reason != proto.ReasonStopText {
						t.Errorf("%s/%s, %s (together %v): %q, want %q; reason %d", lang, s.ID, a.Question, together, got, a.Answer, done.Reason)
						continue
					}
					right++
				}
			}
		}
	}
	fmt.Printf("%d of %d questions answered\n", right, asked)
}

// The page's copy of the ledger's kinds, which it must not import, is the cache's.
func TestKindsAreTheLedgers(t *testing.T) {
	want := map[cache.Kind]state.Kind{
		cache.Weights: state.Weights, cache.KVF32: state.KVF32, cache.KVF16: state.KVF16, cache.Positions: state.Positions,
		cache.Free: state.Free, cache.Aux: state.Aux, cache.Scratch: state.Scratch, cache.Staging: state.Staging,
		cache.Checkpoints: state.Checkpoints, cache.Views: state.Views, cache.HostCold: state.HostCold, cache.Shadow: state.Shadow,
		cache.Scores: state.Scores, cache.Bounds: state.Bounds, cache.Sums: state.Sums,
	}
	if len(want) != int(cache.Kinds) || int(state.Kinds) != int(cache.Kinds) {
		t.Errorf("%d kinds are compared, the cache has %d and the page %d", len(want), cache.Kinds, state.Kinds)
	}
	for k, s := range want {
		if uint8(k) != uint8(s) {
			t.Errorf("kind %d of the cache is %d (%s) on the page", k, s, s)
		}
	}
}

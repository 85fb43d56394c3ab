//go:build !js

package choose

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"kvlens/cache"
	"kvlens/wasm/engine/core"
	"kvlens/wasm/gpu"
	"kvlens/wasm/gpu/gputest"
	"kvlens/wasm/proto"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
	"kvlens/wasm/weights"
)

// dying is a device that is lost when it is asked for a step after so many.
type dying struct {
	gpu.Device
	steps int // below 0: it lives
}

func (d *dying) Replay(r gpu.Recording) error {
	if d.steps == 0 {
		d.Close()
	}
	d.steps--
	return d.Device.Replay(r)
}

// files is the network: addresses are paths.
type files struct{}

func (files) Get(_ context.Context, path string, _ weights.Caching) (*weights.Response, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &weights.Response{Status: 200, Body: f}, nil
}

// TestRestore: a device that is lost in the middle of an answer, chosen at random, comes back, and what follows is what
// would have followed.
func TestRestore(t *testing.T) {
	gputest.Open(t) // or the test is skipped
	want, moved := answers(t, -1)
	if moved != 0 || len(want) < 20 {
		t.Fatalf("undisturbed, the page hears of %d moves, and %d tokens", moved, len(want))
	}
	for _, steps := range []int{9, 30} { // two are the self-test's: in the first answer, in the second
		got, moved := answers(t, steps)
		if moved != 1 || !slices.Equal(got, want) {
			t.Errorf("lost after %d steps: %d moves, tokens %d, want %d", steps, moved, got, want)
		}
	}
}

// answers gives the tokens of two turns on a device that is lost after so many steps.
func answers(t *testing.T, steps int) (tokens []uint32, moved int) {
	t.Helper()
	chooser := Chooser{
		Open: func(ctx context.Context, o gpu.Options) (gpu.Device, error) {
			dev, err := gpu.Open(ctx, o)
			d := &dying{dev, steps}
			steps = -1
			return d, err
		},
		CPU: func(led *cache.Ledger, _ bool) (step.Backend, error) { return ref.New(led), nil },
	}
	ask := talk(t, chooser)
	sampling := proto.Sampling{Temperature: 1.5, TopK: 40, Seed: 3}
	for _, m := range []proto.Message{
		proto.Open{Manifest: teach, Backend: "webgpu"},
		proto.Generate{Mode: proto.Raw, Text: "In the morning, Xiao Ming ate", Max: 20, Sampling: sampling},
		proto.Generate{Mode: proto.Raw, Text: " and then", Max: 20, Sampling: sampling, Continue: true},
	} {
		for _, m := range ask(m) {
			switch m := m.(type) {
			case proto.Step:
				tokens = append(tokens, m.Token)
			case proto.Moved:
				moved++
			case proto.Failure:
				t.Fatal(m)
			}
		}
	}
	return tokens, moved
}

const teach = "../../../web/static/models/teach.json"

// talk starts an engine and gives a way to ask it, which returns all that it answers.
func talk(t *testing.T, chooser Chooser) (ask func(proto.Message) []proto.Message) {
	t.Helper()
	page, engine := proto.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = core.Serve(ctx, engine, core.Config{ // it ends with the connection
			Build: "b", Store: weights.NewStore(weights.NewMemoryFS(), files{}), Backend: chooser.Choose,
		})
	})
	t.Cleanup(func() {
		page.Close()
		wg.Wait()
	})
	id := uint32(0)
	send := func(m proto.Message) {
		if err := page.Send(proto.Encode(id, m)); err != nil {
			t.Fatal(err)
		}
	}
	send(proto.Hello{Version: proto.Version, Build: "b"})
	return func(m proto.Message) (heard []proto.Message) {
		t.Helper()
		id++
		send(m)
		for {
			limit, cancel := context.WithTimeout(ctx, time.Minute)
			p, err := page.Recv(limit)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			from, m, err := proto.Decode(p)
			if err != nil {
				t.Fatal(err)
			}
			if from != id {
				continue
			}
			heard = append(heard, m)
			switch m.(type) {
			case proto.Done, proto.Failure:
				return heard
			}
		}
	}
}

//go:build !js

package choose

import (
	"fmt"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/gpu"
	"kvlens/wasm/gpu/gputest"
	"kvlens/wasm/proto"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
)

// TestSettingsOnADevice: recipes, pins, going back and comparing stay on the device; a record of decisions and copies of what
// leaves take the model to the CPU path, and back when nobody wants them; the conversation is the same everywhere.
func TestSettingsOnADevice(t *testing.T) {
	gputest.Open(t) // or the test is skipped
	ask := talk(t, Chooser{
		Open: gpu.Open,
		CPU:  func(led *cache.Ledger, _ bool) (step.Backend, error) { return ref.New(led), nil },
	})
	under := func(method string, change ...func(*proto.Memory)) proto.Memory {
		m := proto.Memory{Share: 0.5, Recipe: proto.Recipe{Method: proto.Setting{Name: method}}}
		for _, f := range change {
			f(&m)
		}
		return m
	}
	explain := func(m *proto.Memory) { m.Explain = true }
	shadow := func(m *proto.Memory) { m.Shadow = true }
	g := proto.Generate{Mode: proto.Raw, Text: "In the morning, Xiao Ming ate bread. At noon, Xiao Ming ate noodles. In the evening", Max: 16}
	g.Forced = slices.Repeat([]uint32{57}, 15)
	resume := g
	resume.Resume, resume.Max, resume.Forced = true, 8, g.Forced[:7]
	var position uint32
	for i, c := range []struct {
		ask   proto.Message
		moved string // where the model goes
	}{
		{proto.Open{Manifest: teach, Backend: "webgpu", Memory: under("snapkv")}, ""},
		{g, ""},
		{proto.Pin{Positions: []uint32{7, 8}}, ""},
		{proto.SetMemory{Memory: under("h2o")}, ""},
		{proto.Undo{Tokens: 30}, ""},
		{resume, ""},
		{proto.View{Layer: 1, Head: 2}, ""},
		{proto.Compare{Mode: proto.Raw, Text: g.Text, Max: 5, A: under("tova"), B: under("streamingllm")}, ""},
		{proto.SetMemory{Memory: under("h2o", explain)}, "ref"},
		{proto.Explain{Layer: 1, KVHead: 1}, ""},
		{proto.SetMemory{Memory: under("snapkv", explain, shadow)}, ""},
		{resume, ""},
		{proto.SetMemory{Memory: under("snapkv", shadow)}, ""},
		{proto.SetMemory{Memory: under("snapkv")}, "webgpu"},
		{proto.SetMemory{Memory: under("full", func(m *proto.Memory) { m.Share, m.Shadow, m.Undo = 0, true, true })}, ""},
		{resume, ""},
	} {
		what := fmt.Sprintf("%d: %T", i, c.ask)
		moved := ""
		for _, m := range ask(c.ask) {
			switch m := m.(type) {
			case proto.Moved:
				moved += m.Backend
			case proto.Failure:
				t.Fatalf("%s: %+v", what, m)
			case proto.State:
				if _, set := c.ask.(proto.SetMemory); set && m.Position != position {
					t.Errorf("%s: the conversation has %d tokens, had %d", what, m.Position, position)
				}
				position = m.Position
			case proto.Kept:
				if i > 2 && !slices.Equal(m.Pins, []uint32{7, 8}) {
					t.Errorf("%s: pinned are %d", what, m.Pins)
				}
			case proto.Contrast:
				if m.MaxKL < 0 || m.Tokens != 5 || len(m.Retained) != 30 || slices.Max(m.Retained) > 1.0001 {
					t.Errorf("%s: %+v", what, m)
				}
			}
		}
		if moved != c.moved {
			t.Errorf("%s: the model goes to %q, want %q", what, moved, c.moved)
		}
	}
}

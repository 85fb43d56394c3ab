//go:build !js

package core

import (
	"crypto/sha256"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/proto"
	"kvlens/wasm/step"
)

func itoa[T uint32 | int](n T) string { return strconv.Itoa(int(n)) }

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	none := filepath.Join(dir, "none.json")
	junk := strings.Repeat("no", 500)
	write("junk.gguf", junk)
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(junk)))
	broken := fmt.Sprintf(`{"format":1,"id":"x","name":"x","licence":"x","source":"x","size":1000,"sha256":"%[1]s",`+
		`"parts":[{"name":"junk.gguf","size":1000,"sha256":"%[1]s"}],"prompt":{"mode":"chat"}}`, hash)

	// The built-in model has no chat template.
	manifest, err := os.ReadFile(builtIn)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(filepath.Dir(builtIn), "teach-q8_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	write("teach-q8_0.gguf", string(data))
	chat := strings.Replace(string(manifest), `"story"`, `"chat"`, 1)

	p := newPage(t, hooks{})
	p.ask(ask(evening)).fails(proto.CodeBadRequest, "model")
	p.ask(proto.Reset{}).fails(proto.CodeBadRequest, "model")
	p.ask(proto.SetMemory{}).fails(proto.CodeBadRequest, "model")
	for _, c := range []struct {
		open proto.Open
		code proto.Code
		args []string
	}{
		{proto.Open{Manifest: none}, proto.CodeNetwork, []string{none, "404"}},
		{proto.Open{Manifest: write("empty.json", "{}")}, proto.CodeManifest, []string{"format"}},
		{proto.Open{Manifest: write("broken.json", broken)}, proto.CodeFormat, []string{"magic"}},
		{proto.Open{Manifest: write("hash.json", strings.ReplaceAll(broken, hash[:4], "0000"))}, proto.CodeHash, []string{"junk.gguf"}},
		{proto.Open{Manifest: write("chat.json", chat)}, proto.CodeFormat, []string{"tokenizer.chat_template"}},
		{proto.Open{Manifest: builtIn, Backend: "webgpu"}, proto.CodeBackend, nil},
		{proto.Open{Manifest: builtIn, Memory: proto.Memory{Recipe: proto.Recipe{Method: proto.Setting{Name: "magic"}}}}, proto.CodeBadRequest, []string{"recipe"}},
		{proto.Open{Manifest: builtIn, Memory: proto.Memory{Cap: math.MaxUint64}}, proto.CodeBadRequest, []string{"cap"}},
		{proto.Open{Manifest: strings.Repeat("x", maxText+1)}, proto.CodeBadRequest, []string{"manifest"}},
	} {
		p.ask(c.open).fails(c.code, c.args...)
	}
	p.ask(proto.Open{Manifest: builtIn}).ok()
	p.ask(proto.Open{Manifest: builtIn}).fails(proto.CodeBadRequest, "model")
	p.ask(proto.SetMemory{Memory: proto.Memory{Cap: 1<<30 + 1}}).fails(proto.CodeBadRequest, "cap")

	nan := float32(math.NaN())
	for _, c := range []struct {
		change func(*proto.Generate)
		code   proto.Code
		arg    string
	}{
		{func(g *proto.Generate) { g.Max = 0 }, proto.CodeBadRequest, "max"},
		{func(g *proto.Generate) { g.Max = math.MaxUint32 }, proto.CodeBadRequest, "max"},
		{func(g *proto.Generate) { g.Mode = 9 }, proto.CodeBadRequest, "mode"},
		{func(g *proto.Generate) { g.Mode = proto.Chat }, proto.CodeBadRequest, "mode"},
		{func(g *proto.Generate) { g.Forced = []uint32{2304} }, proto.CodeBadRequest, "forced"},
		{func(g *proto.Generate) { g.Sampling.Temperature = nan }, proto.CodeBadRequest, "temperature"},
		{func(g *proto.Generate) { g.Sampling.Temperature = -1 }, proto.CodeBadRequest, "temperature"},
		{func(g *proto.Generate) { g.Sampling.TopP = 1.5 }, proto.CodeBadRequest, "top_p"},
		{func(g *proto.Generate) { g.Sampling.MinP = nan }, proto.CodeBadRequest, "min_p"},
		{func(g *proto.Generate) { g.Sampling.Repeat = float32(math.Inf(1)) }, proto.CodeBadRequest, "repeat"},
		{func(g *proto.Generate) { g.Text = strings.Repeat("x", maxText+1) }, proto.CodeBadRequest, "text"},
		{func(g *proto.Generate) { g.Text = " \n" }, proto.CodeEmpty, "text"},
		{func(g *proto.Generate) { g.Question = "" }, proto.CodeEmpty, "question"},
		{func(g *proto.Generate) { g.Mode, g.Text = proto.Raw, "" }, proto.CodeEmpty, "text"},
	} {
		g := ask(evening)
		c.change(&g)
		p.ask(g).fails(c.code, c.arg)
	}
	if o := p.ask(ask(evening)).ok(); o.text() != " a sandwich." {
		t.Errorf("after all that the answer is %q", o.text())
	}
}

func TestBrokenPackets(t *testing.T) {
	p := newPage(t, hooks{})
	for _, packet := range [][]byte{nil, {1, 2, 3}, {99, 0, 0, 0, 7, 0, 0, 0}, {18, 0, 0, 0, 7, 0, 0, 0, 255, 255, 255, 255}} {
		if err := p.conn.Send(packet); err != nil {
			t.Fatal(err)
		}
		if f, _ := p.next().msg.(proto.Failure); f.Code != proto.CodeBadRequest {
			t.Errorf("% x was answered by %+v", packet, f)
		}
	}
	p.send(5, proto.Done{})
	if e := p.next(); e.id != 5 || e.msg.(proto.Failure).Args[0] != "kind" {
		t.Errorf("an event was answered by %+v", e)
	}
	p.ask(proto.Ping{}).ok()
}

func TestOtherBuild(t *testing.T) {
	p := newPage(t, hooks{})
	p.send(0, proto.Hello{Version: proto.Version, Build: "b2"})
	if f, _ := p.next().msg.(proto.Failure); f.Code != proto.CodeVersion || f.Args[0] != "b2" || f.Args[1] != build {
		t.Errorf("another build was answered by %+v", f)
	}
}

// TestPanic: a defect of ours ends the request, not the engine.
func TestPanic(t *testing.T) {
	left := 1
	p := opened(t, hooks{backend: func(b step.Backend) step.Backend {
		return &watched{Backend: b, run: func(_ *step.Args, op int) {
			if op == 9 && left > 0 {
				left--
				panic("ouch")
			}
		}}
	}})
	o := p.ask(ask(evening))
	if o.failure == nil || o.failure.Code != proto.CodeInternal || !strings.Contains(o.failure.Msg, "ouch") {
		t.Fatalf("got %+v", o.failure)
	}
	p.ask(ask(evening)).fails(proto.CodeBadRequest, "model")
	p.ask(proto.Open{Manifest: builtIn}).ok()
	if o := p.ask(ask(evening)).ok(); o.text() != " a sandwich." {
		t.Errorf("after opening again the answer is %q", o.text())
	}
}

func TestListAndDelete(t *testing.T) {
	p := newPage(t, hooks{})
	none := filepath.Join(t.TempDir(), "none.json")
	o := p.ask(proto.ListModels{Manifests: []string{builtIn, none}}).ok()
	want := proto.Models{
		Manifest: []string{builtIn, none}, Name: []string{"Story model (built in)", ""}, Licence: []string{"MIT", ""},
		Size: []uint64{2_257_792, 0}, Stored: []uint64{0, 0},
	}
	if !reflect.DeepEqual(o.models, want) {
		t.Errorf("got %+v, want %+v", o.models, want)
	}
	o = p.ask(proto.DeleteModel{Manifest: builtIn}).ok()
	if len(o.models.Manifest) != 1 || o.models.Stored[0] != 0 {
		t.Errorf("after deleting: %+v", o.models)
	}
	p.ask(proto.ListModels{Manifests: make([]string, maxManifests+1)}).fails(proto.CodeBadRequest, "manifests")
}

// TestFailedTurnTellsTheState: a first turn that does not fit has emptied the cache, and the page hears so.
func TestFailedTurnTellsTheState(t *testing.T) {
	p := opened(t, hooks{})
	fits := p.ask(proto.SetMemory{Memory: proto.Memory{Cap: 90 << 10}}).ok().state.Room
	p.ask(ask(evening)).ok()
	o := p.ask(proto.Generate{Text: strings.Repeat("7", int(fits)), Max: 1})
	o.fails(proto.CodeTooLong, itoa(fits+1), itoa(fits), itoa(90<<10))
	asked := p.ask(proto.GetState{}).ok()
	for _, s := range []proto.State{o.state, asked.state} {
		if s.Stored != 0 || s.Position != 0 || s.Room != fits {
			t.Errorf("after the turn the page hears %+v", s)
		}
	}
}

// TestNoSession: where not even the former cache can be had again, the model goes, and opening one works.
func TestNoSession(t *testing.T) {
	var full atomic.Bool
	p := opened(t, hooks{backend: func(b step.Backend) step.Backend {
		return &watched{Backend: b, refuse: func(cache.Kind, int64) bool { return full.Load() }}
	}})
	for _, m := range []proto.Memory{{F32: true}, {Cap: 1 << 20}} {
		full.Store(true)
		p.ask(proto.SetMemory{Memory: m}).fails(proto.CodeMemory)
		p.ask(ask(evening)).fails(proto.CodeBadRequest, "model")
		if s := p.ask(proto.GetState{}).ok().state; s.Cap != 0 {
			t.Errorf("without a model the state is %+v", s)
		}
		full.Store(false)
		p.ask(proto.Open{Manifest: builtIn}).ok()
		if o := p.ask(ask(evening)).ok(); o.text() != " a sandwich." {
			t.Errorf("after opening again the answer is %q", o.text())
		}
		p.ask(proto.Reset{}).ok() // with a conversation the former cache would stay
	}
}

// TestPanicWhileStopping: Stop does not hide a defect of ours, after which the model is gone.
func TestPanicWhileStopping(t *testing.T) {
	g := newGate()
	p := opened(t, hooks{backend: func(b step.Backend) step.Backend {
		return &watched{Backend: b, run: func(_ *step.Args, op int) {
			if op == 9 {
				g.pass()
				panic("ouch")
			}
		}}
	}})
	p.last++
	p.send(p.last, ask(evening))
	<-g.reached
	p.send(1000, proto.Stop{Target: p.last})
	p.wait(p.last, func(e event) {
		if e.id == 1000 {
			close(g.open)
		}
	}).fails(proto.CodeInternal)
}

package llama_test

import (
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/gpu"
	"kvlens/wasm/kernel"
	"kvlens/wasm/llama"
	"kvlens/web/lab/golden"
)

// meteredDevice is a device whose dispatches and read-backs are counted. Reads of one word wait for the queue and are none.
type meteredDevice struct {
	gpu.Device
	dispatches, reads int
	bytes             int
}

func (c *meteredDevice) Run(d []gpu.Dispatch) error {
	c.dispatches += len(d)
	return c.Device.Run(d)
}

func (c *meteredDevice) Read(b gpu.Buffer, off int64, dst []byte) error {
	if len(dst) > 4 {
		c.reads++
		c.bytes += len(dst)
	}
	return c.Device.Read(b, off, dst)
}

// What a prompt costs under each recipe: at most six dispatches a layer beside those of the model, and one read-back of a
// few numbers a layer where budgets follow from scores; at the end the logits are read, and the positions of what stayed.
func TestPromptCounts(t *testing.T) {
	if !onGPU {
		t.Skip("needs WebGPU: set KVLENS_GPU=1")
	}
	dev, err := gpu.Open(ctx, gpu.Options{Fallback: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dev.Close)
	count := &meteredDevice{Device: dev}
	led := new(cache.Ledger)
	m := open(t, golden.TeachModel(t), kernel.NewLibrary(count).Backend(led), led)
	t.Cleanup(m.Close)
	layers, ids, tables := m.Config().Layers, prose(t, 48), anyTables(m)
	prompt := func(o llama.SessionOptions) meteredDevice {
		o.Tokens, o.Tables = 60, tables
		_, live := dev.Live()
		held := led.Total().Allocated
		s, err := m.NewSession(o)
		if err != nil {
			t.Fatal(err)
		}
		*count = meteredDevice{Device: dev}
		prefill(t, s, ids)
		used := *count
		s.Close()
		// Full, which comes first, leaves the program's scratch.
		if n := led.Total().Allocated; o.Recipe.Method != "" && n != held {
			t.Errorf("%s: the ledger has %d bytes more after the session", o.Recipe.Method, n-held)
		}
		if _, n := dev.Live(); o.Recipe.Method != "" && n != live {
			t.Errorf("%s: the device has %d bytes more after the session", o.Recipe.Method, n-live)
		}
		return used
	}
	full := prompt(llama.SessionOptions{})
	if full.reads != 1 || full.bytes != 4*m.Config().Vocab {
		t.Errorf("full: %d read-backs of %d bytes, want the logits alone", full.reads, full.bytes)
	}
	for _, r := range append(recipes(), named{"adakv(expected)", policy.Recipe{Method: "expected", Wraps: []policy.Wrap{{Name: "adakv"}}}}) {
		p := plan(t, r)
		if p.Decode.Kind == policy.DecodeStop || p.Store.Rank { // positions by rank: mostly token by token
			continue
		}
		got := prompt(llama.SessionOptions{Recipe: r.Recipe, Share: 0.25})
		extra := got.dispatches - full.dispatches - 1 + layers // Full has one to store
		most, small := 6*layers, 0
		if p.Heads.Kind == policy.HeadsAdaptive {
			small = 4 * m.Config().KVHeads
			if p.Score.Kind == policy.ScoreExpected {
				most += layers
			}
		}
		if p.Layers.Kind == policy.LayersCake {
			small = 512
			most += 3 * layers * (layers - 1) / 2 // layers before shrink
		}
		if extra > most {
			t.Errorf("%s: %d dispatches in %d layers, want at most %d", r.name, extra, layers, most)
		}
		reads, bytes := got.reads-2, got.bytes-full.bytes
		if want := min(1, small) * layers; reads != want {
			t.Errorf("%s: %d read-backs beside logits and positions, want %d", r.name, reads, want)
		}
		if lists := layers * m.Config().KVHeads; bytes-small*layers > 4*lists*len(ids) {
			t.Errorf("%s: %d bytes read back beside the logits", r.name, bytes)
		}
		t.Logf("%-20s %.1f dispatches a layer, %d bytes read back beside logits", r.name, float64(extra)/float64(layers), bytes)
	}
}

package choose

import (
	"context"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/engine/core"
	"kvlens/wasm/gpu"
	"kvlens/wasm/gpu/gputest"
	"kvlens/wasm/llama"
	"kvlens/wasm/quant"
	"kvlens/wasm/sample"
	"kvlens/wasm/weights"
	"kvlens/web/lab/golden"
)

// The ledger knows every byte of the device, at each stage, and after 200 answers both are where they were.
func TestLedgerEqualsDevice(t *testing.T) {
	dev := gputest.Open(t)
	live := account(t, dev)
	chooser := Chooser{Open: func(context.Context, gpu.Options) (gpu.Device, error) { return dev, nil }}
	led := new(cache.Ledger)
	b, _, err := chooser.Choose(ctx, core.Wish{Backend: "webgpu", Layouts: []quant.Layout{quant.LayoutF32}}, led)
	if err != nil {
		t.Fatal(err)
	}
	var host int64 // what the ledger has besides
	check := func(when string) {
		t.Helper()
		if bytes := live(); led.Total().Allocated != bytes+host {
			t.Errorf("%s: the ledger has %d bytes, the device %d and the host %d", when, led.Total().Allocated, bytes, host)
		}
	}
	check("before")
	f, err := weights.OpenPath(golden.TinyModel(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := llama.Load(ctx, f, b, llama.Options{Ledger: led})
	if err != nil {
		t.Fatal(err)
	}
	check("loaded")
	ids := golden.Tiny(t)[0].IDs[:16]
	s, err := m.NewSession(llama.SessionOptions{Tokens: len(ids) + 8})
	if err != nil {
		t.Fatal(err)
	}
	host = int64(4 * m.Config().Vocab) // the logits, page tables, and the position and the order of each slot:
	for i := range m.Config().Layers * m.Config().KVHeads {
		l := s.Cache().List(i/m.Config().KVHeads, i%m.Config().KVHeads)
		host += int64(4 * (cap(l.Keys) + cap(l.Values) + cap(l.Positions) + cap(l.At) + cap(l.Order())))
	}
	check("with a session")
	var settled [cache.Kinds]cache.Row
	for i := range 200 {
		if err := s.Prefill(ctx, ids, nil); err != nil {
			t.Fatal(err)
		}
		o := llama.GenerateOptions{Max: 3, Sampler: sample.New(sample.Params{Temperature: 1, Seed: uint64(i)})}
		if _, err := s.Generate(ctx, o, func(llama.Token) error { return nil }); err != nil {
			t.Fatal(err)
		}
		s.Reset()
		if i == 0 {
			check("after an answer")
			settled = led.Rows()
		}
	}
	check("after 200 answers")
	if led.Rows() != settled {
		t.Errorf("after 200 answers the ledger is\n%v, after one\n%v", led.Rows(), settled)
	}
	s.Close()
	m.Close()
	host = 0
	check("without the model")
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if n := led.Total().Allocated; n != 0 {
		t.Errorf("%d bytes are left in the ledger", n)
	}
}

package llama_test

import (
	"runtime"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/web/lab/golden"
)

// heap is what Go's own accounts hold after a collection, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC() // the first only finds what finalisers still keep
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The ledger's sum is what was allocated: it is held against the heap of the Go runtime, not against another counter of
// ours. What the ledger leaves out (a session's ids, page lists, programs) must be small beside it, and five models one
// after the other leave nothing behind.
func TestLedgerIsTheHeap(t *testing.T) {
	if onGPU {
		t.Log("a GPU's memory is not in Go's heap; wasm/kernel holds the ledger against the device")
		return
	}
	const slack = 256 << 10
	led := new(cache.Ledger)
	start := heap()
	for round := range 5 {
		b := newBackend(t, led)
		m := open(t, golden.TeachModel(t), b, led)
		s, err := m.NewSession(llama.SessionOptions{Tokens: 6000, F32: true})
		if err != nil {
			t.Fatal(err)
		}
		prefill(t, s, words(300, round))
		generate(t, s, 20)
		grown, want := heap()-start, led.Total().Allocated
		if grown < want || grown > want+slack {
			t.Errorf("model %d: the heap grew by %d bytes, the ledger says %d", round, grown, want)
		}
		runtime.KeepAlive(s)
		s.Close()
		m.Close()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if left := led.Total().Allocated; left != 0 {
			t.Errorf("model %d: the ledger still has %d bytes", round, left)
		}
	}
	if left := heap() - start; left > slack {
		t.Errorf("%d bytes are left on the heap", left)
	}
}

// What a session holds outside the ledger does not grow with an answer either, but for the ids of its tokens. In the ledger,
// when tokens left does: four bytes a list and token.
func TestHeapOfAnswers(t *testing.T) {
	needsScorer(t)
	const slack = 64 << 10
	led := new(cache.Ledger)
	b := newBackend(t, led)
	m := open(t, golden.TeachModel(t), b, led)
	t.Cleanup(m.Close)
	for _, method := range []string{"h2o", "snapkv", "cake", "streamingllm"} {
		s := session(t, m, llama.SessionOptions{Tokens: 400, Share: 0.25, Recipe: policy.Recipe{Method: method}})
		prefill(t, s, prose(t, 300))
		generate(t, s, 300)
		before, noted := heap(), led.Total().Allocated
		generate(t, s, 1400)
		noted = led.Total().Allocated - noted
		if grown := heap() - before; grown-noted > slack {
			t.Errorf("%s: 1,400 tokens leave %d bytes on the heap, %d of them in the ledger", method, grown, noted)
		}
		c := m.Config()
		if most := int64(2 * 4 * c.Layers * c.KVHeads * (1400 + 600)); noted > most { // what grows doubles, at most
			t.Errorf("%s: 1,400 tokens add %d bytes to the ledger, want at most %d", method, noted, most)
		}
	}
}

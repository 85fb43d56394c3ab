//go:build !js

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// cycles runs a turn and starts over, so many times, with the page's own buttons.
const cycles = `(async (n) => {
	const state = () => window.kvlens.state();
	const until = async (f) => { while (!f(state())) await new Promise((r) => setTimeout(r, 5)); };
	const press = async (id) => {
		const button = () => document.querySelector('[data-testid="' + id + '"]:enabled');
		await until(button);
		button().click();
	};
	for (let i = 0; i < n; i++) {
		await press("run");
		await until((s) => s.phase === "idle" && s.turns.length === 1 && s.turns[0].ended);
		await press("again");
		await until((s) => s.phase === "idle" && s.turns.length === 0 && s.memory.stored === 0);
	}
	return true;
})(%d)`

// TestMemoryDoesNotGrow asks and starts over until memory has settled, and changes the model five times. The size comes
// from the workers themselves, not from a counter of ours.
func TestMemoryDoesNotGrow(t *testing.T) {
	needBrowser(t)
	v := open(t, startHost(t), "en", 1440, 900)
	v.load("")
	v.wait("the built-in model", `s.phase === "idle" && s.opened`)
	run := func() {
		for range 10 { // in pieces, so that no single evaluation takes minutes
			eval[bool](v, fmt.Sprintf(cycles, 20))
		}
	}
	// A small heap takes some hundred turns to find its size; when, is the collector's affair. A leak of 5 KiB a turn would
	// make each round of 200 larger than the one before.
	run()
	memory, ledger := []int64{v.wasmBytes()}, v.ledger()
	for grown := true; grown && len(memory) < 5; {
		run()
		now := v.wasmBytes()
		grown = now > memory[len(memory)-1]+1<<20
		memory = append(memory, now)
		if grown && len(memory) == 5 {
			v.Errorf("after each 200 turns more the worker has %d bytes", memory)
		}
	}
	if now := v.ledger(); now != ledger {
		v.Errorf("after %d turns the ledger says %s, after 200 it said %s", 200*len(memory), now, ledger)
	}

	first := map[string]int64{"teach": memory[len(memory)-1]}
	for _, id := range []string{"smollm2-135m-instruct", "teach", "smollm2-135m-instruct", "teach", "smollm2-135m-instruct"} {
		v.choose(id)
		v.wait(id, `s.phase === "idle" && s.opened && s.model.includes(`+quote(id)+`)`)
		v.poll("the end of all workers but one", func() bool { return len(v.workers()) == 1 })
		// Loading is not the same to the byte each time: the collector runs when it likes.
		now := v.wasmBytes()
		if before, ok := first[id]; ok && now > before+8<<20 {
			v.Errorf("%s opened again takes %d bytes, the first time %d", id, now, before)
		} else if !ok {
			first[id] = now
		}
	}
	v.clean()
}

// ledger is what the page says of every kind of memory, peaks aside.
func (v *visitor) ledger() string {
	v.Helper()
	return eval[string](v, `window.kvlens.state().memory.rows.map((r) => r.kind + " " + r.logical + "/" + r.allocated).join(", ")`)
}

// memory holds the page's numbers against the memory that the worker really has. Starting over makes the engine say how
// large it is; before and after, the worker itself is asked.
func (v *visitor) memory() {
	v.Helper()
	least := v.wasmBytes()
	v.click("again")
	s := v.wait("an empty conversation", `s.turns.length === 0 && s.memory.stored === 0`)
	var sum, weights int64
	for _, row := range s.Memory.Rows {
		sum += row.Allocated
		if row.Kind == "weights" {
			weights = row.Allocated
		}
	}
	real := v.wasmBytes()
	switch {
	case s.Memory.Reserved < least || s.Memory.Reserved > real:
		v.Errorf("the page says %d bytes of WASM memory, the worker had %d and then %d", s.Memory.Reserved, least, real)
	case weights < 90<<20 || weights > 110<<20:
		v.Errorf("weights take %d bytes, want about the size of the file", weights)
	case sum > real:
		v.Errorf("the ledger adds up to %d bytes, more than the worker's %d", sum, real)
	case real > weights+s.Memory.Cap+48<<20:
		v.Errorf("the worker has %d bytes, over weights %d + arena %d + 48 MiB", real, weights, s.Memory.Cap)
	}
	v.Logf("WASM memory %.1f MiB, ledger %.1f MiB, weights %.1f MiB, cap %.1f MiB",
		mib(real), mib(sum), mib(weights), mib(s.Memory.Cap))
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// workers lists the engines that are alive.
func (v *visitor) workers() []*target.Info {
	v.Helper()
	infos, err := chromedp.Targets(v.b.Ctx)
	if err != nil {
		v.Fatalf("%v", err)
	}
	var out []*target.Info
	for _, info := range infos {
		if info.Type == "worker" && strings.HasSuffix(info.URL, "/web/engine.js") {
			out = append(out, info)
		}
	}
	return out
}

// wasmBytes asks the engine's worker itself for the size of its memory, past the page and our own counters.
func (v *visitor) wasmBytes() int64 {
	v.Helper()
	workers := v.workers()
	if len(workers) == 0 {
		v.Fatalf("there is no worker")
	}
	tab, cancel := chromedp.NewContext(v.b.Ctx, chromedp.WithTargetID(workers[len(workers)-1].TargetID))
	defer cancel()
	ctx, stop := context.WithTimeout(tab, hang)
	defer stop()
	n, err := chromedp.Run(ctx, chromedp.Evaluate[int64](`self.wasm.instance.exports.mem.buffer.byteLength`))
	if err != nil {
		v.Fatalf("asking the worker: %v", err)
	}
	return n
}

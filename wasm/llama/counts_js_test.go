package llama_test

import (
	"syscall/js"
	"testing"
	"time"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/gpu"
	"kvlens/wasm/kernel"
	"kvlens/wasm/llama"
	"kvlens/wasm/sample"
	"kvlens/web/lab/golden"
)

// watchGPU wraps WebGPU's prototypes: how often each function is called, how many bytes are read back, how many
// read-backs wait at once, and what a delay of each does.
const watchGPU = `(() => {
	const uses = {bytes: 0, waiting: 0, most: 0, delay: 0};
	const undo = [];
	const wrap = (type, names, also) => {
		const proto = type.prototype;
		for (const name of names) {
			const f = proto[name];
			uses[name] = 0;
			proto[name] = function (...args) {
				uses[name]++;
				const v = f.apply(this, args);
				return also ? also(v) : v;
			};
			undo.push(() => { proto[name] = f; });
		}
	};
	wrap(GPUDevice, Object.getOwnPropertyNames(GPUDevice.prototype).filter((name) => name.startsWith("create")));
	wrap(GPUCommandEncoder, ["beginComputePass"]);
	wrap(GPUComputePassEncoder, ["dispatchWorkgroups"]);
	wrap(GPUQueue, ["submit", "writeBuffer"]);
	wrap(GPUBuffer, ["getMappedRange"], (v) => { uses.bytes += v.byteLength; return v; });
	wrap(GPUBuffer, ["mapAsync"], async (mapped) => {
		uses.most = Math.max(uses.most, ++uses.waiting);
		try {
			await mapped;
			if (uses.delay) await new Promise((done) => setTimeout(done, uses.delay));
		} finally {
			uses.waiting--;
		}
	});
	return {uses, undo: () => undo.forEach((f) => f())};
})()`

func watchUses(t testing.TB) js.Value {
	t.Helper()
	w := js.Global().Call("eval", watchGPU)
	t.Cleanup(func() { w.Call("undo") })
	return w.Get("uses")
}

// numbers is a copy of an object of numbers.
func numbers(v js.Value) map[string]int {
	out := map[string]int{}
	keys := js.Global().Get("Object").Call("keys", v)
	for i := range keys.Length() {
		out[keys.Index(i).String()] = v.Get(keys.Index(i).String()).Int()
	}
	return out
}

// teachGPU is the built-in model on a device of its own.
func teachGPU(t testing.TB) *llama.Model {
	t.Helper()
	dev, err := gpu.Open(ctx, gpu.Options{Fallback: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dev.Close)
	led := new(cache.Ledger)
	m := open(t, golden.TeachModel(t), kernel.NewLibrary(dev).Backend(led), led)
	t.Cleanup(m.Close)
	return m
}

// answers generates n tokens and calls at with the number of each.
func answers(t testing.TB, s *llama.Session, n int, at func(i int)) {
	t.Helper()
	i := 0
	_, err := s.Generate(ctx, llama.GenerateOptions{Max: n, Sampler: sample.New(sample.Params{})}, func(llama.Token) error {
		at(i)
		i++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What a token of the built-in model costs, counted in the browser, under Full and under recipes with different kernels:
// dispatches, objects, bytes read back and calls of JavaScript. WebGPU wants a new encoder with a new pass for every
// submission; nothing else is made.
func TestCountsOfTeach(t *testing.T) {
	if !onGPU {
		t.Skip("needs WebGPU: set KVLENS_GPU=1")
	}
	m := teachGPU(t)
	uses := watchUses(t)
	for _, r := range []policy.Recipe{{}, {Method: "h2o"}, {Method: "streamingllm"}, {Method: "razor"}, {Method: "quest"}} {
		t.Run(r.Method, func(t *testing.T) {
			o := llama.SessionOptions{Recipe: r, Tables: anyTables(m), Tokens: 128}
			most := 6*m.Config().Layers + 6
			if r.Method != "" {
				most += 2 * m.Config().Layers
			}
			if r.Method != "" && r.Method != "quest" {
				o.Share = 0.25
			}
			s := session(t, m, o)
			defer s.Close()
			prefill(t, s, prose(t, 40))
			countAnswer(t, s, uses, most)
		})
	}
}

// countAnswer counts what a token costs while more steps are submitted than waited for.
func countAnswer(t *testing.T, s *llama.Session, uses js.Value, dispatches int) {
	t.Helper()
	const first, tokens = 8, 16
	crossings := js.Global().Get("crossings")
	var before, after, callsBefore, callsAfter map[string]int
	uses.Set("most", 0)
	answers(t, s, first+tokens+8, func(i int) {
		switch i {
		case first:
			before, callsBefore = numbers(uses), numbers(crossings)
			callsBefore = numbers(crossings) // without those of the line before
		case first + tokens:
			callsAfter = numbers(crossings)
			after = numbers(uses)
		}
	})
	for name, n := range after {
		n -= before[name]
		if n != 0 {
			t.Logf("%s: %.2f a token", name, float64(n)/tokens)
		}
		switch name {
		case "dispatchWorkgroups":
			if n > dispatches*tokens {
				t.Errorf("%d dispatches for %d tokens, want at most %d for each", n, tokens, dispatches)
			}
		case "bytes":
			if n > 64*tokens {
				t.Errorf("%d bytes read back for %d tokens", n, tokens)
			}
		case "createCommandEncoder", "beginComputePass", "submit", "mapAsync", "getMappedRange":
			if n != tokens {
				t.Errorf("%s: %d for %d tokens", name, n, tokens)
			}
		case "writeBuffer", "waiting", "most", "delay":
		default:
			if n != 0 {
				t.Errorf("%s: %d for %d tokens, want none", name, n, tokens)
			}
		}
	}
	if most := after["most"]; most != 4 {
		t.Errorf("%d read-backs wait at once, want 4", most)
	}
	calls := 0
	for _, kind := range []string{"valueInvoke", "valueCall", "valueNew", "copyBytesToGo", "copyBytesToJS"} {
		calls += callsAfter[kind] - callsBefore[kind]
		t.Logf("%s: %.2f a token", kind, float64(callsAfter[kind]-callsBefore[kind])/tokens)
	}
	t.Logf("%.2f calls of JavaScript a token", float64(calls)/tokens)
	if calls > 4*tokens {
		t.Errorf("%d calls of JavaScript for %d tokens", calls, tokens)
	}
}

// BenchmarkSlowMap prints what a token costs when each read-back takes 100 ms longer, with four in flight.
func BenchmarkSlowMap(b *testing.B) {
	if !onGPU {
		b.Skip("needs WebGPU: set KVLENS_GPU=1")
	}
	m := teachGPU(b)
	prompts, _ := golden.Teach(b)
	uses := watchUses(b)
	for _, delay := range []int{0, 100} {
		s := session(b, m, llama.SessionOptions{Tokens: 128})
		b.Run(map[int]string{0: "direct", 100: "delayed"}[delay], func(b *testing.B) {
			uses.Set("delay", delay)
			defer uses.Set("delay", 0)
			const first, tokens = 8, 48 // the steps in flight at the beginning cost nothing, those at the end are waited for
			var took time.Duration
			for b.Loop() {
				s.Reset()
				prefill(b, s, prompts[0].IDs[:8])
				var begin time.Time
				answers(b, s, first+tokens+4, func(i int) {
					switch i {
					case first:
						begin = time.Now()
					case first + tokens:
						took += time.Since(begin)
					}
				})
			}
			b.ReportMetric(took.Seconds()*1000/float64(tokens*b.N), "ms/token")
		})
	}
}

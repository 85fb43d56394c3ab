//go:build !js

package e2e

import (
	"strings"
	"testing"
	"time"

	"kvlens/web/e2e/browser"
)

// software is a Chromium whose graphics adapter is a program.
var software = browser.Options{Width: 1440, Height: 900, Flags: map[string]any{
	"enable-unsafe-webgpu": true, "use-webgpu-adapter": "swiftshader",
}}

// TestSoftwareAdapter: where the adapter is a program, the page takes the CPU path and says so; with ?backend=webgpu it
// takes the adapter, which gives the same answer.
func TestSoftwareAdapter(t *testing.T) {
	needBrowser(t)
	v := openWith(t, startHost(t), "en", software)
	v.load("")
	answer := v.builtIn()
	v.why("cpu", "software")
	v.load("&backend=webgpu")
	s := v.wait("the built-in model on WebGPU", 2*time.Minute, `s.phase === "idle" && s.opened`)
	t.Logf("WebGPU: %d bytes of WASM memory", s.Memory.Reserved)
	v.why("webgpu", "asked")
	if again := v.ask("run"); again != answer {
		t.Errorf("WebGPU answers %q, the CPU path %q", again, answer)
	}
	v.shot("webgpu")
	v.clean()
}

// why checks the backend and the reason for it.
func (v *visitor) why(backend, reason string) {
	v.Helper()
	got := eval[string](v, `window.kvlens.state().backend + " " + window.kvlens.state().backendWhy`)
	if got != backend+" "+reason {
		v.Errorf("backend and reason are %q, want %q", got, backend+" "+reason)
	}
}

// destroyable lets a test destroy the worker's device, the way a driver's reset would: when the device is asked for its
// nth result from now on. One is the logits of the prompt, then each token is one, and four are under way at a time, so
// that the sixth is asked for once the first token is there.
const destroyable = `{
	let device, left = 0;
	const request = GPUAdapter.prototype.requestDevice, map = GPUBuffer.prototype.mapAsync;
	GPUAdapter.prototype.requestDevice = async function (...a) { return device = await request.apply(this, a); };
	GPUBuffer.prototype.mapAsync = function (...a) {
		const result = map.apply(this, a);
		if (--left === 0) device.destroy();
		return result;
	};
	self.addEventListener("message", ({data}) => {
		if (data === "destroy") left = 6;
		if (data === "destroy now") device.destroy();
	});
}
`

// TestDeviceDestroyed: a device that goes in the middle of an answer comes back by itself; the answer is the same, the
// reader is told, and the next answer is WebGPU's again.
func TestDeviceDestroyed(t *testing.T) {
	needBrowser(t)
	h := startHost(t)
	h.change = func(name string, body []byte) []byte {
		if name == "web/engine.js" {
			return append([]byte(destroyable), body...)
		}
		return body
	}
	v := openWith(t, h, "en", software)
	v.load("&backend=webgpu")
	v.wait("the built-in model on WebGPU", 2*time.Minute, `s.phase === "idle" && s.opened`)
	question := v.state().Draft.Question
	want := v.ask("run")
	again := func() string {
		v.click("again")
		v.wait("an empty conversation", 10*time.Second, `s.turns.length === 0 && s.memory.stored === 0`)
		v.fill("question", question)
		return v.ask("run")
	}
	eval[bool](v, `(window.testWorkers.at(-1).postMessage("destroy"), true)`)
	if got := again(); got != want {
		t.Errorf("with the device destroyed in its midst the answer is %q, without %q", got, want)
	}
	v.why("webgpu", "asked")
	if n := eval[int](v, `window.kvlens.state().notices`); n != 1 {
		t.Errorf("the reader gets %d notices, want 1", n)
	}
	v.shot("destroyed")
	if got := again(); got != want {
		t.Errorf("afterwards the answer is %q, want %q", got, want)
	}
	v.why("webgpu", "asked")

	// Between two turns, as in a tab that slept: the next turn finds the conversation where it was.
	next := v.state().Draft.Question
	later := v.ask("run")
	again()
	eval[bool](v, `(window.testWorkers.at(-1).postMessage("destroy now"), true)`)
	v.fill("question", next)
	if got := v.ask("run"); got != later || len(v.state().Turns) != 2 {
		t.Errorf("after a sleep the answer is %q in turn %d, want %q in turn 2", got, len(v.state().Turns), later)
	}
	v.clean()
}

// TestWeightsPastGo: on WebGPU the weights of SmolLM2 go to the device and never lie in Go's memory.
func TestWeightsPastGo(t *testing.T) {
	needBrowser(t)
	v := openWith(t, startHost(t), "en", software)
	v.load("&backend=webgpu")
	v.wait("the built-in model on WebGPU", 2*time.Minute, `s.phase === "idle" && s.opened`)
	v.choose("smollm2-135m-instruct")
	s := v.wait("SmolLM2 on WebGPU", 10*time.Minute, `s.phase === "idle" && s.mode === "chat"`)
	v.why("webgpu", "asked")
	weights := int64(0)
	for _, r := range s.Memory.Rows {
		if r.Kind == "weights" {
			weights = r.Allocated
		}
	}
	t.Logf("%d bytes of weights, %d bytes of WASM memory", weights, s.Memory.Reserved)
	if weights < 90<<20 || s.Memory.Reserved > weights/2 {
		t.Errorf("%d bytes of weights, %d bytes of WASM memory, want less than half", weights, s.Memory.Reserved)
	}
	v.clean()
}

// hidden hides what an adapter says of itself, so that a program counts as a real one.
const hidden = `Object.defineProperty(GPUAdapter.prototype, "info", {value: undefined});`

// TestAdapters: whatever an adapter does, the model answers, and the page names the reason for where it runs.
func TestAdapters(t *testing.T) {
	needBrowser(t)
	v := openWith(t, startHost(t), "en", software)
	for _, c := range []struct{ name, script, query, backend, why string }{
		{"none", `GPU.prototype.requestAdapter = async () => null;`, "", "cpu", "no-adapter"},
		{"silent", `GPU.prototype.requestAdapter = () => new Promise(() => {});`, "", "cpu", "silent"},
		{"no device", hidden + `GPUAdapter.prototype.requestDevice = async () => { throw new Error("no"); };`, "", "cpu", "no-device"},
		{"says nothing of itself", hidden, "", "cpu", "race"},
		{
			"no memory", hidden + `{
				const make = GPUDevice.prototype.createBuffer;
				GPUDevice.prototype.createBuffer = function (d) {
					if (d.size > 1 << 20) throw new RangeError("out of memory");
					return make.call(this, d);
				};
			}`, "", "cpu", "memory",
		},
		{
			"wrong numbers", hidden + `{
				const make = GPUDevice.prototype.createShaderModule;
				GPUDevice.prototype.createShaderModule = function (d) {
					return make.call(this, {...d, code: d.code.replaceAll("inverseSqrt(", "1.1 * inverseSqrt(")});
				};
			}`, "", "cpu", "self-test",
		},
		{
			"least limits", `{
				const make = GPUAdapter.prototype.requestDevice;
				GPUAdapter.prototype.requestDevice = function () { return make.call(this); };
			}`, "&backend=webgpu", "webgpu", "asked",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := startHost(t)
			h.change = func(name string, body []byte) []byte {
				if name == "web/engine.js" {
					return append([]byte(c.script+"\n"), body...)
				}
				return body
			}
			v.T, v.host = t, h
			v.load(c.query)
			v.wait("the built-in model", 2*time.Minute, `s.phase === "idle" && s.opened`)
			v.why(c.backend, c.why)
			if answer := v.ask("run"); answer == "" {
				t.Error("there is no answer")
			}
		})
	}
	v.T = t
}

// TestInsistedInVain: WebGPU that is asked for and cannot be had is a problem with its reason, and one way out.
func TestInsistedInVain(t *testing.T) {
	needBrowser(t)
	v := open(t, startHost(t), "zh", 390, 844)
	v.load("&backend=webgpu")
	v.problem = "backend"
	v.wait("the problem", time.Minute, `s.problem?.code === "backend"`)
	if said := eval[string](v, `document.querySelector('[data-testid="problem"]').innerText`); !strings.Contains(said, "没有图形适配器") {
		t.Errorf("the page says %q, without the reason", said)
	}
	v.shot("insisted")
	v.click("problem-action")
	v.problem = ""
	v.wait("the built-in model", time.Minute, `s.phase === "idle" && s.opened`)
	v.why("cpu", "no-adapter")
	v.clean()
}

// TestPageWhileReading: while WebGPU reads a long text, the page goes on drawing. It prints the longest gap between two
// frames; on a software adapter page and kernels share the processor.
func TestPageWhileReading(t *testing.T) {
	needBrowser(t)
	v := openWith(t, startHost(t), "en", software)
	v.load("&backend=webgpu")
	v.wait("the built-in model on WebGPU", 2*time.Minute, `s.phase === "idle" && s.opened`)
	v.fill("story", strings.Repeat("Xiao Ming was happy that day. In the morning, Xiao Ming ate bread. ", 60))
	eval[bool](v, `{
		const gaps = window.testGaps = [];
		let last = 0;
		const frame = (now) => { if (last) gaps.push(now - last); last = now; requestAnimationFrame(frame); };
		requestAnimationFrame(frame);
		true;
	}`)
	v.click("run")
	v.wait("reading", time.Minute, `s.phase === "prefill"`)
	eval[bool](v, `(window.testGaps.length = 0, true)`)
	s := v.wait("the answer", 8*time.Minute, `s.phase === "idle" && s.turns.at(-1)?.ended`)
	frames := eval[int](v, `window.testGaps.length`)
	t.Logf("%d tokens read at %.0f a second, %d frames, the longest gap %.0f ms", last(s).Pieces, last(s).PrefillRate, frames,
		eval[float64](v, `Math.max(...window.testGaps)`))
	if last(s).Pieces < 900 || frames < 10 {
		t.Errorf("%d pieces were read, and %d frames drawn", last(s).Pieces, frames)
	}
	v.clean()
}

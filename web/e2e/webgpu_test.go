//go:build !js

package e2e

import (
	"strings"
	"testing"

	"kvlens/web/e2e/browser"
)

// software is a Chromium whose graphics adapter is a program.
var software = browser.Options{Width: 1440, Height: 900, Flags: map[string]any{
	"enable-unsafe-webgpu": true, "use-webgpu-adapter": "swiftshader",
}}

// slowClock makes the engine's clock ten times slower: a program is a slow adapter on a busy machine, and what the engine
// allows an adapter is measured for real ones.
const slowClock = `{
	const now = performance.now.bind(performance);
	performance.now = () => now() / 10;
}
`

// TestSoftwareAdapter: where the adapter is a program, the page takes the CPU path and says so; with ?backend=webgpu it
// takes the adapter, which gives the same answer.
func TestSoftwareAdapter(t *testing.T) {
	needBrowser(t)
	v := openWith(t, startHost(t).beforeEngine(slowClock), "en", software)
	v.load("")
	answer := v.builtIn()
	v.why("cpu", "software")
	v.load("&backend=webgpu")
	s := v.wait("the built-in model on WebGPU", `s.phase === "idle" && s.opened`)
	t.Logf("WebGPU: %d bytes of WASM memory", s.Memory.Reserved)
	v.why("webgpu", "asked")
	if again := v.ask("run"); again != answer {
		v.Errorf("WebGPU answers %q, the CPU path %q", again, answer)
	}
	v.shot("webgpu")
	v.clean()
}

// TestPolicyOnAdapter: policies run on WebGPU as they do on the reference path, also after another cap and another policy in
// the same conversation: the model stays where it is, and what left is marked.
func TestPolicyOnAdapter(t *testing.T) {
	needBrowser(t)
	v := openWith(t, startHost(t).beforeEngine(slowClock), "en", software)
	answers := map[string][]string{}
	for _, backend := range []string{"webgpu", "ref"} {
		v.load("&backend=" + backend + "#pol=snapkv&cap=25")
		v.wait("the built-in model", `s.phase === "idle" && s.opened`)
		first := v.ask("run")
		v.marked("x", true)
		v.share("cap-more", 50)
		v.pick("policy", "cake")
		v.wait("the policy", `s.phase === "idle" && s.policy.recipe.method === "cake"`)
		answers[backend] = []string{first, v.ask("run")}
		v.why(backend, "asked")
		v.shot(backend + "-policy")
	}
	for i, want := range answers["ref"] {
		if got := answers["webgpu"][i]; got != want || want == "" {
			v.Errorf("answer %d is %q, want %q", i, got, want)
		}
	}
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
	h := startHost(t).beforeEngine(slowClock + destroyable)
	v := openWith(t, h, "en", software)
	v.load("&backend=webgpu")
	v.wait("the built-in model on WebGPU", `s.phase === "idle" && s.opened`)
	question := v.state().Draft.Question
	want := v.ask("run")
	again := func() string {
		v.click("again")
		v.wait("an empty conversation", `s.turns.length === 0 && s.memory.stored === 0`)
		v.fill("question", question)
		return v.ask("run")
	}
	eval[bool](v, `(window.testWorkers.at(-1).postMessage("destroy"), true)`)
	if got := again(); got != want {
		v.Errorf("with the device destroyed in its midst the answer is %q, without %q", got, want)
	}
	v.why("webgpu", "asked")
	if n := eval[int](v, `window.kvlens.state().notices`); n != 1 {
		v.Errorf("the reader gets %d notices, want 1", n)
	}
	v.shot("destroyed")
	if got := again(); got != want {
		v.Errorf("afterwards the answer is %q, want %q", got, want)
	}
	v.why("webgpu", "asked")

	// Between two turns, as in a tab that slept: the next turn finds the conversation where it was.
	next := v.state().Draft.Question
	later := v.ask("run")
	again()
	eval[bool](v, `(window.testWorkers.at(-1).postMessage("destroy now"), true)`)
	v.fill("question", next)
	if got := v.ask("run"); got != later || len(v.state().Turns) != 2 {
		v.Errorf("after a sleep the answer is %q in turn %d, want %q in turn 2", got, len(v.state().Turns), later)
	}
	v.clean()
}

// TestWeightsPastGo: on WebGPU the weights of SmolLM2 go to the device and never lie in Go's memory.
func TestWeightsPastGo(t *testing.T) {
	needBrowser(t)
	v := openWith(t, startHost(t).beforeEngine(slowClock), "en", software)
	v.load("&backend=webgpu")
	v.wait("the built-in model on WebGPU", `s.phase === "idle" && s.opened`)
	v.choose("smollm2-135m-instruct")
	s := v.wait("SmolLM2 on WebGPU", `s.phase === "idle" && s.mode === "chat"`)
	v.why("webgpu", "asked")
	weights := int64(0)
	for _, r := range s.Memory.Rows {
		if r.Kind == "weights" {
			weights = r.Allocated
		}
	}
	t.Logf("%d bytes of weights, %d bytes of WASM memory", weights, s.Memory.Reserved)
	if weights < 90<<20 || s.Memory.Reserved > weights/2 {
		v.Errorf("%d bytes of weights, %d bytes of WASM memory, want less than half", weights, s.Memory.Reserved)
	}
	v.clean()
}

// hidden hides what an adapter says of itself, so that a program counts as a real one.
const hidden = `Object.defineProperty(GPUAdapter.prototype, "info", {value: undefined});`

// slow makes a token, which comes in a buffer of 64 bytes, take longer than on any CPU path.
const slow = `{
	const map = GPUBuffer.prototype.mapAsync;
	GPUBuffer.prototype.mapAsync = function (...a) {
		const result = map.apply(this, a);
		return this.size > 64 ? result : result.then(() => new Promise((done) => setTimeout(done, 300)));
	};
}`

// TestAdapters: whatever an adapter does, the model answers, and the page names the reason for where it runs.
func TestAdapters(t *testing.T) {
	needBrowser(t)
	v := openWith(t, startHost(t), "en", software)
	for _, c := range []struct{ name, script, query, backend, why string }{
		{"none", `GPU.prototype.requestAdapter = async () => null;`, "", "cpu", "no-adapter"},
		{"silent", `GPU.prototype.requestAdapter = () => new Promise(() => {});`, "", "cpu", "silent"},
		{"no device", hidden + `GPUAdapter.prototype.requestDevice = async () => { throw new Error("no"); };`, "", "cpu", "no-device"},
		{"says nothing of itself, and is slow", hidden + slow, "", "cpu", "race"},
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
			script := c.script
			if c.why != "silent" {
				script = slowClock + script
			}
			v.T, v.host = t, startHost(t).beforeEngine(script)
			v.load(c.query)
			v.wait("the built-in model", `s.phase === "idle" && s.opened`)
			v.why(c.backend, c.why)
			if answer := v.ask("run"); answer == "" {
				v.Errorf("there is no answer")
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
	v.wait("the problem", `s.problem?.code === "backend"`)
	v.until("the reason", `document.querySelector('[data-testid="problem"]')?.innerText.includes("没有图形适配器") ?? false`)
	v.shot("insisted")
	v.click("problem-action")
	v.problem = ""
	v.wait("the built-in model", `s.phase === "idle" && s.opened`)
	v.why("cpu", "no-adapter")
	v.clean()
}

// TestPageWhileReading: while WebGPU reads a long text, the page goes on drawing: it draws how far the reading is. It prints
// the longest gap between two frames; on a software adapter page and kernels share the processor.
func TestPageWhileReading(t *testing.T) {
	needBrowser(t)
	v := openWith(t, startHost(t), "en", software)
	v.load("&backend=webgpu")
	v.wait("the built-in model on WebGPU", `s.phase === "idle" && s.opened`)
	v.fill("story", strings.Repeat("Xiao Ming was happy that day. In the morning, Xiao Ming ate bread. ", 15))
	eval[bool](v, `{
		const frames = window.testFrames = {count: 0, midway: 0, longest: 0};
		let last = 0;
		const frame = (now) => {
			requestAnimationFrame(frame);
			const {phase, work} = window.kvlens.state();
			if (phase !== "prefill") return;
			if (last) frames.longest = Math.max(frames.longest, now - last);
			last = now;
			frames.count++;
			if (work.done > 0 && work.done < work.total) frames.midway++;
		};
		requestAnimationFrame(frame);
		true;
	}`)
	answer := v.ask("run")
	turn := last(v.state())
	frames := eval[struct {
		Count, Midway int
		Longest       float64
	}](v, `window.testFrames`)
	v.Logf("%d tokens read at %.0f a second, %d frames, the longest gap %.0f ms", turn.Pieces, turn.PrefillRate, frames.Count, frames.Longest)
	if turn.Pieces < 225 || frames.Midway == 0 || answer == "" {
		v.Errorf("%d pieces were read, %d frames drawn, %d in the midst; the answer is %q", turn.Pieces, frames.Count, frames.Midway, answer)
	}
	v.clean()
}

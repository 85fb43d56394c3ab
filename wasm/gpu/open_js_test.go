package gpu

import (
	"context"
	"errors"
	"os"
	"syscall/js"
	"testing"
	"time"
)

// eval calls a JavaScript function, given as text.
func eval(code string, args ...any) js.Value {
	return js.Global().Call("eval", "("+code+")").Invoke(args...)
}

func needGPU(t *testing.T) js.Value {
	t.Helper()
	if os.Getenv("KVLENS_GPU") != "1" {
		t.Skip("SKIPPED: needs WebGPU: set KVLENS_GPU=1")
	}
	return js.Global().Get("navigator").Get("gpu")
}

// Browsers that have less than they should.
func TestOpenWithout(t *testing.T) {
	for _, c := range []struct{ name, gpu, reason, adapter string }{
		{"undefined", `() => undefined`, NoWebGPU, ""},
		{"null adapter", `() => ({requestAdapter: async () => null})`, NoAdapter, ""},
		{"adapter refused", `() => ({requestAdapter: async () => { throw new Error("no") }})`, NoAdapter, ""},
		{"adapter throws", `() => ({requestAdapter: () => { throw new Error("no") }})`, NoAdapter, ""},
		{"adapter never answers", `() => ({requestAdapter: () => new Promise(() => {})})`, Silent, ""},
		{"device never answers", `() => ({requestAdapter: async () => ({requestDevice: () => new Promise(() => {})})})`, Silent, ""},
		{
			"device refused", `() => ({requestAdapter: async () => ({
				info: {vendor: "acme", architecture: "two", device: "", description: 7}, requestDevice: async () => { throw new Error("no") },
			})})`, NoDevice, "acme two",
		},
		{"not an adapter", `() => ({requestAdapter: async () => 7})`, NoDevice, ""},
		{"not a GPU", `() => 7`, NoAdapter, ""},
	} {
		o := Options{Timeout: time.Hour, Fallback: true}
		if c.reason == Silent {
			o.Timeout = time.Millisecond
		}
		d, err := open(t.Context(), eval(c.gpu), o)
		var e *AbsentError
		if d != nil || !errors.As(err, &e) || e.Reason != c.reason || e.Adapter != c.adapter {
			t.Errorf("%s: %v (%T), want an *AbsentError with reason %s and adapter %q", c.name, err, err, c.reason, c.adapter)
		}
	}
	silent := eval(`() => ({requestAdapter: () => new Promise(() => {})})`)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := open(ctx, silent, Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the context's", err)
	}
}

// Software adapters show by the flag in either place, or by their name.
func TestSoftwareAdapters(t *testing.T) {
	for _, adapter := range []string{
		`{isFallbackAdapter: true}`, `{info: {isFallbackAdapter: true}}`, `{info: {vendor: "google", architecture: "swiftshader"}}`,
		`{info: {description: "llvmpipe (LLVM 15)"}}`, `{info: {device: "Microsoft Basic Render Driver"}}`,
	} {
		_, err := open(t.Context(), eval(`() => ({requestAdapter: async () => (`+adapter+`)})`), Options{})
		var e *AbsentError
		if !errors.As(err, &e) || e.Reason != Software {
			t.Errorf("%s: %v", adapter, err)
		}
	}
}

// A device that comes after nobody waits for it any more is destroyed.
func TestLateDevice(t *testing.T) {
	late := eval(`() => {
		const late = {destroyed: false};
		const device = {destroy() { late.destroyed = true; late.heard?.(); }};
		const adapter = {requestDevice: () => new Promise((resolve) => { late.come = () => resolve(device); })};
		late.requestAdapter = async () => adapter;
		return late;
	}`)
	for late.Get("come").IsUndefined() { // a busy machine may not get as far as asking for the device
		if _, err := open(t.Context(), late, Options{Timeout: 10 * time.Millisecond}); Code(err) != Silent {
			t.Fatalf("error %v", err)
		}
	}
	heard := make(chan bool, 1)
	f := js.FuncOf(func(js.Value, []js.Value) any { heard <- true; return nil })
	defer f.Release()
	late.Set("heard", f)
	late.Call("come")
	<-heard
}

// All that the adapter has is asked for, a limit that it does not tell is not, and the device's own numbers count.
func TestAsksForTheAdaptersLimits(t *testing.T) {
	gpu := eval(`(real) => ({asked: null, requestAdapter() {
		return real.requestAdapter().then((adapter) => ({
			limits: {maxBufferSize: 300 << 20, maxStorageBufferBindingSize: 144 << 20, maxComputeWorkgroupStorageSize: "?"},
			requestDevice: (descriptor) => { this.asked = descriptor; return adapter.requestDevice(descriptor); },
		}));
	}})`, needGPU(t))
	d, err := open(t.Context(), gpu, Options{Fallback: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	asked := js.Global().Get("JSON").Call("stringify", gpu.Get("asked")).String()
	if want := `{"requiredLimits":{"maxBufferSize":314572800,"maxStorageBufferBindingSize":150994944}}`; asked != want {
		t.Errorf("asked for %s, want %s", asked, want)
	}
	l := d.Info().Limits
	if l.MaxBuffer != 300<<20 || l.MaxBinding != 144<<20 || l.WorkgroupMemory != 16<<10 || d.Info().Adapter != "" {
		t.Errorf("info %+v", d.Info())
	}
}

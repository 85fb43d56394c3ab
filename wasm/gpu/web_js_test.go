package gpu

import (
	"errors"
	"strings"
	"syscall/js"
	"testing"
	"time"
)

func openReal(t *testing.T) (*device, *web) {
	t.Helper()
	d, err := open(t.Context(), needGPU(t), Options{Fallback: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d.(*device), d.(*device).drv.(*web)
}

const incrementCode = `
@group(0) @binding(0) var<storage, read_write> total: array<u32>;
@compute @workgroup_size(1)
fn increment() { total[0] += 1u; }`

// increments records n dispatches, each of which counts.
func increments(t *testing.T, d Device, n int) Recording {
	t.Helper()
	p, err := d.Pipelines(t.Context(), []Shader{{Label: "increment", Code: incrementCode, Entry: "increment", Bindings: []Access{ReadWrite}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	total, err := d.NewBuffer("total", 64)
	if err != nil {
		t.Fatal(err)
	}
	g, err := d.Bind(p[0], []Binding{{Buf: total}})
	if err != nil {
		t.Fatal(err)
	}
	list := make([]Dispatch, n)
	for i := range list {
		list[i] = Dispatch{Pipeline: p[0], Group: g, X: 1, Y: 1, Z: 1}
	}
	r, err := d.Record(list, Binding{Buf: total, Size: 64})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Losing the device ends whatever waits for it, and everything after.
func TestLost(t *testing.T) {
	d, w := openReal(t)
	r := increments(t, d, 3)
	p := make([]byte, 64)
	if err := d.Replay(r); err != nil {
		t.Fatal(err)
	}
	if err := d.Wait(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := d.Replay(r); err != nil {
			t.Fatal(err)
		}
	}
	w.dev.Call("destroy")
	for i := range 5 {
		var e *LostError
		// What was already on its way may still arrive.
		if err := d.Wait(t.Context(), p); err != nil && !errors.As(err, &e) || i == 4 && err == nil {
			t.Errorf("wait: %v (%T)", err, err)
		}
	}
	<-d.Lost()
	if !strings.Contains(d.LostReason(), "destroyed") {
		t.Errorf("reason %q", d.LostReason())
	}
	_, fromBuffer := d.NewBuffer("more", 4)
	_, fromPipelines := d.Pipelines(t.Context(), nil, nil)
	for _, err := range []error{d.Read(1, 0, p), d.Replay(r), d.Wait(t.Context(), p), fromBuffer, fromPipelines} {
		if Code(err) != "gpu-lost" {
			t.Errorf("%v (%T), want a *LostError", err, err)
		}
	}
}

// A read that waits when the device goes is told.
func TestLostWhileReading(t *testing.T) {
	d, w := openReal(t)
	b, err := d.NewBuffer("b", 64)
	if err != nil {
		t.Fatal(err)
	}
	w.dev.Set("popErrorScope", eval(`(device) => async () => { device.destroy(); await device.lost; await new Promise((f) => setTimeout(f)); return null; }`, w.dev))
	if err := d.Read(b, 0, make([]byte, 64)); Code(err) != "gpu-lost" {
		t.Errorf("%v (%T), want a *LostError", err, err)
	}
}

// Want of memory comes through an error scope, or as an exception; in either case nothing stays.
func TestOutOfMemory(t *testing.T) {
	d, w := openReal(t)
	count := eval(`(device) => {
		const count = {made: 0, destroyed: 0};
		device.createBuffer = (d) => {
			const b = GPUDevice.prototype.createBuffer.call(device, d);
			count.made++;
			b.destroy = () => { count.destroyed++; GPUBuffer.prototype.destroy.call(b); };
			return b;
		};
		return count;
	}`, w.dev)
	eval(`(device) => {
		let calls = 0;
		device.popErrorScope = async function () {
			const e = await GPUDevice.prototype.popErrorScope.call(device);
			return ++calls % 2 ? e : new GPUOutOfMemoryError("none left"); // the outer of two scopes
		};
	}`, w.dev)
	var e *MemoryError
	if _, err := d.NewBuffer("tensor", 4096); !errors.As(err, &e) || e.Label != "tensor" || e.Size != 4096 || e.Msg != "none left" {
		t.Errorf("%v (%T), want a *MemoryError", err, err)
	}
	if err := d.Read(1, 0, nil); err == nil {
		t.Error("a buffer was left")
	}
	eval(`(device) => { delete device.popErrorScope; device.createBuffer = () => { throw new RangeError("too much"); }; }`, w.dev)
	if _, err := d.NewBuffer("tensor", 4096); !errors.As(err, &e) || !strings.Contains(e.Msg, "too much") {
		t.Errorf("%v (%T), want a *MemoryError", err, err)
	}
	if n, bytes := d.Live(); n != 0 || bytes != 0 || count.Get("made").Int() != 1 || count.Get("destroyed").Int() != 1 {
		t.Errorf("%d buffers of %d bytes are left; the browser made %v and destroyed %v", n, bytes, count.Get("made"), count.Get("destroyed"))
	}
}

// The staging ring fails half way.
func TestNoRing(t *testing.T) {
	d, w := openReal(t)
	count := eval(`(device) => {
		const count = {live: 0, staged: 0};
		device.createBuffer = (d) => {
			if (d.usage & GPUBufferUsage.MAP_READ && ++count.staged === 3) throw new RangeError("too much");
			const b = GPUDevice.prototype.createBuffer.call(device, d);
			count.live++;
			b.destroy = () => { count.live--; GPUBuffer.prototype.destroy.call(b); };
			return b;
		};
		return count;
	}`, w.dev)
	b, err := d.NewBuffer("total", 64)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Record(nil, Binding{Buf: b, Size: 64}); err == nil {
		t.Error("no error")
	}
	if n, bytes := d.Live(); n != 1 || bytes != 64 || count.Get("live").Int() != 1 {
		t.Errorf("%d buffers of %d bytes are left, in the browser %v", n, bytes, count.Get("live"))
	}
	if _, err := d.Record(nil, Binding{Buf: b, Size: 64}); err != nil { // the fourth time there is memory
		t.Error(err)
	}
	if n, bytes := d.Live(); n != 5 || bytes != 64+StagingBytes {
		t.Errorf("%d buffers of %d bytes live", n, bytes)
	}
}

// An error that no scope catches is told at the next occasion, once.
func TestUncaptured(t *testing.T) {
	d, w := openReal(t)
	b, err := d.NewBuffer("b", 64)
	if err != nil {
		t.Fatal(err)
	}
	w.dev.Call("createBuffer", map[string]any{"size": 4, "usage": 0})
	err = d.Read(b, 0, make([]byte, 64))
	if Code(err) != "gpu-use" || !strings.Contains(err.Error(), "read") {
		t.Errorf("%v (%T), want a *UseError", err, err)
	}
	if err := d.Read(b, 0, make([]byte, 64)); err != nil {
		t.Error(err)
	}
}

// A token costs one call from Go to replay and one to copy the result; the rest is what Go's runtime does for a callback.
func TestCallsPerReplay(t *testing.T) {
	d, _ := openReal(t)
	const dispatches, tokens = 186, 64
	r := increments(t, d, dispatches)
	uses := eval(`() => {
		const uses = {}, wrap = (proto, name, also) => {
			const f = proto[name];
			uses[name] = 0;
			proto[name] = function (...args) {
				uses[name]++;
				const v = f.apply(this, args);
				also?.(v);
				return v;
			};
			undo.push(() => { proto[name] = f; });
		};
		const undo = [];
		uses.bytes = 0;
		wrap(GPUQueue.prototype, "submit");
		wrap(GPUQueue.prototype, "writeBuffer");
		wrap(GPUDevice.prototype, "createBuffer");
		wrap(GPUDevice.prototype, "createBindGroup");
		wrap(GPUComputePassEncoder.prototype, "dispatchWorkgroups");
		wrap(GPUBuffer.prototype, "mapAsync");
		wrap(GPUBuffer.prototype, "getMappedRange", (v) => { uses.bytes += v.byteLength; });
		uses.undo = () => undo.forEach((f) => f());
		return uses;
	}`)
	defer uses.Call("undo")
	p := make([]byte, 64)
	wait := func() {
		if err := d.Wait(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	calls := js.Global().Get("crossings")
	before := eval(`(calls) => ({...calls})`, calls)
	for i := range tokens {
		if err := d.Replay(r); err != nil {
			t.Fatal(err)
		}
		if i >= ring-1 {
			wait()
		}
	}
	after := eval(`(calls) => ({...calls})`, calls)
	for range ring - 1 {
		wait()
	}
	ours := 0
	all := 0
	for _, kind := range members(js.Global().Get("Object").Call("keys", after)) {
		n := after.Get(kind).Int() - before.Get(kind).Int()
		all += n
		switch kind {
		case "valueInvoke", "valueCall", "valueNew", "copyBytesToGo", "copyBytesToJS":
			ours += n
		case "stringVal":
			if n > 1 { // the text of this test's own call
				t.Errorf("%d strings for %d tokens", n, tokens)
			}
		}
		t.Logf("%s: %.2f a token", kind, float64(n)/tokens)
	}
	t.Logf("%.2f calls a token are ours; with the runtime's for callbacks %.2f", float64(ours)/tokens, float64(all)/tokens)
	if ours > 4*tokens {
		t.Errorf("%d calls for %d tokens", ours, tokens)
	}
	for name, want := range map[string]int{
		"submit": tokens, "mapAsync": tokens, "getMappedRange": tokens, "bytes": 64 * tokens, "dispatchWorkgroups": dispatches * tokens,
		"writeBuffer": 0, "createBuffer": 0, "createBindGroup": 0,
	} {
		if n := uses.Get(name).Int(); n != want {
			t.Errorf("%s: %d for %d tokens, want %d", name, n, tokens, want)
		}
	}
}

// A slow way back from the GPU is paid once for the four that are on it.
func TestSlowMap(t *testing.T) {
	d, _ := openReal(t)
	r := increments(t, d, 1)
	const delay, tokens = 40, 20
	undo := eval(`(delay) => {
		const f = GPUBuffer.prototype.mapAsync;
		GPUBuffer.prototype.mapAsync = function (...args) {
			return f.apply(this, args).then(() => new Promise((done) => setTimeout(done, delay)));
		};
		return () => { GPUBuffer.prototype.mapAsync = f; };
	}`, delay)
	defer undo.Invoke()
	p := make([]byte, 64)
	start := time.Now()
	for i := range tokens + ring {
		if i >= ring {
			if err := d.Wait(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		if i < tokens {
			if err := d.Replay(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d ms a token at a delay of %d ms", time.Since(start).Milliseconds()/tokens, delay)
}

func TestWriteValue(t *testing.T) {
	d, _ := openReal(t)
	b, err := d.NewBuffer("b", 16)
	if err != nil {
		t.Fatal(err)
	}
	chunk := eval(`() => Uint8Array.of(9, 1, 2, 3, 4, 5, 6, 7, 8, 9)`)
	if err := d.WriteValue(b, 4, chunk, 1, 8); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 16)
	if err := d.Read(b, 0, got); err != nil {
		t.Fatal(err)
	}
	if string(got) != "\x00\x00\x00\x00\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x00\x00" {
		t.Errorf("%v", got)
	}
	for _, c := range []struct{ off, from, n int64 }{{4, 4, 8}, {12, 0, 8}, {0, -1, 4}, {2, 0, 4}, {0, 0, 6}} {
		if err := d.WriteValue(b, c.off, chunk, c.from, c.n); Code(err) != "gpu-use" {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := d.WriteValue(b, 0, js.ValueOf("text"), 0, 4); Code(err) != "gpu-use" {
		t.Errorf("text: %v", err)
	}
}

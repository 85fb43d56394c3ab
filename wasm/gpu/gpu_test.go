package gpu_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"kvlens/wasm/gpu"
	"kvlens/wasm/gpu/gputest"
)

// These tests run natively on Vulkan and, compiled for js, in a worker of Chromium.

const addCode = `
@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read> b: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

@compute @workgroup_size(64)
fn add(@builtin(global_invocation_id) id: vec3u) {
	if (id.x < arrayLength(&out)) {
		out[id.x] = a[id.x] + b[id.x];
	}
}
`

const countCode = `
struct Step { by: u32 }
@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<storage, read_write> total: array<u32>;

@compute @workgroup_size(1)
fn count() {
	total[0] += step.by;
	total[1] = total[0] * total[0];
}
`

var (
	add = gpu.Shader{
		Label: "add", Code: addCode, Entry: "add", Bindings: []gpu.Access{gpu.Read, gpu.Read, gpu.ReadWrite},
	}
	count = gpu.Shader{Label: "count", Code: countCode, Entry: "count", Bindings: []gpu.Access{gpu.Uniform, gpu.ReadWrite}}
)

func words(v ...uint32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return b
}

func word(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }

// must unwraps a result that the test is not about.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newBuffer(t *testing.T, d gpu.Device, words int) gpu.Buffer {
	t.Helper()
	return must[gpu.Buffer](t)(d.NewBuffer("test", int64(4*words)))
}

func compile(t *testing.T, d gpu.Device, s ...gpu.Shader) []gpu.Pipeline {
	t.Helper()
	return must[[]gpu.Pipeline](t)(d.Pipelines(context.Background(), s, nil))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wants asks for an error of type E whose text has part in it.
func wants[E error](t *testing.T, err error, part string) {
	t.Helper()
	var e E
	if !errors.As(err, &e) || !strings.Contains(err.Error(), part) {
		t.Errorf("error %v (%T), want %T with %q", err, err, e, part)
	}
}

func TestVectorAdd(t *testing.T) {
	d := gputest.Open(t)
	const n = 1000
	a, b, out := newBuffer(t, d, n), newBuffer(t, d, n), newBuffer(t, d, n)
	var x, y []byte
	for i := range uint32(n) {
		x = append(x, words(i)...)
		y = append(y, words(i*i)...)
	}
	check(t, d.Write(a, 0, x))
	check(t, d.Write(b, 0, y[:400])) // in two pieces
	check(t, d.Write(b, 400, y[400:]))
	steps := 0
	p, err := d.Pipelines(t.Context(), []gpu.Shader{add, count}, func(done, total int) {
		if steps++; done != steps || total != 2 {
			t.Errorf("progress %d of %d, at step %d", done, total, steps)
		}
	})
	check(t, err)
	if steps != 2 {
		t.Errorf("%d steps of progress, want 2", steps)
	}
	g := must[gpu.Group](t)(d.Bind(p[0], []gpu.Binding{{Buf: a}, {Buf: b}, {Buf: out}}))
	check(t, d.Run([]gpu.Dispatch{{Pipeline: p[0], Group: g, X: (n + 63) / 64, Y: 1, Z: 1}}))
	got := make([]byte, 4*n)
	check(t, d.Read(out, 0, got))
	for i := range n {
		if want := uint32(i + i*i); word(got, i) != want {
			t.Fatalf("sum %d is %d, want %d", i, word(got, i), want)
		}
	}
	check(t, d.Copy(a, 8, out, 4*990, 40))
	check(t, d.Read(a, 8, got[:40]))
	if word(got, 9) != 999+999*999 {
		t.Errorf("copied %d", word(got, 9))
	}
}

func TestBadShader(t *testing.T) {
	d := gputest.Open(t)
	bad := add
	bad.Label = "bad"
	bad.Code = strings.Replace(addCode, "a[id.x] + b[id.x]", "a[id.x] + nothing", 1) // on line 9
	_, err := d.Pipelines(t.Context(), []gpu.Shader{add, bad, count}, nil)
	var e *gpu.ShaderError
	if !errors.As(err, &e) || e.Label != "bad" || e.Line != 9 || !strings.Contains(e.Msg, "nothing") {
		t.Errorf("error %v (%T), want a *ShaderError for line 9 of bad that names what is missing", err, err)
	}
	bad = add
	bad.Entry = "subtract"
	_, err = d.Pipelines(t.Context(), []gpu.Shader{bad}, nil)
	wants[*gpu.ShaderError](t, err, "subtract")

	compile(t, d, add) // the device is none the worse
}

func TestCancelledPipelines(t *testing.T) {
	d := gputest.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Pipelines(ctx, []gpu.Shader{add}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
}

func TestTooMuchMemory(t *testing.T) {
	d := gputest.Open(t)
	_, err := d.NewBuffer("weights", 1<<40)
	wants[*gpu.LimitError](t, err, "weights")
	if n, bytes := d.Live(); n != 0 || bytes != 0 {
		t.Errorf("%d buffers of %d bytes are left", n, bytes)
	}
}

// The specification's minima hold on every device, and what was asked for is given.
func TestLimits(t *testing.T) {
	for _, minimal := range []bool{true, false} {
		l := gputest.OpenWith(t, gpu.Options{Fallback: true, Minimal: minimal}).Info().Limits
		least := gpu.Limits{
			MaxBuffer: 256 << 20, MaxBinding: 128 << 20, WorkgroupMemory: 16 << 10, Invocations: 256, StorageBuffers: 8,
			Workgroups: 65535, OffsetAlign: 256,
		}
		if minimal && l != least {
			t.Errorf("minimal limits are %+v, want %+v", l, least)
		}
		if l.MaxBuffer < least.MaxBuffer || l.MaxBinding < least.MaxBinding || l.WorkgroupMemory < least.WorkgroupMemory ||
			l.Invocations < least.Invocations || l.StorageBuffers < 8 || l.Workgroups < 65535 || l.OffsetAlign > 256 {
			t.Errorf("limits %+v are below the minimum", l)
		}
	}
}

func TestSoftwareIsRefused(t *testing.T) {
	if !gputest.Open(t).Info().Fallback {
		t.Skip("SKIPPED: the adapter is no program")
	}
	_, err := gpu.Open(t.Context(), gpu.Options{})
	var e *gpu.AbsentError
	if !errors.As(err, &e) || e.Reason != gpu.Software || e.Adapter == "" {
		t.Errorf("error %v, want a refusal that names the adapter", err)
	}
}

// counter is a recording that adds 3, and gives the sum and its square.
func counter(t *testing.T, d gpu.Device) (gpu.Recording, []gpu.Buffer) {
	t.Helper()
	by, total := newBuffer(t, d, 4), newBuffer(t, d, 16)
	check(t, d.Write(by, 0, words(3, 0, 0, 0)))
	p := compile(t, d, count)[0]
	g := must[gpu.Group](t)(d.Bind(p, []gpu.Binding{{Buf: by}, {Buf: total}}))
	step := gpu.Dispatch{Pipeline: p, Group: g, X: 1, Y: 1, Z: 1}
	r := must[gpu.Recording](t)(d.Record([]gpu.Dispatch{step, step}, gpu.Binding{Buf: total, Size: 8}))
	return r, []gpu.Buffer{by, total}
}

func TestReplay(t *testing.T) {
	d := gputest.Open(t)
	r, _ := counter(t, d)
	got := make([]byte, 8)
	waited := uint32(0)
	wait := func() {
		check(t, d.Wait(t.Context(), got))
		waited++
		if want := 6 * waited; word(got, 0) != want || word(got, 1) != want*want {
			t.Fatalf("replay %d gave %d and %d, want %d and %d", waited, word(got, 0), word(got, 1), want, want*want)
		}
	}
	for i := range 100 {
		check(t, d.Replay(r))
		if i >= 3 {
			if i == 3 {
				wants[*gpu.UseError](t, d.Replay(r), "in flight")
			}
			wait()
		}
	}
	for range 3 {
		wait()
	}
	wants[*gpu.UseError](t, d.Wait(t.Context(), got), "nothing")
	d.Forget(r)
	wants[*gpu.UseError](t, d.Replay(r), "no recording")
}

// Writes and replays happen in the order of the calls.
func TestQueueOrder(t *testing.T) {
	d := gputest.Open(t)
	r, bufs := counter(t, d)
	got := make([]byte, 8)
	check(t, d.Replay(r)) // 6
	check(t, d.Write(bufs[1], 0, words(100)))
	check(t, d.Replay(r)) // 106
	check(t, d.Write(bufs[0], 0, words(50)))
	check(t, d.Replay(r)) // 206
	for _, want := range []uint32{6, 106, 206} {
		check(t, d.Wait(t.Context(), got))
		if word(got, 0) != want {
			t.Errorf("%d, want %d", word(got, 0), want)
		}
	}
}

func TestMemoryComesBack(t *testing.T) {
	d := gputest.Open(t)
	p := compile(t, d, count)[0]
	for i := range 1000 {
		a, b := newBuffer(t, d, 64), newBuffer(t, d, 1024)
		if i%100 == 0 {
			must[gpu.Group](t)(d.Bind(p, []gpu.Binding{{Buf: a}, {Buf: b}}))
			if n, bytes := d.Live(); n != 2 || bytes != 4*(64+1024) {
				t.Fatalf("cycle %d: %d buffers of %d bytes live", i, n, bytes)
			}
		}
		d.Destroy(a)
		d.Destroy(b)
		d.Destroy(b) // once too often does no harm
	}
	if n, bytes := d.Live(); n != 0 || bytes != 0 {
		t.Errorf("%d buffers of %d bytes are left", n, bytes)
	}
}

// A group must not outlive its buffers, nor a replay use it.
func TestDestroyedBuffers(t *testing.T) {
	d := gputest.Open(t)
	r, bufs := counter(t, d)
	check(t, d.Replay(r))
	d.Destroy(bufs[0])
	wants[*gpu.UseError](t, d.Replay(r), "destroyed")
	got := make([]byte, 8)
	check(t, d.Wait(t.Context(), got)) // that one was submitted before
	if word(got, 0) != 6 {
		t.Errorf("%d, want 6", word(got, 0))
	}
	wants[*gpu.UseError](t, d.Write(bufs[0], 0, words(1)), "no buffer")
}

func TestClosed(t *testing.T) {
	d := gputest.Open(t)
	r, bufs := counter(t, d)
	check(t, d.Replay(r))
	d.Close()
	<-d.Lost()
	p := make([]byte, 8)
	for _, err := range []error{
		d.Read(bufs[0], 0, p), d.Write(bufs[0], 0, p), d.Replay(r), d.Wait(t.Context(), p), d.Run(nil),
		d.Copy(bufs[0], 0, bufs[1], 0, 4),
	} {
		wants[*gpu.LostError](t, err, "closed")
	}
	if n, bytes := d.Live(); n != 0 || bytes != 0 || d.LostReason() != "closed" {
		t.Errorf("%d buffers of %d bytes are left, reason %q", n, bytes, d.LostReason())
	}
	d.Close() // once too often does no harm
}

// Two devices work side by side, as two tests or a page's old and new device may.
func TestTwoDevices(t *testing.T) {
	one, two := gputest.Open(t), gputest.Open(t)
	r1, _ := counter(t, one)
	r2, _ := counter(t, two)
	got := make([]byte, 8)
	for i := range uint32(10) {
		check(t, one.Replay(r1))
		check(t, two.Replay(r2))
		check(t, two.Wait(t.Context(), got))
		check(t, one.Wait(t.Context(), got))
		if word(got, 0) != 6*(i+1) {
			t.Fatalf("%d, want %d", word(got, 0), 6*(i+1))
		}
	}
}

// Writes, copies and the destruction of other buffers happen in the order of their calls, small writes and large.
func TestWritesInOrder(t *testing.T) {
	d := gputest.Open(t)
	const n = 1 << 14 // words, more than waits
	a, b := newBuffer(t, d, n), newBuffer(t, d, n)
	large := make([]byte, 4*n)
	large[0], large[4] = 7, 8
	check(t, d.Write(a, 0, words(1, 2, 3)))
	check(t, d.Write(a, 0, large)) // takes what was written before
	check(t, d.Write(a, 4, words(9)))
	check(t, d.Copy(b, 0, a, 0, 12)) // sees the last word
	check(t, d.Write(a, 0, words(5, 6)))
	gone := newBuffer(t, d, 1)
	check(t, d.Write(gone, 0, words(1)))
	d.Destroy(gone)
	for i := range uint32(3000) { // more than the hand holds
		check(t, d.Write(a, int64(4*i), words(slices.Repeat([]uint32{i}, 100)...)))
	}
	got := make([]byte, 12)
	check(t, d.Read(b, 0, got))
	if word(got, 0) != 7 || word(got, 1) != 9 || word(got, 2) != 0 {
		t.Errorf("the copy holds %v", got)
	}
	check(t, d.Read(a, 4*2998, got))
	if word(got, 0) != 2998 || word(got, 1) != 2999 || word(got, 2) != 2999 {
		t.Errorf("after many writes there is %v", got)
	}
}

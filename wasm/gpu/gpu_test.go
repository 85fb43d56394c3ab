package gpu_test

import (
	"context"
	"encoding/binary"
	"errors"
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

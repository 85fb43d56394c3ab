package gpu

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// fake is a driver that computes nothing. It fails at the nth allocation, if n is not 0, and keeps what is alive.
type fake struct {
	n       int
	buffers map[Buffer]int64
	groups  map[Group]bool
	runs    int
	flight  [][]byte
	err     error // of the next call that can fail
}

var errFake = errors.New("fake")

func (f *fake) fail() error {
	err := f.err
	f.err = nil
	return err
}

func (f *fake) newBuffer(b Buffer, label string, size int64) error {
	if f.n--; f.n == 0 {
		return &MemoryError{Label: label, Size: size, Msg: "fake"}
	}
	f.buffers[b] = size
	return nil
}
func (f *fake) destroy(b Buffer)                                     { delete(f.buffers, b) }
func (f *fake) write(Buffer, int64, []byte) error                    { return f.fail() }
func (f *fake) copyBuffer(Buffer, int64, Buffer, int64, int64) error { return f.fail() }
func (f *fake) read(_ Buffer, off int64, dst []byte) error {
	dst[0] = byte(off / readChunk)
	return f.fail()
}
func (f *fake) bind(g Group, _ Pipeline, _ []Binding) error { f.groups[g] = true; return f.fail() }
func (f *fake) unbind(g Group)                              { delete(f.groups, g) }
func (f *fake) run([]Dispatch) error                        { f.runs++; return f.fail() }
func (f *fake) newRing() error                              { return f.fail() }
func (f *fake) record(Recording, []Dispatch, Binding) error { return f.fail() }
func (f *fake) forget(Recording)                            {}
func (f *fake) replay(r Recording) error {
	f.flight = append(f.flight, []byte{byte(r)})
	return f.fail()
}
func (f *fake) close() {}
func (f *fake) compile(context.Context, Pipeline, []Shader, func(done, total int)) error {
	return f.fail()
}

func (f *fake) wait(ctx context.Context, dst []byte) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	copy(dst, f.flight[0])
	f.flight = f.flight[1:]
	return f.fail()
}

func newFake() (*device, *fake) {
	f := &fake{buffers: map[Buffer]int64{}, groups: map[Group]bool{}}
	return newDevice(f, Info{Limits: Limits{
		MaxBuffer: 1 << 20, MaxBinding: 1 << 16, StorageBuffers: 8, Workgroups: 1000, OffsetAlign: 256,
	}}, newLoss()), f
}

// setUp makes a pipeline that reads, reads and writes, and n buffers of 1,024 bytes.
func setUp(t *testing.T, n int) (*device, *fake, Pipeline, []Buffer) {
	t.Helper()
	d, f := newFake()
	p, err := d.Pipelines(t.Context(), []Shader{{Label: "s", Bindings: []Access{Read, Read, ReadWrite}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var bufs []Buffer
	for range n {
		b, err := d.NewBuffer("b", 1024)
		if err != nil {
			t.Fatal(err)
		}
		bufs = append(bufs, b)
	}
	return d, f, p[0], bufs
}

// code asks for an error with a code, "" for none.
func code(t *testing.T, what string, err error, want string) {
	t.Helper()
	if got := Code(err); got != want || (err == nil) != (want == "") {
		t.Errorf("%s: error %v with code %q, want %q", what, err, got, want)
	}
}

func TestRangesAndSizes(t *testing.T) {
	d, _, _, bufs := setUp(t, 2)
	for _, c := range []struct {
		off, n int64
		code   string
	}{
		{0, 1024, ""},
		{1020, 4, ""},
		{1024, 0, ""},
		{0, 0, ""},
		{1, 4, "gpu-use"},
		{0, 6, "gpu-use"},
		{-4, 4, "gpu-use"},
		{1024, 4, "gpu-use"},
		{1020, 8, "gpu-use"},
		{1<<63 - 4, 8, "gpu-use"},
	} {
		p := make([]byte, c.n)
		code(t, "write", d.Write(bufs[0], c.off, p), c.code)
		code(t, "read", d.Read(bufs[0], c.off, p), c.code)
		code(t, "copy", d.Copy(bufs[0], 0, bufs[1], c.off, c.n), c.code)
		code(t, "copy", d.Copy(bufs[0], c.off, bufs[1], 0, c.n), c.code)
	}
	code(t, "copy onto itself", d.Copy(bufs[0], 0, bufs[0], 512, 4), "gpu-use")
	code(t, "no buffer", d.Write(99, 0, make([]byte, 4)), "gpu-use")
	for _, c := range []struct {
		size int64
		code string
	}{{0, "gpu-use"}, {-4, "gpu-use"}, {6, "gpu-use"}, {1 << 20, ""}, {1<<20 + 4, "gpu-limit"}} {
		_, err := d.NewBuffer("b", c.size)
		code(t, "new buffer", err, c.code)
	}
}

func TestBind(t *testing.T) {
	d, f, p, b := setUp(t, 3)
	big, err := d.NewBuffer("big", 1<<17)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		bindings []Binding
		code     string
	}{
		{"three", []Binding{{Buf: b[0]}, {Buf: b[1]}, {Buf: b[2]}}, ""},
		{"read twice", []Binding{{Buf: b[0]}, {Buf: b[0]}, {Buf: b[2]}}, ""},
		{"parts", []Binding{{Buf: b[0], Off: 256, Size: 4}, {Buf: b[0], Off: 768}, {Buf: b[2], Size: 8}}, ""},
		{"largest", []Binding{{Buf: big, Size: 1 << 16}, {Buf: b[1]}, {Buf: b[2]}}, ""},
		{"too large", []Binding{{Buf: big}, {Buf: b[1]}, {Buf: b[2]}}, "gpu-limit"},
		{"too few", []Binding{{Buf: b[0]}, {Buf: b[1]}}, "gpu-use"},
		{"no buffer", []Binding{{Buf: b[0]}, {Buf: b[1]}, {}}, "gpu-use"},
		{"unaligned", []Binding{{Buf: b[0], Off: 128}, {Buf: b[1]}, {Buf: b[2]}}, "gpu-use"},
		{"nothing left", []Binding{{Buf: b[0], Off: 1024}, {Buf: b[1]}, {Buf: b[2]}}, "gpu-use"},
		{"beyond", []Binding{{Buf: b[0], Off: 512, Size: 1024}, {Buf: b[1]}, {Buf: b[2]}}, "gpu-use"},
		{"read and written, apart", []Binding{{Buf: b[0], Size: 256}, {Buf: b[1]}, {Buf: b[0], Off: 256}}, "gpu-use"},
	} {
		_, err := d.Bind(p, c.bindings)
		code(t, c.name, err, c.code)
	}
	_, err = d.Bind(99, nil)
	code(t, "no pipeline", err, "gpu-use")
	if len(f.groups) != 4 {
		t.Errorf("%d groups, want 4", len(f.groups))
	}
	d.Destroy(b[0])
	if len(f.groups) != 1 {
		t.Errorf("%d groups are left, want the one without the buffer", len(f.groups))
	}
	d.Destroy(b[1])
	if len(f.groups) != 0 || !slices.Equal(d.buffers[b[2]].groups, nil) {
		t.Errorf("%d groups are left, %v on the last buffer's list", len(f.groups), d.buffers[b[2]].groups)
	}
}

// Two written parts of one buffer may not overlap.
func TestClash(t *testing.T) {
	x := Binding{Buf: 1, Off: 0, Size: 512}
	for _, c := range []struct {
		a, b Access
		y    Binding
		want bool
	}{
		{ReadWrite, ReadWrite, Binding{Buf: 1, Off: 512, Size: 4}, false},
		{ReadWrite, ReadWrite, Binding{Buf: 1, Off: 508, Size: 4}, true},
		{ReadWrite, ReadWrite, Binding{Buf: 2, Off: 0, Size: 512}, false},
		{ReadWrite, Read, Binding{Buf: 1, Off: 512, Size: 4}, true},
		{Uniform, ReadWrite, Binding{Buf: 1, Off: 512, Size: 4}, true},
		{Uniform, Read, Binding{Buf: 1, Off: 0, Size: 4}, false},
	} {
		if clash(c.a, c.b, x, c.y) != c.want || clash(c.b, c.a, c.y, x) != c.want {
			t.Errorf("%+v: want %v", c, c.want)
		}
	}
}

func TestDispatches(t *testing.T) {
	d, f, p, b := setUp(t, 3)
	other, err := d.Pipelines(t.Context(), []Shader{{Label: "o", Bindings: []Access{Read, ReadWrite}}, {Label: "same", Bindings: []Access{Read, Read, ReadWrite}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := d.Bind(p, []Binding{{Buf: b[0]}, {Buf: b[1]}, {Buf: b[2]}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		d    Dispatch
		code string
	}{
		{"good", Dispatch{p, g, 1, 1, 1}, ""},
		{"most", Dispatch{p, g, 1000, 1000, 1000}, ""},
		{"pipeline of the same bindings", Dispatch{other[1], g, 1, 1, 1}, ""},
		{"pipeline of others", Dispatch{other[0], g, 1, 1, 1}, "gpu-use"},
		{"none", Dispatch{p, g, 1, 0, 1}, "gpu-use"},
		{"too many", Dispatch{p, g, 1, 1001, 1}, "gpu-limit"},
		{"no pipeline", Dispatch{99, g, 1, 1, 1}, "gpu-use"},
		{"no group", Dispatch{p, 99, 1, 1, 1}, "gpu-use"},
	} {
		code(t, c.name, d.Run([]Dispatch{c.d}), c.code)
		_, err := d.Record([]Dispatch{c.d}, Binding{Buf: b[2], Size: 4})
		code(t, c.name, err, c.code)
	}
	if f.runs != 3 {
		t.Errorf("%d runs, want 3", f.runs)
	}
	for _, r := range []Binding{{Buf: b[0]}, {Buf: b[0], Size: 68}, {Buf: b[0], Off: 1024, Size: 4}, {Size: 4}} {
		_, err := d.Record(nil, r)
		code(t, "read", err, "gpu-use")
	}
	_, err = d.Pipelines(t.Context(), []Shader{{Bindings: []Access{3}}}, nil)
	code(t, "access", err, "gpu-use")
	_, err = d.Pipelines(t.Context(), []Shader{{Bindings: slices.Repeat([]Access{Read}, 9)}}, nil)
	code(t, "storage buffers", err, "gpu-limit")
	_, err = d.Pipelines(t.Context(), []Shader{{Bindings: append(slices.Repeat([]Access{Read}, 8), Uniform)}}, nil)
	code(t, "storage buffers", err, "")
}

// An allocation that fails half way leaves what was there before, and the caller can free it all.
func TestHalfWay(t *testing.T) {
	for n := 1; n <= 20; n++ {
		d, f := newFake()
		f.n = n
		var made []Buffer
		for {
			b, err := d.NewBuffer("tensor", 4096)
			if err != nil {
				code(t, "tensor", err, "gpu-memory")
				break
			}
			made = append(made, b)
		}
		if k, bytes := d.Live(); k != n-1 || bytes != 4096*int64(n-1) || len(f.buffers) != k {
			t.Errorf("n = %d: %d buffers of %d bytes live, the driver holds %d", n, k, bytes, len(f.buffers))
		}
		for _, b := range made {
			d.Destroy(b)
		}
		if k, bytes := d.Live(); k != 0 || bytes != 0 || len(f.buffers) != 0 {
			t.Errorf("n = %d: %d buffers of %d bytes are left, the driver holds %d", n, k, bytes, len(f.buffers))
		}
	}
}

func TestRing(t *testing.T) {
	d, f, _, b := setUp(t, 1)
	var rs []Recording
	f.err = &MemoryError{}
	_, err := d.Record(nil, Binding{Buf: b[0], Size: 4})
	code(t, "no ring", err, "gpu-memory")
	if n, bytes := d.Live(); n != 1 || bytes != 1024 {
		t.Errorf("%d buffers of %d bytes live", n, bytes)
	}
	for range 3 {
		r, err := d.Record(nil, Binding{Buf: b[0], Size: 4})
		code(t, "record", err, "")
		rs = append(rs, r)
	}
	if n, bytes := d.Live(); n != 5 || bytes != 1024+256 {
		t.Errorf("%d buffers of %d bytes live, want one and a ring of 4 × 64 bytes", n, bytes)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dst := make([]byte, 4)
	for i := range 50 {
		code(t, "replay", d.Replay(rs[i%3]), "")
		if i < 3 {
			continue
		}
		code(t, "fifth", d.Replay(rs[0]), "gpu-use")
		if err := d.Wait(ctx, dst); !errors.Is(err, context.Canceled) { // takes nothing
			t.Errorf("cancelled: %v", err)
		}
		code(t, "size", d.Wait(t.Context(), dst[:3]), "gpu-use")
		if i == 10 {
			f.err = errFake // this one is gone, the next comes
			if err := d.Wait(t.Context(), dst); err == nil {
				t.Error("no error")
			}
			continue
		}
		code(t, "wait", d.Wait(t.Context(), dst), "")
		if want := byte(rs[(i-3)%3]); dst[0] != want {
			t.Errorf("replay %d gave %d, want %d", i-3, dst[0], want)
		}
	}
}

// Reads are staged in pieces.
func TestReadInPieces(t *testing.T) {
	d, _ := newFake()
	d.info.Limits.MaxBuffer = 1 << 30
	b, err := d.NewBuffer("b", 4*readChunk)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 2*readChunk+4)
	code(t, "read", d.Read(b, readChunk-4, dst[:8]), "")
	code(t, "read", d.Read(b, readChunk, dst), "")
	if dst[0] != 1 || dst[readChunk] != 2 || dst[2*readChunk] != 3 {
		t.Errorf("pieces at %d, %d, %d", dst[0], dst[readChunk], dst[2*readChunk])
	}
}

// A loss explains the error that the driver gives, even when it is heard a little later.
func TestLossExplains(t *testing.T) {
	d, f, _, b := setUp(t, 1)
	f.err = errFake
	go d.loss.set("gone")
	err := d.Write(b[0], 0, make([]byte, 4))
	code(t, "write", err, "gpu-lost")
	d.loss.set("again")
	if d.LostReason() != "gone" {
		t.Errorf("reason %q", d.LostReason())
	}
	<-d.Lost()
}

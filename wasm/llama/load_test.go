package llama

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
)

var (
	ctx        = context.Background()
	testPrompt = []int32{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4}
)

// limited is a backend whose buffers have a largest size.
type limited struct {
	step.Backend
	max    int64
	slabs  int
	upload int64 // largest upload
}

func (b *limited) Info() step.Info { return step.Info{Name: "limited", MaxBuffer: b.max} }

func (b *limited) Alloc(kind cache.Kind, name string, size int64) (step.Buffer, error) {
	if b.max > 0 && size > b.max {
		return 0, errors.New("too large")
	}
	if kind == cache.Weights {
		b.slabs++
	}
	return b.Backend.Alloc(kind, name, size)
}

func (b *limited) Upload(dst step.Buffer, off int64, src []byte) error {
	b.upload = max(b.upload, int64(len(src)))
	return b.Backend.Upload(dst, off, src)
}

func testLoad(t *testing.T, f *testFile, b *limited) *Model {
	t.Helper()
	led := new(cache.Ledger)
	b.Backend = ref.New(led)
	m, err := Load(ctx, f.open(t), b, Options{Ledger: led})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// testLogits is what a model says after testPrompt, with f32 pages.
func testLogits(t *testing.T, m *Model) []float32 {
	t.Helper()
	s, err := m.NewSession(SessionOptions{F32: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Prefill(ctx, testPrompt, nil); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(s.Logits())
}

func near(a, b []float32, tolerance float64) bool {
	for i := range a {
		if !(math.Abs(float64(a[i]-b[i])) <= tolerance) {
			return false
		}
	}
	return len(a) == len(b) && len(a) > 0
}

// The same model in other clothes gives the same logits.
func TestSameModel(t *testing.T) {
	want := testLogits(t, testLoad(t, newTestFile(), &limited{}))
	cases := []struct {
		name      string
		tolerance float64
		change    func(*testFile)
		max       int64
		slabs     int
	}{
		{"all in f32", 1e-4, func(f *testFile) {
			for i := range f.tensors {
				f.tensors[i].kind = quant.F32
			}
		}, 0, 1},
		{"one type in the QKV stack", 1e-4, func(f *testFile) { f.tensor("blk.0.attn_v.weight").kind = quant.Q8_0 }, 0, 1},
		{"untied", 0, func(f *testFile) {
			f.add("output.weight", quant.Q8_0, 40, 64)
			f.tensor("output.weight").seed = "token_embd.weight"
		}, 0, 1},
		// The largest matrix is gate over up, 192 × 64 in 8 bits and 384 scales: 13,056 bytes.
		{"several slabs", 0, func(*testFile) {}, 17408, 4},
		{"stated defaults", 0, func(f *testFile) {
			f.set("llama.attention.key_length", uint32(16))
			f.set("llama.rope.dimension_count", uint32(16))
			f.set("llama.rope.freq_base", float32(10000))
			f.set("llama.vocab_size", uint32(40))
			f.set("llama.attention.head_count_kv", []uint32{2, 2})
			f.set("llama.rope.scaling.type", "none")
		}, 0, 1},
	}
	for _, c := range cases {
		f := newTestFile()
		c.change(f)
		b := &limited{max: c.max}
		if got := testLogits(t, testLoad(t, f, b)); !near(got, want, c.tolerance) {
			t.Errorf("%s: got %v, want %v", c.name, got[:4], want[:4])
		}
		if c.max == 0 && b.slabs != c.slabs || b.slabs < c.slabs {
			t.Errorf("%s: %d slabs", c.name, b.slabs)
		}
	}
}

// Factors of 2 on every frequency, linear scaling by 2 and the older key for it are one and the same, and not the model
// without them.
func TestRopeScaling(t *testing.T) {
	logits := func(change func(*testFile)) []float32 {
		f := newTestFile()
		change(f)
		return testLogits(t, testLoad(t, f, &limited{}))
	}
	plain := logits(func(*testFile) {})
	linear := logits(func(f *testFile) {
		f.set("llama.rope.scaling.type", "linear")
		f.set("llama.rope.scaling.factor", float32(2))
	})
	if near(plain, linear, 1e-3) {
		t.Error("scaling changes nothing")
	}
	if !near(linear, logits(func(f *testFile) { f.set("llama.rope.scale_linear", float32(2)) }), 0) {
		t.Error("scale_linear differs from linear scaling")
	}
	if !near(linear, logits(func(f *testFile) { f.add("rope_freqs.weight", quant.F32, 1, 8) }), 0) {
		t.Error("rope_freqs differ from linear scaling")
	}
}

// The table holds cos and sin of pos·base^(−2k/rot), to half a unit of f32, at large positions too.
func TestRopeTable(t *testing.T) {
	c := &Config{Shape: step.Shape{RotDim: 4}, RopeBase: 10000, RopeScale: 1}
	got := ropeTable(c, nil, 0, 100000)
	if len(got) != 400000 {
		t.Fatalf("%d numbers", len(got))
	}
	for _, pos := range []float64{0, 1, 99999} {
		want := []float32{
			float32(math.Cos(pos)), float32(math.Sin(pos)), float32(math.Cos(pos / 100)), float32(math.Sin(pos / 100)),
		}
		if row := got[int(pos)*4:][:4]; !near(row, want, 1e-7) {
			t.Errorf("position %v: got %v, want %v", pos, row, want)
		}
	}
}

// A model answers past its context_length as one that was made for more.
func TestPastContext(t *testing.T) {
	short, long := newTestFile(), newTestFile()
	long.set("llama.context_length", uint32(4096))
	var want []float32
	for _, f := range []*testFile{long, short} {
		m := testLoad(t, f, &limited{})
		s, err := m.NewSession(SessionOptions{F32: true, Tokens: 90})
		if err != nil {
			t.Fatal(err)
		}
		for s.Position()+len(testPrompt) < 90 {
			if err := s.Prefill(ctx, testPrompt, nil); err != nil {
				t.Fatal(err)
			}
			if err := s.Decode(ctx, 7); err != nil {
				t.Fatal(err)
			}
		}
		if want == nil {
			want = slices.Clone(s.Logits())
		} else if !near(s.Logits(), want, 1e-6) {
			t.Errorf("position %d: got %v, want %v", s.Position(), s.Logits()[:4], want[:4])
		}
	}
}

// Loading reports all bytes, stays within its tile, gives way, and frees everything when it is cancelled.
func TestLoadProgress(t *testing.T) {
	f := newTestFile()
	var sum int64
	for i := range f.tensors {
		sum += int64(len(f.tensors[i].random()))
	}
	led := new(cache.Ledger)
	var done, total int64
	yields := 0
	b := &limited{Backend: ref.New(led)}
	m, err := Load(ctx, f.open(t), b, Options{
		Ledger:   led,
		Progress: func(d, n int64) { done, total = d, n },
		Yield:    func() { yields++ },
	})
	if err != nil || done != sum || total != sum || yields == 0 {
		t.Errorf("%v: %d of %d bytes, want %d, %d yields", err, done, total, sum, yields)
	}
	if led.Rows()[cache.Staging].Allocated != 0 {
		t.Error("the tile is still there")
	}
	m.Close()
	expectEmpty(t, led)

	stopped, cancel := context.WithCancel(ctx)
	_, err = Load(stopped, f.open(t), b, Options{Ledger: led, Yield: cancel})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	expectEmpty(t, led)
}

// A tensor of several tiles arrives whole.
func TestTiles(t *testing.T) {
	f := newTestFile()
	f.set("llama.feed_forward_length", uint32(1<<15))
	for i := range 2 {
		f.tensor(fmt.Sprintf("blk.%d.ffn_gate.weight", i)).rows = 1 << 15
		f.tensor(fmt.Sprintf("blk.%d.ffn_up.weight", i)).rows = 1 << 15
		f.tensor(fmt.Sprintf("blk.%d.ffn_down.weight", i)).cols = 1 << 15
	}
	want := testLogits(t, testLoad(t, f, &limited{}))
	for i := range f.tensors {
		f.tensors[i].kind = quant.F32
	}
	b := &limited{}
	if got := testLogits(t, testLoad(t, f, b)); !near(got, want, 1e-3) {
		t.Errorf("got %v, want %v", got[:4], want[:4])
	}
	if b.upload > tileBytes {
		t.Errorf("one upload of %d bytes", b.upload)
	}
}

// A file that cannot be read to its end is an error, not a model of zeros.
func TestLoadShortFile(t *testing.T) {
	b := newTestFile().bytes()
	led := new(cache.Ledger)
	f := openReader(t, &failing{bytes.NewReader(b), int64(len(b)) - 100}, int64(len(b)))
	if _, err := Load(ctx, f, ref.New(led), Options{Ledger: led}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	expectEmpty(t, led)
}

// failing reads nothing past end.
type failing struct {
	r   io.ReaderAt
	end int64
}

func (f *failing) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.end {
		return 0, io.ErrUnexpectedEOF
	}
	return f.r.ReadAt(p, off)
}

// What does not fit one buffer of the device is a matter of memory, and leaves nothing allocated.
func TestTooLargeForTheDevice(t *testing.T) {
	b := &limited{max: 13056 - 1} // the largest matrix has a byte more
	led := new(cache.Ledger)
	b.Backend = ref.New(led)
	if _, err := Load(ctx, newTestFile().open(t), b, Options{Ledger: led}); !errors.Is(err, step.ErrMemory) {
		t.Errorf("loading gave %v", err)
	}
	b.max = 17408
	m, err := Load(ctx, newTestFile().open(t), b, Options{Ledger: led})
	if err != nil {
		t.Fatal(err)
	}
	before := led.Rows()
	if _, err := m.NewSession(SessionOptions{Cap: 17408 + 16}); !errors.Is(err, step.ErrMemory) {
		t.Errorf("the session gave %v", err)
	}
	b.max = 0 // no limit of the device: page tables have one
	for _, o := range []SessionOptions{{Cap: cache.MaxCap + 16}, {Tokens: 1 << 40}, {Tokens: math.MaxInt}} {
		if _, err := m.NewSession(o); !errors.Is(err, step.ErrMemory) {
			t.Errorf("a session of %+v gave %v", o, err)
		}
	}
	if led.Rows() != before {
		t.Errorf("the ledger went from %+v to %+v", before, led.Rows())
	}
	m.Close()
	expectEmpty(t, led)
}

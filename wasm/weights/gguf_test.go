package weights

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"kvlens/wasm/quant"
)

func open(data []byte) (*File, error) { return Open(bytes.NewReader(data), int64(len(data))) }

func TestOpenReadsEveryKind(t *testing.T) {
	data := allKinds()
	f, err := open(data)
	if err != nil {
		t.Fatal(err)
	}
	get := func(v any, ok bool) any {
		if !ok {
			return nil
		}
		return v
	}
	m := f.Meta
	u := func(k string) any { v, ok := m.Uint(k); return get(v, ok) }
	i := func(k string) any { v, ok := m.Int(k); return get(v, ok) }
	fl := func(k string) any { v, ok := m.Float(k); return get(v, ok) }
	bo := func(k string) any { v, ok := m.Bool(k); return get(v, ok) }
	st := func(k string) any { v, ok := m.String(k); return get(v, ok) }
	ss := func(k string) any { v, ok := m.Strings(k); return get(v, ok) }
	is := func(k string) any { v, ok := m.Ints(k); return get(v, ok) }
	fs := func(k string) any { v, ok := m.Floats(k); return get(v, ok) }
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"u8", u("u8"), uint64(200)},
		{"i8", i("i8"), int64(-3)},
		{"i8 as uint", u("i8"), nil},
		{"u16", u("u16"), uint64(60000)},
		{"i16", i("i16"), int64(-300)},
		{"u32", u("u32"), uint64(4e9)},
		{"i32", i("i32"), int64(-70000)},
		{"u64", u("u64"), uint64(math.MaxUint64)},
		{"u64 as int", i("u64"), nil},
		{"i64", i("i64"), int64(-1) << 40},
		{"f32", fl("f32"), 1.5},
		{"f32 as uint", u("f32"), nil},
		{"f64", fl("f64"), 1e300},
		{"u8 as float", fl("u8"), nil},
		{"no", bo("no"), false},
		{"yes", bo("yes"), true},
		{"u8 as bool", bo("u8"), nil},
		{"text", st("text"), "a b\n\xff"},
		{"empty", st("empty"), ""},
		{"f32 as text", st("f32"), nil},
		{"strings", ss("strings"), []string{"one", "", "three", "四"}},
		{"no strings", ss("none"), []string{}},
		{"ints as strings", ss("ints"), nil},
		{"ints", is("ints"), []int64{3, -1, math.MaxInt32}},
		{"bytes", is("bytes"), []int64{255, 0}},
		{"big ints", is("big"), nil},
		{"strings as ints", is("strings"), nil},
		{"u8 as ints", is("u8"), nil},
		{"floats", fs("floats"), []float64{-0.5, float64(float32(1e-3))}},
		{"ints as floats", fs("ints"), nil},
		{"missing", u("missing"), nil},
		{"has", [2]bool{m.Has("none"), m.Has("missing")}, [2]bool{true, false}},
		{"pairs", m.Pairs()[14], Pair{"strings", typeArray, typeString, 4}},
		{"error", m.Err(), error(nil)},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	start := int64(len(data) - 96 - 408)
	want := []Tensor{
		{"a", quant.Q4_1, 2, 32, start, 40},
		{"b", quant.F32, 1, 3, start + 64, 12},
		{"c", quant.Q8_0, 6, 64, start + 96, 408},
	}
	if !reflect.DeepEqual(f.Tensors, want) {
		t.Errorf("tensors %+v", f.Tensors)
	}
	c, ok := f.Tensor("c")
	first := make([]byte, 1)
	if _, err := f.ReadAt(first, c.Off); !ok || err != nil || first[0] != 96 {
		t.Errorf("first byte of c: %v, %v", first, err)
	}
	if _, ok := f.Tensor("d"); ok {
		t.Error("found a tensor that is not there")
	}
}

func TestOpenVersionsAndAlignment(t *testing.T) {
	for name, data := range map[string][]byte{
		"version 2": header(2, 0, 0).Bytes(),
		"no tensor": header(3, 0, 0).Bytes(),
		"alignment": append(header(3, 1, 1).put("general.alignment", uint32(4), uint32(8)).tensor("x", 0, 0, 1).Bytes(),
			make([]byte, 16)...),
	} {
		if _, err := open(data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every hostile file is refused with the name of its field, and costs no memory that its bytes do not justify.
func TestOpenRefuses(t *testing.T) {
	kv := func(vs ...any) []byte { return header(3, 0, 1).put(vs...).data(64) }
	tensor := func(name string, typ uint32, off uint64, dims ...uint64) []byte {
		return header(3, 1, 0).tensor(name, typ, off, dims...).data(4096)
	}
	align := func(typ uint32, v any) []byte { return kv("general.alignment", typ, v) }
	two := func(off uint64) []byte {
		return header(3, 2, 0).tensor("a", 0, 0, 9).tensor("b", 0, off, 8).data(256)
	}
	for _, c := range []struct {
		name, field string
		data        []byte
	}{
		{"nothing", "magic", nil},
		{"other file", "magic", []byte("PK\x03\x04 and more")},
		{"version 1", "version", header(1, 0, 0).Bytes()},
		{"version 4", "version", header(4, 0, 0).Bytes()},
		{"big-endian", "version", []byte("GGUF\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")},
		{"cut in counts", "kv_count", header(3, 0, 0).Bytes()[:20]},
		{"tensors without end", "tensor_count", header(3, math.MaxUint64, 0).data(64)},
		{"more tensors than bytes", "tensor_count", header(3, 100, 0).data(64)},
		{"pairs without end", "kv_count", header(3, 0, 1<<60).data(64)},
		{"more pairs than bytes", "kv_count", header(3, 0, 60000).data(64)},
		{"huge key length", "kv 0 key", header(3, 0, 1).put(uint64(1) << 62).data(64)},
		{"key past the end", "kv 0 key", header(3, 0, 1).put(uint64(60000)).data(64)},
		{"empty key", "kv 0 key", kv("", uint32(4), uint32(1))},
		{"key with newline", "kv 0 key", kv("a\nb", uint32(4), uint32(1))},
		{"duplicate key", "kv 1 key", header(3, 0, 2).put("k", uint32(7), true, "k", uint32(7), true).data(64)},
		{"unknown value type", "k", kv("k", uint32(13))},
		{"bool of 2", "k", kv("k", uint32(7), uint8(2))},
		{"string past the end", "k", kv("k", uint32(8), uint64(1000))},
		{"huge string", "k", kv("k", uint32(8), uint64(math.MaxUint64))},
		{"nested array", "k", kv("k", uint32(9), uint32(9), uint64(1), uint32(4), uint64(0))},
		{"array of unknown", "k", kv("k", uint32(9), uint32(77), uint64(1))},
		{"array without end", "k", kv("k", uint32(9), uint32(4), uint64(math.MaxUint64))},
		{"array whose size overflows", "k", kv("k", uint32(9), uint32(10), uint64(1)<<61)},
		{"array past the end", "k", kv("k", uint32(9), uint32(4), uint64(1000))},
		{"strings past the end", "k", kv("k", uint32(9), uint32(8), uint64(2), "a", uint64(1)<<50)},
		{"alignment 0", "general.alignment", align(4, uint32(0))},
		{"alignment 3", "general.alignment", align(4, uint32(3))},
		{"alignment 4", "general.alignment", align(4, uint32(4))},
		{"alignment 7", "general.alignment", align(4, uint32(7))},
		{"alignment 2^31", "general.alignment", align(4, uint32(1)<<31)},
		{"alignment as text", "general.alignment", align(8, "32")},
		{"alignment negative", "general.alignment", align(5, int32(-32))},
		{"split file", "split.count", kv("split.count", uint32(2), uint16(3))},
		{"empty tensor name", "tensor 0 name", tensor("", 0, 0, 8)},
		{"long tensor name", "tensor 0 name", tensor(strings.Repeat("x", 64), 0, 0, 8)},
		{"tensor name not UTF-8", "tensor 0 name", tensor("\xff", 0, 0, 8)},
		{"duplicate tensor", "tensor 1 name", header(3, 2, 0).tensor("a", 0, 0, 8).tensor("a", 0, 32, 8).data(128)},
		{"no dimension", `tensor "x" n_dims`, tensor("x", 0, 0)},
		{"five dimensions", `tensor "x" n_dims`, tensor("x", 0, 0, 1, 1, 1, 1, 1)},
		{"dimension 0", `tensor "x" dims`, tensor("x", 0, 0, 8, 0)},
		{"product overflows", `tensor "x" dims`, tensor("x", 0, 0, 1<<32, 1<<32, 1<<32, 1<<32)},
		{"dimension of 2^63", `tensor "x" dims`, tensor("x", 0, 0, 1<<63)},
		{"more weights than bytes", `tensor "x" dims`, tensor("x", 0, 0, 1<<20, 1<<20)},
		{"part of a block", `tensor "x" dims`, tensor("x", 3, 0, 48)},
		{"unknown type", `tensor "x" type`, tensor("x", 14, 0, 256)},
		{"removed type", `tensor "x" type`, tensor("x", 4, 0, 32)},
		{"type without end", `tensor "x" type`, tensor("x", math.MaxUint32, 0, 32)},
		{"first offset", `tensor "x" offset`, tensor("x", 0, 32, 8)},
		{"offset without end", `tensor "x" offset`, tensor("x", 0, math.MaxUint64, 8)},
		{"overlap", `tensor "b" offset`, two(32)},
		{"gap", `tensor "b" offset`, two(96)},
		{"unaligned", `tensor "b" offset`, two(36)},
		{"out of order", `tensor "b" offset`, two(0)},
		{"data past the end", `tensor "x" size`, header(3, 1, 0).tensor("x", 0, 0, 8).data(31)},
		{"data starts past the end", `tensor "x" size`, header(3, 1, 0).tensor("x", 0, 0, 8).Bytes()},
		{"many tensors over one span", `tensor "b" size`, header(3, 2, 0).tensor("a", 0, 0, 60).tensor("b", 0, 256, 60).data(256)},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := open(c.data)
		runtime.ReadMemStats(&after)
		var format *FormatError
		if !errors.As(err, &format) || format.Field != c.field {
			t.Errorf("%s: %v, want an error about %q", c.name, err, c.field)
		}
		if spent := after.TotalAlloc - before.TotalAlloc; spent > 128<<10 {
			t.Errorf("%s: %d bytes allocated for a file of %d", c.name, spent, len(c.data))
		}
	}
	for _, size := range []int64{-1, math.MaxInt64} {
		if _, err := Open(bytes.NewReader(nil), size); err == nil {
			t.Errorf("size %d accepted", size)
		}
	}
}

// A file cut anywhere is refused, or ends in its last tensor's data.
func TestOpenTruncated(t *testing.T) {
	data := allKinds()
	for n := range data {
		_, err := open(data[:n])
		var format *FormatError
		if !errors.As(err, &format) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(data), err)
		}
	}
}

// Trouble with reading is not the file's fault.
func TestOpenReadErrors(t *testing.T) {
	data := allKinds()
	broken := errors.New("broken disk")
	var format *FormatError
	_, err := Open(failing{broken}, int64(len(data)))
	if !errors.Is(err, broken) || errors.As(err, &format) {
		t.Errorf("failing reader: %v", err)
	}
	_, err = Open(bytes.NewReader(data[:100]), int64(len(data))) // shorter than it said
	if !errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &format) {
		t.Errorf("short reader: %v", err)
	}
	f, err := open(data)
	if err != nil {
		t.Fatal(err)
	}
	f.Meta.r = failing{broken}
	if _, ok := f.Meta.Strings("strings"); ok || !errors.Is(f.Meta.Err(), broken) {
		t.Errorf("array from a failing reader: %v", f.Meta.Err())
	}
}

type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

func FuzzOpen(f *testing.F) {
	f.Add(allKinds())
	f.Add(header(3, 1, 1).put("general.alignment", uint32(4), uint32(8)).tensor("x", 0, 0, 1).data(8))
	f.Add(header(3, 2, 0).tensor("a", 0, 0, 9).tensor("b", 8, 64, 32, 2).data(256))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := open(data)
		if err != nil {
			var format *FormatError
			if !errors.As(err, &format) || format.Field == "" {
				t.Fatalf("%v is no format error", err)
			}
			return
		}
		for _, p := range file.Meta.Pairs() {
			file.Meta.Strings(p.Key)
			file.Meta.Ints(p.Key)
			file.Meta.Floats(p.Key)
		}
		if err := file.Meta.Err(); err != nil {
			t.Fatal(err)
		}
		end := int64(0)
		for _, x := range file.Tensors {
			size, err := x.Type.RowSize(x.Cols)
			if err != nil || size*int64(x.Rows) != x.Size || x.Off < end || x.Off+x.Size > file.Size {
				t.Fatalf("tensor %+v in %d bytes: %v", x, file.Size, err)
			}
			end = x.Off + x.Size
		}
	})
}

// The engine's memory never shrinks, so a vocabulary must not cost more than its text and its index.
func TestVocabularyIsThrifty(t *testing.T) {
	const n = 49_152
	b := header(3, 0, 1).put("tokens", uint32(9), uint32(8), uint64(n))
	for range n {
		b.put("a token")
	}
	data := b.data(0)
	spent := func(f func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	var f *File
	if used := spent(func() { f, _ = open(data) }); f == nil || used > 128<<10 {
		t.Errorf("opening allocates %d bytes", used)
	}
	var list []string
	used := spent(func() { list, _ = f.Meta.Strings("tokens") })
	if len(list) != n || list[n-1] != "a token" || used > n*(7+16+8)+128<<10 {
		t.Errorf("%d tokens allocate %d bytes", len(list), used)
	}
}

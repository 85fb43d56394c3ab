//go:build !js

package weights

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"kvlens/wasm/quant"
	"kvlens/web/lab/golden"
)

func smolLM2(t *testing.T) (*golden.GGUF, *File) {
	t.Helper()
	want := golden.SmolLM2File(t)
	f, err := OpenPath(golden.SmolLM2(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return want, f
}

func checksum(t *testing.T, f *File, off, size int64) uint32 {
	t.Helper()
	h := crc32.NewIEEE()
	if _, err := io.Copy(h, io.NewSectionReader(f, off, size)); err != nil {
		t.Fatal(err)
	}
	return h.Sum32()
}

func TestGoldenGGUF(t *testing.T) {
	want, f := smolLM2(t)
	cases := golden.Count(t)
	if f.Size != want.Size || f.Version != want.Version || checksum(t, f, 0, f.Size) != want.CRC32 {
		t.Errorf("size %d, version %d, CRC-32 %d", f.Size, f.Version, checksum(t, f, 0, f.Size))
	}
	cases.Case(3)
	pairs := f.Meta.Pairs()
	if len(pairs) != len(want.KV) || len(f.Tensors) != len(want.Tensors) {
		t.Fatalf("%d pairs and %d tensors, want %d and %d", len(pairs), len(f.Tensors), len(want.KV), len(want.Tensors))
	}
	for i, w := range want.KV {
		cases.Case(1)
		if pairs[i].Key != w.Key {
			t.Fatalf("pair %d is %q, want %q", i, pairs[i].Key, w.Key)
		}
		comparePair(t, f.Meta, pairs[i], &w)
	}
	for i, w := range want.Tensors {
		cases.Case(1)
		x := f.Tensors[i]
		dims := []int64{int64(x.Cols), int64(x.Rows)}[:len(w.Dims)] // a vector has one row
		if x.Name != w.Name || x.Type.String() != w.Type || x.Size != w.Bytes || x.Off != w.Offset || !slices.Equal(dims, w.Dims) {
			t.Errorf("tensor %+v, want %+v", x, w)
		}
		if got := checksum(t, f, x.Off, x.Size); got != w.CRC32 {
			t.Errorf("%s: CRC-32 %d, want %d", x.Name, got, w.CRC32)
		}
	}
}

var goldenTypes = map[string]ValueType{
	"UINT32": typeU32, "INT32": typeI32, "FLOAT32": typeF32, "BOOL": typeBool, "STRING": typeString, "ARRAY": typeArray,
	"UINT8": typeU8, "INT8": typeI8, "UINT16": typeU16, "INT16": typeI16, "UINT64": typeU64, "INT64": typeI64, "FLOAT64": typeF64,
}

func comparePair(t *testing.T, m *Meta, got Pair, want *golden.GGUFKey) {
	if got.Type != goldenTypes[want.Types[0]] {
		t.Errorf("%s is %v, want %v", got.Key, got.Type, want.Types)
		return
	}
	if got.Type == typeArray {
		if got.Elem != goldenTypes[want.Types[1]] || got.Len != want.Len {
			t.Errorf("%s is %d of %v, want %d of %v", got.Key, got.Len, got.Elem, want.Len, want.Types)
			return
		}
		compareArray(t, items(t, m, got), want)
		return
	}
	var v any
	switch got.Type {
	case typeString:
		v, _ = m.String(got.Key)
	case typeBool:
		v, _ = m.Bool(got.Key)
	case typeF32, typeF64:
		x, _ := m.Float(got.Key)
		var w float64
		if err := json.Unmarshal(want.Value, &w); err != nil || math.Abs(x-w) > 1e-6*math.Abs(w) {
			t.Errorf("%s = %v, want %s", got.Key, x, want.Value)
		}
		return
	default:
		v, _ = m.Int(got.Key)
	}
	if text := jsonText(t, want.Value); fmt.Sprint(v) != text {
		t.Errorf("%s = %v, want %s", got.Key, v, text)
	}
}

// items renders an array's elements as the vectors' newline-joined text has them.
func items(t *testing.T, m *Meta, p Pair) []string {
	if list, ok := m.Strings(p.Key); ok {
		return list
	}
	list, ok := m.Ints(p.Key)
	if !ok {
		t.Fatalf("%s: neither strings nor integers: %v", p.Key, m.Err())
	}
	out := make([]string, len(list))
	for i, n := range list {
		out[i] = fmt.Sprint(n)
	}
	return out
}

func compareArray(t *testing.T, got []string, want *golden.GGUFKey) {
	if len(want.Value) > 0 {
		var list []json.RawMessage
		if err := json.Unmarshal(want.Value, &list); err != nil {
			t.Fatal(err)
		}
		compareItems(t, want.Key, got, list)
		return
	}
	compareItems(t, want.Key+" first", got[:8], want.First8)
	compareItems(t, want.Key+" last", got[len(got)-8:], want.Last8)
	if sum := crc32.ChecksumIEEE([]byte(strings.Join(got, "\n"))); sum != want.CRC32 {
		t.Errorf("%s: CRC-32 %d, want %d", want.Key, sum, want.CRC32)
	}
}

func compareItems(t *testing.T, what string, got []string, want []json.RawMessage) {
	if len(got) != len(want) {
		t.Errorf("%s: %d items, want %d", what, len(got), len(want))
		return
	}
	for i, w := range want {
		if text := jsonText(t, w); got[i] != text {
			t.Errorf("%s[%d] = %q, want %q", what, i, got[i], text)
		}
	}
}

func jsonText(t *testing.T, raw json.RawMessage) string {
	var s string
	if bytes.HasPrefix(raw, []byte(`"`)) {
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	return string(raw)
}

// The rows are compared with the reference's numbers, and the packed rows with our closed form, exactly.
func TestGoldenDequant(t *testing.T) {
	want, f := smolLM2(t)
	cases := golden.Count(t)
	for _, sample := range want.Samples {
		cases.Case(1)
		x, ok := f.Tensor(sample.Name)
		if !ok || x.Type.String() != sample.Type || [2]int{x.Rows, x.Cols} != sample.Shape {
			t.Errorf("%s: %+v", sample.Name, x)
			continue
		}
		data := make([]byte, x.Size)
		if _, err := f.ReadAt(data, x.Off); err != nil {
			t.Fatal(err)
		}
		m := repack(t, x, data)
		size, _ := x.Type.RowSize(x.Cols)
		y, packed := make([]float32, x.Cols), make([]float32, x.Cols)
		for _, r := range sample.Rows {
			raw := data[int64(r.Row)*size:][:size]
			if block := hex.EncodeToString(raw[:len(r.RawBlock)/2]); block != r.RawBlock {
				t.Errorf("%s row %d: first block %s, want %s", x.Name, r.Row, block, r.RawBlock)
			}
			if err := quant.Dequantize(x.Type, y, raw); err != nil {
				t.Fatal(err)
			}
			what := fmt.Sprintf("%s row %d", x.Name, r.Row)
			golden.Close(t, what, y[:32], r.First32, 0, 1e-6)
			golden.Close(t, what+" end", y[x.Cols-4:], r.Last4, 0, 1e-6)
			var sum, abs, square float64
			for _, v := range y {
				sum += float64(v)
				abs += math.Abs(float64(v))
				square += float64(v) * float64(v)
			}
			golden.Close(t, what+" sum", []float64{sum}, []float64{r.Sum}, 1e-6*abs, 1e-6)
			golden.Close(t, what+" L2", []float64{math.Sqrt(square)}, []float64{r.L2}, 0, 1e-6)
		}
		var sum, abs, largest float64
		for row := range x.Rows {
			if err := quant.Dequantize(x.Type, y, data[int64(row)*size:][:size]); err != nil {
				t.Fatal(err)
			}
			quant.DequantizeRow(packed, m, row)
			for i, v := range y {
				if v != packed[i] {
					t.Fatalf("%s [%d][%d]: packed %v, want %v", x.Name, row, i, packed[i], v)
				}
				sum += float64(v)
				abs += math.Abs(float64(v))
				largest = max(largest, math.Abs(float64(v)))
			}
		}
		golden.Close(t, x.Name+" sum", []float64{sum}, []float64{sample.Sum}, 1e-6*abs, 1e-6)
		golden.Close(t, x.Name+" largest", []float64{largest}, []float64{sample.AbsMax}, 0, 1e-6)
	}
}

func repack(t *testing.T, x Tensor, data []byte) quant.Matrix {
	t.Helper()
	l, err := quant.LayoutOf(x.Type)
	if err != nil {
		t.Fatal(err)
	}
	m := quant.Matrix{Layout: l, Rows: x.Rows, Cols: x.Cols, Data: make([]byte, l.Size(x.Rows, x.Cols))}
	scales, _ := l.Planes(x.Rows, x.Cols)
	if err := quant.Repack(x.Type, data, x.Cols, m.Data[:x.Rows*l.CodeBytes(x.Cols)], m.Data[scales:]); err != nil {
		t.Fatal(err)
	}
	return m
}

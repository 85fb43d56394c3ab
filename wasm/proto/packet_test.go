package proto

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// fill gives every field of a message another value, so that a field that the codec forgets shows.
func fill(v reflect.Value, n *uint64) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d 你", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	case reflect.Uint64:
		v.SetUint(*n<<32 | *n)
	default:
		v.SetUint(*n)
	}
}

// samples holds one full message of each kind, by type name.
func samples() map[string]Message {
	all := map[string]Message{}
	for kind := range codecs {
		typ := reflect.TypeOf(codecs[kind].get(&wire{reading: true}))
		v := reflect.New(typ).Elem()
		n := uint64(0)
		fill(v, &n)
		all[typ.Name()] = v.Interface().(Message)
	}
	return all
}

func packetOf(k Kind) []byte { return []byte{byte(k), 0, 0, 0, 0, 0, 0, 0} }

func TestEveryFieldTravels(t *testing.T) {
	for name, want := range samples() {
		id, got, err := Decode(Encode(0x01020304, want))
		if err != nil || id != 0x01020304 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got id %x, %+v, %v\nwant %+v", name, id, got, err, want)
		}
	}
}

// TestLongColumns: a list may fill its packet to the end but for what must follow it.
func TestLongColumns(t *testing.T) {
	const n = 1000
	for _, want := range []Message{
		DeleteModel{Manifest: strings.Repeat("x", n)},
		ListModels{Manifests: make([]string, n)},
		Step{Rows: make([]uint8, n)},
		Step{TopIDs: make([]uint32, n)},
		Step{Gold: make([]float32, n)},
		State{Ledger: make([]LedgerRow, n)},
		Models{Stored: make([]uint64, n)},
	} {
		if _, got, err := Decode(Encode(1, want)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%T: %v", want, err)
		}
	}
}

// TestLayout fixes the layout by hand: kind, id, then the fields in order, little-endian, lists with their count first.
func TestLayout(t *testing.T) {
	got := Encode(9, Failure{Code: CodeTooLong, Op: "a", Msg: "é", Args: []string{"7", ""}})
	want := []byte{
		71, 0, 0, 0, 9, 0, 0, 0,
		7, 0,
		1, 0, 0, 0, 'a',
		2, 0, 0, 0, 0xC3, 0xA9,
		2, 0, 0, 0, 1, 0, 0, 0, '7', 0, 0, 0, 0,
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got % x\nwant % x", got, want)
	}
}

// TestGoldenPackets compares the packet of every kind with its file, so that a change of the protocol is seen and its
// Version raised. UPDATE=1 writes the files anew.
func TestGoldenPackets(t *testing.T) {
	dir := filepath.Join("testdata", "packets")
	known := map[string]bool{}
	for name, m := range samples() {
		file := filepath.Join(dir, name+".hex")
		known[file] = true
		got := lines(Encode(1, m))
		if os.Getenv("UPDATE") != "" {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("%v (UPDATE=1 writes it)", err)
		} else if got != string(want) {
			t.Errorf("%s: the packet has changed: raise Version and run with UPDATE=1\ngot\n%swant\n%s", name, got, want)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !known[f] {
			t.Errorf("%s belongs to no message", f)
		}
	}
}

// lines is hexadecimal with 32 bytes a line.
func lines(p []byte) string {
	var b strings.Builder
	for len(p) > 0 {
		n := min(32, len(p))
		b.WriteString(hex.EncodeToString(p[:n]) + "\n")
		p = p[n:]
	}
	return b.String()
}

func TestBrokenPackets(t *testing.T) {
	generate := Encode(5, Generate{Text: "t", Forced: []uint32{1, 2}})
	huge := Encode(5, ListModels{})
	copy(huge[headerSize:], []byte{0xFF, 0xFF, 0xFF, 0xFF})
	big := Encode(5, Step{})
	copy(big[headerSize+14:], []byte{0xFF, 0xFF, 0xFF, 0x7F}) // length of Text
	truth := Encode(5, SetMemory{})
	truth[len(truth)-1] = 2
	cases := map[string][]byte{
		"nothing":           nil,
		"half a header":     {18, 0, 0, 0, 1},
		"unknown kind":      packetOf(2),
		"kind 0":            packetOf(0),
		"surplus":           append(Encode(5, Ping{}), 0),
		"4 billion texts":   huge,
		"text of 2 GiB":     big,
		"truth value of 2":  truth,
		"announced, absent": generate[:len(generate)-8],
	}
	for n := headerSize; n < len(generate); n++ {
		cases[fmt.Sprintf("cut at %d", n)] = generate[:n]
	}
	for name, p := range cases {
		id, m, err := Decode(p)
		var pe *PacketError
		if !errors.As(err, &pe) || m != nil {
			t.Errorf("%s: got %+v, %v, want a PacketError", name, m, err)
		}
		if len(p) >= headerSize && id != uint32(p[4]) {
			t.Errorf("%s: id %d is lost", name, id)
		}
	}
}

// FuzzDecode: no packet panics or allocates more than a small multiple of its size, and a packet that is read is the one
// way to write its message.
func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		f.Add(Encode(3, m))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		id, m, err := Decode(p)
		if err != nil {
			var pe *PacketError
			if !errors.As(err, &pe) {
				t.Fatalf("error %v is no PacketError", err)
			}
			return
		}
		if again := Encode(id, m); !bytes.Equal(again, p) {
			t.Fatalf("read % x as %+v, which is written % x", p, m, again)
		}
	})
}

package golden

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestAccessors: every field that a type names is filled from the files, so no name is misspelt.
func TestAccessors(t *testing.T) {
	teach, sum := Teach(t)
	seen := map[string]bool{}
	for name, v := range map[string]any{
		"tokenizer": Tokenizer(t), "chat": Chat(t), "model": SmolLM2Model(t), "nll": SmolLM2NLL(t),
		"attention": SmolLM2Attention(t), "gguf": SmolLM2File(t), "teach": teach, "sha256": sum, "tiny": Tiny(t),
	} {
		filled(seen, name, reflect.ValueOf(v))
	}
	delete(seen, "tokenizer.Decoded") // only for texts that do not come back
	delete(seen, "teach.BOS")         // is token 0
	for path, ok := range seen {
		if !ok {
			t.Errorf("%s is nowhere filled", path)
		}
	}
}

// filled notes for each path of fields whether some value there is not zero.
func filled(seen map[string]bool, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			filled(seen, path, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			at := path + "." + v.Type().Field(i).Name
			seen[at] = seen[at] || !v.Field(i).IsZero()
			filled(seen, at, v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			filled(seen, path, v.Index(i))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			filled(seen, path, v.MapIndex(k))
		}
	default:
		seen[path] = seen[path] || !v.IsZero()
	}
}

// witness is a test that notes what it is told instead of failing.
type witness struct {
	testing.TB
	said []string
}

func (w *witness) Helper()                   {}
func (w *witness) Name() string              { return "witness" }
func (w *witness) Errorf(f string, a ...any) { w.said = append(w.said, fmt.Sprintf(f, a...)) }
func (w *witness) Skip(a ...any)             { panic("skip: " + fmt.Sprint(a...)) }
func (w *witness) Fatalf(f string, a ...any) { panic("fatal: " + fmt.Sprintf(f, a...)) }
func (w *witness) ends(do func()) (how string) {
	defer func() { how = fmt.Sprint(recover()) }()
	do()
	return
}

// TestOtherFolder: another folder is read instead, and finding nothing in it is a failure.
func TestOtherFolder(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KVLENS_GOLDEN", dir)
	w := &witness{TB: t}
	read := func() { Tokenizer(w) }
	if how := w.ends(read); !strings.HasPrefix(how, "fatal") {
		t.Errorf("no file: %s", how)
	}
	for content, want := range map[string]string{
		`{"cases":[]}`: "fatal: golden: tokenizer_cases.json: no vectors", `{`: "fatal", `{"cases":[{"text":"a","ids":[7]}]}`: "<nil>",
	} {
		if err := os.WriteFile(filepath.Join(dir, "tokenizer_cases.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if how := w.ends(read); !strings.HasPrefix(how, want) {
			t.Errorf("%s: %s, want %s", content, how, want)
		}
	}
}

func TestSkip(t *testing.T) {
	t.Setenv("KVLENS_SMOLLM2", filepath.Join(t.TempDir(), "absent"))
	var said bytes.Buffer
	defer func(w io.Writer) { out = w }(out)
	out = &said
	w := &witness{TB: t}
	for ci, want := range map[string]string{"": "skip", "true": "fatal"} {
		t.Setenv("CI", ci)
		if how := w.ends(func() { SmolLM2(w) }); !strings.HasPrefix(how, want) {
			t.Errorf("CI=%q: %s, want %s", ci, how, want)
		}
	}
	if n := strings.Count(said.String(), "SKIPPED witness: SmolLM2"); n != 2 {
		t.Errorf("printed %q", said.String())
	}
}

func TestClose(t *testing.T) {
	twenty := make([]float32, 20)
	for _, tt := range []struct {
		name      string
		got, want []float32
		said      int
	}{
		{"within", []float32{1.001, 100.09}, []float32{1, 100}, 0}, // 0.001 + 0.001·|want|
		{"beyond", []float32{1.003, 100.2, 5}, []float32{1, 100, 5}, 2},
		{"NaN", []float32{float32(math.NaN())}, []float32{0}, 1},
		{"lengths", []float32{1}, nil, 1},
		{"the first ten and a sum", twenty, append(make([]float32, 3), 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), 11},
	} {
		w := &witness{TB: t}
		Close(w, tt.name, tt.got, tt.want, 0.001, 0.001)
		if len(w.said) != tt.said {
			t.Errorf("%s: said %q, want %d lines", tt.name, w.said, tt.said)
		}
	}
}

func TestGreedy(t *testing.T) {
	want, margin := []int32{4, 5, 6}, []float64{1, 0.5, 1e-4}
	for _, tt := range []struct {
		got        []int32
		said, ties int
	}{
		{[]int32{4, 5, 6}, 0, 1},
		{[]int32{4, 5, 7, 8}, 0, 1}, // open from the third on
		{[]int32{4, 7, 6}, 1, 0},
		{[]int32{4}, 1, 0},
	} {
		w, c := &witness{TB: t}, new(Counter)
		Greedy(w, c, "x", tt.got, want, margin, 1e-3)
		if len(w.said) != tt.said || c.ties != tt.ties || c.cases != 1 {
			t.Errorf("%v: said %q, %d ties, %d cases", tt.got, w.said, c.ties, c.cases)
		}
	}
}

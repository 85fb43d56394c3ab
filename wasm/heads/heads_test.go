package heads

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"kvlens/cache/policy"
	"kvlens/wasm/weights"
	"kvlens/web/lab/golden"
)

// The models that have tables: their manifests, where they are here, and their shapes.
var shipped = []struct {
	file, manifest, sha string
	shape               policy.Shape
}{
	{"teach.json", "web/static/models/teach.json", "", policy.Shape{Layers: 4, Heads: 6, KVHeads: 2, HeadDim: 32}},
}

// Every shipped file is found by its model's hash and fits the model; it was measured on enough answers, and its numbers
// are shares of attention.
func TestShipped(t *testing.T) {
	found := map[string]bool{}
	for _, s := range shipped {
		sha := s.sha
		if s.manifest != "" {
			data, err := os.ReadFile(filepath.Join(golden.Root(t), filepath.FromSlash(s.manifest)))
			if err != nil {
				t.Fatal(err)
			}
			m, err := weights.ReadManifest(data)
			if err != nil {
				t.Fatal(err)
			}
			sha = m.SHA256
		}
		tables, err := For(sha)
		if err != nil {
			t.Errorf("%s: %v (a new model needs new tables: lab calibrate)", s.file, err)
			continue
		}
		found[s.file] = true
		if err := tables.Check(s.shape, sha); err != nil {
			t.Errorf("%s: %v", s.file, err)
		}
		if tables.Samples < 10 || tables.Samples > tables.Tried || len(tables.Data) != 64 || !strings.HasSuffix(tables.Method, ".") {
			t.Errorf("%s: %d of %d samples, data %q, method %q", s.file, tables.Samples, tables.Tried, tables.Data, tables.Method)
		}
		for name, table := range map[string][][]float32{
			"induction": tables.Induction, "echo": tables.Echo, "sink": tables.Sink, "local": tables.Local, "retrieval": tables.Retrieval,
		} {
			for l, row := range table {
				for h, x := range row {
					if x > 1 {
						t.Errorf("%s: %s of %d.%d is %v, more than all attention", s.file, name, l, h, x)
					}
				}
			}
		}
	}
	entries, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !found[e.Name()] {
			t.Errorf("%s is the file of no known model", e.Name())
		}
	}
}

// The decoder of this platform reads what encoding/json reads.
func TestDecode(t *testing.T) {
	entries, err := files.ReadDir(".")
	if err != nil || len(entries) == 0 {
		t.Fatal(len(entries), err)
	}
	for _, e := range entries {
		data, err := files.ReadFile(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		got, want := new(policy.Tables), new(policy.Tables)
		if err := decode(data, got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", e.Name(), got, want)
		}
	}
	for _, broken := range []string{"", "{", `{"model": 7, "retrieval": 5}`, `{"retrieval": [["a"]]}`} {
		if decode([]byte(broken), new(policy.Tables)) == nil {
			t.Errorf("%q is no error", broken)
		}
	}
}

func TestUnknown(t *testing.T) {
	for _, sha := range []string{"", "model", strings.Repeat("0", 64)} {
		if tables, err := For(sha); tables != nil || !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v, %v", sha, tables, err)
		}
	}
}

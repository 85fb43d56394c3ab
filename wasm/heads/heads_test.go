package heads

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
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
	{"teach.json", "web/static/models/teach.json", "", policy.Shape{Layers: 5, Heads: 6, KVHeads: 2, HeadDim: 32}},
	// From the card of SmolLM2-135M; the hash is that of the file that `make model` fetches.
	{
		"smollm2-135m-instruct.json", "", "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
		policy.Shape{Layers: 30, Heads: 9, KVHeads: 3, HeadDim: 64},
	},
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
	present, err := filepath.Glob("*.json")
	if err != nil || len(present) != len(files) {
		t.Errorf("%d files, %d in the program: %v", len(present), len(files), err)
	}
	for name := range files {
		if !found[name] {
			t.Errorf("%s is the file of no known model", name)
		}
	}
}

// The decoder of this platform reads what encoding/json reads.
func TestDecode(t *testing.T) {
	for name, text := range files {
		data := []byte(text)
		got, want := new(policy.Tables), new(policy.Tables)
		if err := decode(data, got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
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

// SmolLM2's heads were measured elsewhere too, with another needle, other prose and other random tokens. The heads that
// stand out are the same ones.
func TestAgainstOthers(t *testing.T) {
	tables, err := For(shipped[1].sha)
	if err != nil {
		t.Fatal(err)
	}
	b := golden.ReadBehaviour(t)
	for _, c := range []struct {
		name string
		got  [][]float32
		want [][]float64
		top  int // heads that stand out there
		same int // of them, at least as many are among as many of ours
	}{
		{"semantic", tables.Semantic, b.Needle, 15, 10},
		{"retrieval", tables.Retrieval, b.Needle, 15, 5}, // top hits there, attention here
		{"induction", tables.Induction, b.Induction, 15, 13},
		{"echo", tables.Echo, b.Echo, 3, 3},
		{"sink", tables.Sink, b.Sink, 15, 10},
	} {
		got, want := slices.Concat(c.got...), slices.Concat(c.want...)
		x, y := order(got), order(want)
		same := 0
		for _, h := range y[:c.top] {
			if slices.Contains(x[:c.top], h) {
				same++
			}
		}
		t.Logf("%s: %d of the first %d are the same, rank correlation %.3f", c.name, same, c.top, correlation(x, y))
		if same < c.same {
			t.Errorf("%s: only %d of the first %d heads are the same", c.name, same, c.top)
		}
	}
}

// order is indices by descending score.
func order[T float32 | float64](scores []T) []int {
	at := make([]int, len(scores))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return at
}

// correlation is Spearman's, of two orders.
func correlation(x, y []int) float64 {
	rank := make([]int, len(x))
	for r, i := range x {
		rank[i] = r
	}
	sum, n := 0.0, float64(len(x))
	for r, i := range y {
		d := float64(r - rank[i])
		sum += d * d
	}
	return 1 - 6*sum/(n*(n*n-1))
}

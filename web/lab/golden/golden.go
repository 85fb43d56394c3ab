// Package golden reads the oracle vectors: numbers that reference implementations which are not ours produced, in
// web/lab/testdata/golden (README.md there says what and how to compare). It is for tests only, and the only package
// that opens those files. Claims says which test compares which of them.
//
// KVLENS_GOLDEN names another folder of the same layout to read instead.
package golden

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

const folder = "web/lab/testdata/golden"

// Dir is the folder of the vectors.
func Dir(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("KVLENS_GOLDEN"); dir != "" {
		return dir
	}
	return filepath.Join(Root(t), filepath.FromSlash(folder))
}

// Root is the top of the source tree: the nearest folder above the test's that holds the vectors.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("golden: working folder: %v", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(folder))); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatalf("golden: no %s above the test; KVLENS_GOLDEN can name the folder", folder)
		}
		dir = up
	}
}

// load reads one file; n says how many vectors it holds, and none is a failure.
func load[T any](t testing.TB, file string, n func(*T) int) *T {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(Dir(t), file))
	if err != nil {
		t.Fatalf("golden: %v", err)
	}
	v := new(T)
	if err := json.Unmarshal(raw, v); err != nil {
		t.Fatalf("golden: %s: %v", file, err)
	}
	if n(v) == 0 {
		t.Fatalf("golden: %s: no vectors", file)
	}
	return v
}

// TinyModel is the path of the policy vectors' model.
func TinyModel(t testing.TB) string {
	t.Helper()
	return filepath.Join(Dir(t), "tiny.gguf")
}

// TeachModel is the path of the built-in model.
func TeachModel(t testing.TB) string {
	t.Helper()
	return filepath.Join(Root(t), "web", "static", "models", "teach-q8_0.gguf")
}

// SmolLM2 is the path of SmolLM2-135M-Instruct: a manifest or a GGUF file. Where it is absent the test is skipped,
// except under CI, where it fails.
func SmolLM2(t testing.TB) string {
	t.Helper()
	path := os.Getenv("KVLENS_SMOLLM2")
	if path == "" {
		path = filepath.Join(Root(t), "web", "models", "smollm2-135m-instruct", "manifest.json")
	}
	if _, err := os.Stat(path); err != nil {
		Skip(t, "SmolLM2 is not here ("+err.Error()+"); `make model` gets it, KVLENS_SMOLLM2 can name it")
	}
	return path
}

//go:build !js

package weights

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
)

func TestBuiltInManifest(t *testing.T) {
	const dir = "../../web/static/models/"
	f, err := OpenPath(dir + "teach.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := os.ReadFile(dir + "teach.json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := ReadManifest(text)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(dir + m.Parts[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	if got := sum(data); got != m.SHA256 {
		t.Errorf("sha256 %s, the manifest says %s", got, m.SHA256)
	}
}

func TestOpenPathJoinsParts(t *testing.T) {
	dir := t.TempDir()
	data := allKinds()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	m := manifest(data, 100)
	for i, p := range m.Parts {
		write(p.Name, data[100*i:][:p.Size])
	}
	for _, path := range []string{write("whole.gguf", data), write("manifest.json", encode(m))} {
		f, err := OpenPath(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := iotest.TestReader(io.NewSectionReader(f, 0, f.Size), data); err != nil || len(f.Tensors) != 3 {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := f.ReadAt(make([]byte, 1), -1); err == nil {
			t.Error("read before the start")
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	write(m.Parts[1].Name, data[:99])
	for _, path := range []string{
		filepath.Join(dir, "manifest.json"), // a part of the wrong size
		filepath.Join(dir, "missing.gguf"), filepath.Join(dir, "missing.json"),
		write("bad.json", []byte("{}")), write("bad.gguf", []byte("GGUF")),
	} {
		if _, err := OpenPath(path); err == nil {
			t.Errorf("%s opened", path)
		}
	}
}

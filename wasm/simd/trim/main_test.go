//go:build !js

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kvlens/web/lab/golden"
)

const committed = "../../../web/static/simd.wasm"

// The committed module has nothing of its own: no data, no globals, no table and no memory but Go's.
func TestSections(t *testing.T) {
	module, err := os.ReadFile(committed)
	if err != nil {
		t.Fatal(err)
	}
	list, err := sections(module)
	if err != nil {
		t.Fatal(err)
	}
	var ids []byte
	for _, s := range list {
		ids = append(ids, s.id)
		if s.id == importSection && (!bytes.Contains(s.bytes, []byte("\x03env\x06memory\x02")) || s.bytes[2] != 1) {
			t.Errorf("imports are not env.memory alone: %q", s.bytes)
		}
	}
	if want := []byte{typeSection, importSection, functionSection, exportSection, codeSection}; !slices.Equal(ids, want) {
		t.Errorf("sections %v, want %v", ids, want)
	}
}

// The committed module is what the recorded compiler makes of the committed sources.
func TestRebuild(t *testing.T) {
	recorded, err := os.ReadFile("../clang.version")
	if err != nil {
		t.Fatal(err)
	}
	clang := os.Getenv("CLANG")
	if clang == "" {
		clang = "clang"
	}
	out, err := exec.Command(clang, "--version").Output()
	if err != nil {
		golden.Skip(t, "no clang: "+err.Error())
	}
	if _, err := exec.LookPath("wasm-ld"); err != nil {
		golden.Skip(t, "no linker: "+err.Error())
	}
	version, _, _ := strings.Cut(string(out), "\n")
	if version != strings.TrimSpace(string(recorded)) {
		t.Skipf("SKIPPED: clang is %q, the module was made by %q", version, strings.TrimSpace(string(recorded)))
	}
	fresh := filepath.Join(t.TempDir(), "simd.wasm")
	if out, err := exec.Command("../build.sh", fresh).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	want, err := os.ReadFile(committed)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(fresh)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("a rebuild gives %d other bytes than the committed %d: run wasm/simd/build.sh", len(got), len(want))
	}
}

func TestTrim(t *testing.T) {
	module := header + "\x01\x01\x00" + "\x04\x04\x01\x70\x00\x01" + "\x06\x01\x00" + "\x0a\x01\x00" + "\x00\x02\x01x"
	got, err := trim([]byte(module))
	if want := header + "\x01\x01\x00" + "\x0a\x01\x00"; err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"", "\x00asm\x02\x00\x00\x00", header + "\x01", header + "\x01\x05\x00"} {
		if _, err := trim([]byte(bad)); err == nil {
			t.Errorf("%q passed", bad)
		}
	}
}

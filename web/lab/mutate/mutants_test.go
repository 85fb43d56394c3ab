package main

import (
	"strings"
	"testing"

	"kvlens/shaders"
)

// Mutants change one token outside of comments, declarations of bindings and types.
func TestMutants(t *testing.T) {
	text := "// a + b\n@group(0) @binding(3) var<storage, read> x1: array<u32, 4>;\nfn f(a: u32) -> u32 {\n  return a * 2u + 0x10u;\n}\n"
	var got []string
	for _, m := range mutants("f.wgsl", text) {
		changed := string(m.apply([]byte(text)))
		if !strings.HasPrefix(changed, text[:m.at]) || !strings.HasSuffix(changed, text[m.at+len(m.from):]) {
			t.Errorf("%s changes more than its token", m.key())
		}
		got = append(got, m.key())
	}
	want := []string{
		"f.wgsl:4 return → return -", "f.wgsl:4 * → +", "f.wgsl:4 2u → 3u", "f.wgsl:4 + → -", "f.wgsl:4 0x10u → 17u",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Every kernel has enough to change, each change is tried once, and what is called equivalent exists.
func TestOrder(t *testing.T) {
	known := map[string]bool{}
	for _, name := range shaders.Names() {
		text, err := shaders.Text(name)
		if err != nil {
			t.Fatal(err)
		}
		all := mutants(name, string(text))
		seen := map[int]bool{}
		for _, m := range order(all) {
			seen[m.at] = true
			known[m.key()] = true
		}
		kernel := !strings.HasPrefix(name, "lib/")
		if kernel && len(all) < 3 || len(seen) != len(all) || len(order(all)) != len(all) {
			t.Errorf("%s: %d mutants, %d in order", name, len(all), len(seen))
		}
	}
	for key := range equivalents {
		if !known[key] {
			t.Errorf("%s is listed as equivalent, but is no mutant", key)
		}
	}
}

package shaders

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every file is part of some variant; every variant says which buffers it binds, at most eight of them storage, which is
// what the specification promises.
func TestVariants(t *testing.T) {
	used := map[string]bool{}
	read := func(name string) ([]byte, error) {
		used[name] = true
		return Text(name)
	}
	for _, k := range append(FastKernels(), Kernels...) {
		for _, v := range k.Variants() {
			s, err := Assemble(v, read)
			if err != nil {
				t.Fatal(err)
			}
			storage := 0
			for i, b := range s.Bindings {
				if (b.Access == Uniform) != (b.Name == "p") {
					t.Errorf("%s: binding %d is %s", v.Label(), i, b.Name)
				}
				if b.Access != Uniform {
					storage++
				}
			}
			if storage > 8 {
				t.Errorf("%s binds %d storage buffers", v.Label(), storage)
			}
			if n := strings.Count(s.Code, "@compute"); n != 1 || !strings.Contains(s.Code, "fn "+Entry+"(") {
				t.Errorf("%s has %d entry points", v.Label(), n)
			}
		}
	}
	for _, name := range append(FastNames(), Names()...) {
		if !used[name] {
			t.Errorf("%s is in no variant", name)
		}
	}
}

// The sources stay within what the oldest implementation accepts.
func TestBaseline(t *testing.T) {
	tooNew := regexp.MustCompile(`\b(override|enable|requires|diagnostic|const_assert|subgroup\w*|dot4\w+|unpack4x\w+|pack4x\w+|quantizeToF16)\b`)
	comment := regexp.MustCompile(`//[^\n]*`)
	for _, name := range Names() {
		text, err := Text(name)
		if err != nil {
			t.Fatal(err)
		}
		if found := tooNew.Find(comment.ReplaceAll(text, nil)); found != nil {
			t.Errorf("%s uses %s", name, found)
		}
		if !strings.HasPrefix(string(text), "//") && name != "lib/silu.wgsl" {
			t.Errorf("%s has no header", name)
		}
	}
}

func TestAssemble(t *testing.T) {
	files := map[string]string{
		"k.wgsl":     "//!include lib/a.wgsl\n//!include lib/{which}.wgsl\nconst N: u32 = 1u;\n@group(0) @binding(7) var<storage, read> last: array<u32>;\n",
		"lib/a.wgsl": "enable x;\n@group(0) @binding(0) var<uniform> p: Params;\n",
		"lib/b.wgsl": "//!include lib/a.wgsl\n@group(0) @binding(3) var<storage, read_write> middle: array<u32>;\n",
	}
	read := func(name string) ([]byte, error) { return []byte(files[name]), nil }
	v := Variant{Kernel: "k", Includes: map[string]string{"which": "b"}, Consts: map[string]string{"N": "8u"}}
	s, err := Assemble(v, read)
	if err != nil {
		t.Fatal(err)
	}
	want := "enable x;\n@group(0) @binding(0) var<uniform> p: Params;\n@group(0) @binding(1) var<storage, read_write> middle: array<u32>;\n" +
		"const N: u32 = 8u;\n@group(0) @binding(2) var<storage, read> last: array<u32>;\n"
	if s.Code != want {
		t.Errorf("got\n%swant\n%s", s.Code, want)
	}
	if bindings := []Binding{{"p", Uniform}, {"middle", ReadWrite}, {"last", Read}}; !slices.Equal(s.Bindings, bindings) {
		t.Errorf("bindings %v, want %v", s.Bindings, bindings)
	}
	if v.Label() != "k which=b N=8u" {
		t.Errorf("label %q", v.Label())
	}
	for what, v := range map[string]Variant{
		"an unknown constant": {Kernel: "k", Includes: v.Includes, Consts: map[string]string{"M": "1u"}},
		"an unknown kernel":   {Kernel: "none"},
		"an unknown part":     {Kernel: "embed", Includes: map[string]string{"layout": "5"}},
	} {
		r := read
		if v.Kernel != "k" {
			r = nil
		}
		if _, err := Assemble(v, r); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// Package shaders holds the WGSL kernels, one a file, and puts their variants together.
//
// The sources stay within what every implementation accepts, the one that is bundled for native runs included: no
// override, no optional feature; those of folder fast excepted. Instead, a variant patches lines of the form
//
//	const NAME: u32 = …;
//
// and chooses included files: the line
//
//	//!include lib/weights_{layout}.wgsl
//
// stands for the file whose name the variant completes. A file is included once, however often it is named.
package shaders

import (
	"fmt"
	"sort"
	"strings"
)

// Access is how a kernel uses a binding.
type Access uint8

// The accesses, in the order of package gpu's.
const (
	Uniform Access = iota
	Read
	ReadWrite
)

// Binding is one variable of group 0.
type Binding struct {
	Name   string
	Access Access
}

// Variant is a kernel with its choices.
type Variant struct {
	Kernel   string            // file name without .wgsl
	Includes map[string]string // what stands in braces in names of included files
	Consts   map[string]string // new values of constants, in WGSL
}

// Source is the WGSL of a variant.
type Source struct {
	Code     string
	Bindings []Binding // by number
}

// Assemble makes the source of a variant. Its bindings keep the order of their numbers, and gaps close; directives of
// included files go first, where WGSL wants them. read gives the text of a file; nil reads what is embedded.
func Assemble(v Variant, read func(name string) ([]byte, error)) (Source, error) {
	if read == nil {
		read = Text
	}
	code, err := include(v, v.Kernel+".wgsl", map[string]bool{}, read)
	if err != nil {
		return Source{}, fmt.Errorf("shaders: %s: %w", v.Kernel, err)
	}
	code = hoist(code)
	code, left := patch(code, v.Consts)
	if left != 0 {
		return Source{}, fmt.Errorf("shaders: %s: constants %v are not all declared once", v.Kernel, v.Consts)
	}
	s := Source{}
	numbers := map[int]int{}
	var sorted []int
	declared := map[int]Binding{}
	for _, d := range declarations(code) {
		if _, twice := declared[d.number]; twice {
			return Source{}, fmt.Errorf("shaders: %s: binding %d is declared twice", v.Kernel, d.number)
		}
		declared[d.number] = d.Binding
		sorted = append(sorted, d.number)
	}
	sort.Slice(sorted, func(a, b int) bool { return sorted[a] < sorted[b] })
	for i, n := range sorted {
		numbers[n] = i
		s.Bindings = append(s.Bindings, declared[n])
	}
	s.Code = renumber(code, numbers)
	return s, nil
}

// include reads a file with everything that it includes.
func include(v Variant, name string, done map[string]bool, read func(string) ([]byte, error)) (string, error) {
	if done[name] {
		return "", nil
	}
	done[name] = true
	text, err := read(name)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		name, ok := strings.CutPrefix(line, includeMark)
		if !ok {
			b.WriteString(line)
			continue
		}
		name = strings.TrimSuffix(name, "\n")
		for hole, value := range v.Includes {
			name = strings.ReplaceAll(name, "{"+hole+"}", value)
		}
		part, err := include(v, name, done, read)
		if err != nil {
			return "", err
		}
		b.WriteString(part)
	}
	return b.String(), nil
}

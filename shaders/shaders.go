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
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed *.wgsl lib/*.wgsl fast/*.wgsl
var files embed.FS

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

var (
	includeLine = regexp.MustCompile(`(?m)^//!include (\S+)\n`)
	bindingDecl = regexp.MustCompile(`@group\(0\) @binding\((\d+)\) var<(uniform|storage, read|storage, read_write)> (\w+)`)
	directive   = regexp.MustCompile(`(?m)^(?:enable|requires) \w+;\n`)
	constDecl   = regexp.MustCompile(`(?m)^(const (\w+): \w+ = )[^;]+;`)
)

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
	directives := strings.Join(directive.FindAllString(code, -1), "")
	code = directives + directive.ReplaceAllString(code, "")
	left := len(v.Consts)
	code = constDecl.ReplaceAllStringFunc(code, func(line string) string {
		m := constDecl.FindStringSubmatch(line)
		value, ok := v.Consts[m[2]]
		if !ok {
			return line
		}
		left--
		return m[1] + value + ";"
	})
	if left != 0 {
		return Source{}, fmt.Errorf("shaders: %s: constants %v are not all declared once", v.Kernel, v.Consts)
	}
	s := Source{}
	numbers := map[int]int{}
	var sorted []int
	declared := map[int]Binding{}
	for _, m := range bindingDecl.FindAllStringSubmatch(code, -1) {
		n, _ := strconv.Atoi(m[1])
		if _, twice := declared[n]; twice {
			return Source{}, fmt.Errorf("shaders: %s: binding %d is declared twice", v.Kernel, n)
		}
		access := map[string]Access{"uniform": Uniform, "storage, read": Read, "storage, read_write": ReadWrite}[m[2]]
		declared[n] = Binding{m[3], access}
		sorted = append(sorted, n)
	}
	slices.Sort(sorted)
	for i, n := range sorted {
		numbers[n] = i
		s.Bindings = append(s.Bindings, declared[n])
	}
	s.Code = bindingDecl.ReplaceAllStringFunc(code, func(decl string) string {
		m := bindingDecl.FindStringSubmatch(decl)
		n, _ := strconv.Atoi(m[1])
		return fmt.Sprintf("@group(0) @binding(%d) var<%s> %s", numbers[n], m[2], m[3])
	})
	return s, nil
}

// Text gives the text of an embedded file.
func Text(name string) ([]byte, error) { return files.ReadFile(name) }

// FastNames lists the embedded files of folder fast.
func FastNames() []string {
	names, _ := fs.Glob(files, "fast/*.wgsl")
	return names
}

// Names lists all other embedded files.
func Names() []string {
	kernels, _ := fs.Glob(files, "*.wgsl")
	parts, _ := fs.Glob(files, "lib/*.wgsl")
	return append(kernels, parts...)
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
	var failed error
	code := includeLine.ReplaceAllStringFunc(string(text), func(line string) string {
		name := includeLine.FindStringSubmatch(line)[1]
		for hole, value := range v.Includes {
			name = strings.ReplaceAll(name, "{"+hole+"}", value)
		}
		part, err := include(v, name, done, read)
		if err != nil && failed == nil {
			failed = err
		}
		return part
	})
	return code, failed
}

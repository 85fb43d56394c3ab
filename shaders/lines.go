package shaders

import (
	"strconv"
	"strings"
)

// The marks of the few forms that variants work on. Regular expressions would read better, and would be a seventh of the
// engine's program.
const (
	includeMark = "//!include "
	constMark   = "const "
	bindingMark = "@group(0) @binding("
)

// hoist moves directives (enable, requires) to the front.
func hoist(code string) string {
	var directives, rest strings.Builder
	for line := range strings.Lines(code) {
		if strings.HasPrefix(line, "enable ") || strings.HasPrefix(line, "requires ") {
			directives.WriteString(line)
		} else {
			rest.WriteString(line)
		}
	}
	return directives.String() + rest.String()
}

// patch gives constants of the module their new values, and says how many of them it did not find; a constant that is
// declared twice counts as −1.
func patch(code string, consts map[string]string) (patched string, left int) {
	var b strings.Builder
	left = len(consts)
	for line := range strings.Lines(code) {
		decl, isConst := strings.CutPrefix(line, constMark)
		name, rest, typed := strings.Cut(decl, ": ")
		kind, value, given := strings.Cut(rest, " = ")
		_, after, closed := strings.Cut(value, ";")
		change, wanted := consts[name]
		if isConst && typed && given && closed && wanted {
			line = constMark + name + ": " + kind + " = " + change + ";" + after
			left--
		}
		b.WriteString(line)
	}
	return b.String(), left
}

// declaration is a binding as the code writes it: bytes [at, at+len(text)).
type declaration struct {
	Binding
	number, at int
	text, kind string
}

var accesses = map[string]Access{"uniform": Uniform, "storage, read": Read, "storage, read_write": ReadWrite}

// declarations finds all @group(0) @binding(N) var<KIND> NAME.
func declarations(code string) (all []declaration) {
	for at := 0; ; {
		i := strings.Index(code[at:], bindingMark)
		if i < 0 {
			return all
		}
		at += i
		text := code[at+len(bindingMark):]
		digits, text, _ := strings.Cut(text, ") var<")
		kind, text, _ := strings.Cut(text, "> ")
		name := text[:wordLength(text)]
		number, err := strconv.Atoi(digits)
		access, known := accesses[kind]
		d := declaration{Binding{name, access}, number, at, bindingMark + digits + ") var<" + kind + "> " + name, kind}
		at += len(bindingMark)
		if err == nil && known && name != "" {
			all = append(all, d)
			at += len(d.text) - len(bindingMark)
		}
	}
}

// wordLength is how many bytes at the start of a text are letters, digits or _.
func wordLength(text string) int {
	for i, c := range []byte(text) {
		if c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return i
		}
	}
	return len(text)
}

// renumber writes new numbers into all declarations.
func renumber(code string, numbers map[int]int) string {
	var b strings.Builder
	from := 0
	for _, d := range declarations(code) {
		b.WriteString(code[from:d.at])
		b.WriteString(bindingMark + strconv.Itoa(numbers[d.number]) + ") var<" + d.kind + "> " + d.Name)
		from = d.at + len(d.text)
	}
	return b.String() + code[from:]
}

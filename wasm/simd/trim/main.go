// Command trim copies a WebAssembly module without the sections that the kernels must not have: the linker adds an
// empty function table and a stack pointer that nothing uses, and custom sections. A module that did use them is no
// longer valid afterwards, so that the tests in the browser fail.
//
//	trim IN OUT
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// The sections of a module by number (WebAssembly core specification, 5.5.2).
const (
	custom = iota
	typeSection
	importSection
	functionSection
	tableSection
	memorySection
	globalSection
	exportSection
	startSection
	elementSection
	codeSection
)

// section is one section with its header.
type section struct {
	id    byte
	bytes []byte
}

const header = "\x00asm\x01\x00\x00\x00"

// sections splits a module.
func sections(module []byte) ([]section, error) {
	if len(module) < len(header) || string(module[:len(header)]) != header {
		return nil, errors.New("trim: no WebAssembly module of version 1")
	}
	var list []section
	for rest := module[len(header):]; len(rest) > 0; {
		size, n := binary.Uvarint(rest[1:])
		if n <= 0 || size > uint64(len(rest)-1-n) {
			return nil, errors.New("trim: cut off")
		}
		end := 1 + n + int(size)
		list = append(list, section{id: rest[0], bytes: rest[:end]})
		rest = rest[end:]
	}
	return list, nil
}

// trim returns the module without tables, globals and custom sections.
func trim(module []byte) ([]byte, error) {
	list, err := sections(module)
	if err != nil {
		return nil, err
	}
	out := []byte(header)
	for _, s := range list {
		if s.id != custom && s.id != tableSection && s.id != globalSection {
			out = append(out, s.bytes...)
		}
	}
	return out, nil
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: trim IN OUT")
	}
	in, err := os.ReadFile(args[0])
	if err != nil {
		return fmt.Errorf("trim: %w", err)
	}
	out, err := trim(in)
	if err != nil {
		return err
	}
	if err := os.WriteFile(args[1], out, 0o644); err != nil {
		return fmt.Errorf("trim: %w", err)
	}
	return nil
}

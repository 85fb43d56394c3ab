//go:build !js

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// flatSources writes the Go files of our programs and of the toolchain's library with each in one line, and tells the
// compiler to read those in their place. A program carries a table of lines for every function, which only traces read:
// with one line a file the tables are next to nothing, 75 kB less of the engine after gzip. Traces still name functions and
// files. given is what the compiler reads in the place of other files already; go is told that with flags.
func flatSources(dir string, given map[string]string, flags ...string) (replace map[string]string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("sources in one line: %w", err)
		}
	}()
	args := append([]string{"list", "-deps", "-json=Dir,Standard,Module,GoFiles"}, flags...)
	for _, p := range programs {
		args = append(args, p.pkg)
	}
	cmd := exec.Command("go", args...)
	cmd.Env, cmd.Stderr = forBrowser(), os.Stderr
	listing, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	replace = map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(listing)); ; {
		var pkg struct {
			Dir      string
			Standard bool
			Module   struct{ Main bool }
			GoFiles  []string
		}
		if err := dec.Decode(&pkg); errors.Is(err, io.EOF) {
			return replace, nil
		} else if err != nil {
			return nil, err
		}
		if !pkg.Standard && !pkg.Module.Main { // the compiler wants files of modules as they are
			continue
		}
		for _, name := range pkg.GoFiles {
			path := filepath.Join(pkg.Dir, name)
			if given[path] != "" {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			to := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
			if err := os.WriteFile(to, flat(text), 0o644); err != nil {
				return nil, err
			}
			replace[path] = to
		}
	}
}

// flat is Go source in one line, without comments. Directives have lines of their own, and so has what is in raw strings.
func flat(source []byte) []byte {
	var s scanner.Scanner
	set := token.NewFileSet()
	s.Init(set.AddFile("", set.Base(), len(source)), source, nil, scanner.ScanComments)
	var out bytes.Buffer
	begun := false // the line
	for {
		_, tok, text := s.Scan()
		switch {
		case tok == token.EOF:
			return append(out.Bytes(), '\n')
		case tok == token.COMMENT && strings.HasPrefix(text, "//go:"):
			if begun {
				out.WriteByte('\n')
			}
			out.WriteString(text + "\n")
			begun = false
			continue
		case tok == token.COMMENT:
			continue
		case tok == token.SEMICOLON: // written, or a line that ends
			text = ";"
		case text == "":
			text = tok.String()
		}
		out.WriteString(text + " ")
		begun = true
	}
}

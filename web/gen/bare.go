//go:build !js

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// bareShaders writes Go with the texts of the kernels, without comments, into a folder, and tells the compiler to take that
// in the place of the file that embeds them: comments are a third of the kernels, and an embedded file system is more code
// than a table. Both would be fetched with the engine.
func bareShaders(dir string) (replace map[string]string, err error) {
	var b strings.Builder
	b.WriteString("package shaders\n\nimport \"fmt\"\n\nvar texts = map[string]string{\n")
	err = filepath.WalkDir("shaders", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".wgsl" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel("shaders", path)
		fmt.Fprintf(&b, "%q: %q,\n", filepath.ToSlash(name), bare(string(text)))
		return err
	})
	b.WriteString("}\n\nfunc Text(name string) ([]byte, error) {\n" +
		"if text, ok := texts[name]; ok { return []byte(text), nil }\n" +
		"return nil, fmt.Errorf(\"there is no %s\", name)\n}\n")
	from, absent := filepath.Abs(filepath.FromSlash("shaders/files.go"))
	to := filepath.Join(dir, "shaders.go")
	if err = errors.Join(err, absent, os.WriteFile(to, []byte(b.String()), 0o644)); err != nil {
		return nil, fmt.Errorf("shaders without comments: %w", err)
	}
	return map[string]string{from: to}, nil
}

// writeOverlay writes the file that tells the compiler which files to read in the place of others.
func writeOverlay(dir string, replace map[string]string) (overlay string, err error) {
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o644)
}

// bare is WGSL without line comments and empty lines. Directives of ours (//!) stay, and so do indents: what stands at the
// start of a line belongs to the module.
func bare(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if i := strings.Index(line, "//"); i >= 0 && !strings.HasPrefix(line[i:], "//!") {
			line = line[:i]
		}
		if line = strings.TrimRight(line, " \t\r\n"); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

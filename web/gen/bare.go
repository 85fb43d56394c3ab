//go:build !js

package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// bareShaders writes the kernels without comments into a folder, and tells the compiler to embed those in their place:
// comments are a third of the kernels, and would be fetched with the engine.
func bareShaders(dir string) (replace map[string]string, err error) {
	replace = map[string]string{}
	err = filepath.WalkDir("shaders", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".wgsl" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		from, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, strings.ReplaceAll(path, string(filepath.Separator), "-"))
		replace[from] = to
		return os.WriteFile(to, []byte(bare(string(text))), 0o644)
	})
	if err != nil {
		return nil, fmt.Errorf("shaders without comments: %w", err)
	}
	return replace, nil
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

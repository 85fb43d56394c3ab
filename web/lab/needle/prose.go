package needle

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// proseModule is a Go module among whose test data is a novel, and whose licence file has a long licence in it.
const proseModule = "github.com/klauspost/compress@v1.20.4"

// Prose is real text from outside: Mark Twain's "The Adventures of Tom Sawyer" and the Apache License.
type Prose struct{ Novel, Licence string }

// LoadProse reads the texts from Go's module cache, fetching the module if it is not there.
func LoadProse(ctx context.Context) (*Prose, error) {
	tmp, err := os.MkdirTemp("", "kvlens-prose-") // outside any module, so that none gains a requirement
	if err != nil {
		return nil, fmt.Errorf("needle: prose: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", proseModule)
	cmd.Dir = tmp
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("needle: prose: %s: %w", proseModule, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return nil, fmt.Errorf("needle: prose: %s: %w", proseModule, err)
	}
	novel, err := part(filepath.Join(module.Dir, "testdata", "Mark.Twain-Tom.Sawyer.txt"), "\"TOM!\"")
	if err != nil {
		return nil, err
	}
	licence, err := part(filepath.Join(module.Dir, "LICENSE"), "1. Definitions.")
	if err != nil {
		return nil, err
	}
	licence, _, _ = strings.Cut(licence, "APPENDIX:")
	novel, _, _ = strings.Cut(novel, "End of the Project Gutenberg EBook")
	return &Prose{novel, licence}, nil
}

// part is a file from some words on.
func part(path string, begin string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("needle: prose: %w", err)
	}
	at := strings.Index(string(data), begin)
	if at < 0 {
		return "", fmt.Errorf("needle: prose: %s has no %q", path, begin)
	}
	return string(data[at:]), nil
}

// From is the text from a sentence on, counted as a share of its length.
func From(text string, share float64) string {
	at := int(share * float64(len(text)))
	if i := strings.Index(text[at:], ".\n"); i >= 0 && at > 0 {
		at += i + 2
	}
	return text[at:]
}

// Package heads holds what was measured of the attention heads of known models, by `lab calibrate`: one JSON file a model.
package heads

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"kvlens/cache/policy"
)

//go:embed *.json
var files embed.FS

// ErrUnknown is what For returns for a model that was not measured.
var ErrUnknown = errors.New("heads: this model was not measured")

// For gives the tables of the model whose weights have a SHA-256, in lower-case hex as manifests have it. Whether they fit
// the model's shape is for Tables.Check.
func For(sha string) (*policy.Tables, error) {
	names, err := fs.Glob(files, "*.json")
	if err != nil || len(sha) != 64 {
		return nil, ErrUnknown
	}
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("heads: %w", err)
		}
		if !bytes.Contains(data, []byte(sha)) {
			continue
		}
		t := new(policy.Tables)
		if err := decode(data, t); err != nil {
			return nil, fmt.Errorf("heads: %s: %w", name, err)
		}
		if t.Model == sha {
			return t, nil
		}
	}
	return nil, ErrUnknown
}

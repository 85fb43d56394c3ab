// Package heads holds what was measured of the attention heads of known models, by `lab calibrate`: one JSON file a model.
package heads

import (
	_ "embed" // one string a file: a file system would be larger than the files
	"errors"
	"fmt"
	"strings"

	"kvlens/cache/policy"
)

//go:embed teach.json
var teach string

//go:embed smollm2-135m-instruct.json
var smollm2 string

// files are the measured models by file name.
var files = map[string]string{"teach.json": teach, "smollm2-135m-instruct.json": smollm2}

// ErrUnknown is what For returns for a model that was not measured.
var ErrUnknown = errors.New("heads: this model was not measured")

// For gives the tables of the model whose weights have a SHA-256, in lower-case hex as manifests have it. Whether they fit
// the model's shape is for Tables.Check.
func For(sha string) (*policy.Tables, error) {
	if len(sha) != 64 {
		return nil, ErrUnknown
	}
	for name, data := range files {
		if !strings.Contains(data, sha) {
			continue
		}
		t := new(policy.Tables)
		if err := decode([]byte(data), t); err != nil {
			return nil, fmt.Errorf("heads: %s: %w", name, err)
		}
		if t.Model == sha {
			return t, nil
		}
	}
	return nil, ErrUnknown
}

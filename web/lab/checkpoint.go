package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// progress is where commands that take long say how far they are.
var progress io.Writer = os.Stderr

// checkpoint is what a long command has so far, in a file to stop and go on with.
type checkpoint[T any] struct {
	Settings string `json:"settings"` // of the command and the model; a file of others is refused
	Done     T      `json:"done"`

	path string
}

// resume reads the file at path, if there is one; done is the start. Without a path nothing is kept.
func resume[T any](path string, settings any, done T) (*checkpoint[T], error) {
	text, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	c := &checkpoint[T]{string(text), done, path}
	if path == "" {
		return c, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", path, err)
	}
	if c.Settings != string(text) {
		return nil, fmt.Errorf("checkpoint %s is of other settings or another model: %s", path, c.Settings)
	}
	return c, nil
}

// save writes the file and says how far the command is.
func (c *checkpoint[T]) save(format string, args ...any) error {
	fmt.Fprintf(progress, format+"\n", args...)
	if c.path == "" {
		return nil
	}
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(c.path+".new", c.path)
}

// end removes the file.
func (c *checkpoint[T]) end() error {
	if err := os.Remove(c.path); c.path != "" && err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

//go:build !js

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Files of web/static that do not go onto the site as they are.
var notCopied = map[string]bool{
	"app-worker.js":  true, // the template of the service worker
	"screenshot.png": true, // for the README
}

// copyStatic copies the hand-written files, the SIMD module among them, and the text catalogues under web/.
func (s *site) copyStatic() error {
	err := s.copyTree("web/static", "web", func(rel string) bool { return !notCopied[rel] })
	if err != nil {
		return err
	}
	names, err := filepath.Glob("app/text/*.json")
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.copyFile(name, "web/text/"+filepath.Base(name)); err != nil {
			return err
		}
	}
	return s.readTexts("web/static/shell.json")
}

func (s *site) readTexts(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &s.text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// modelEntry is a line of web/models/index.json, which tells the page what it can offer.
type modelEntry struct {
	Manifest string `json:"manifest"` // path relative to index.json
	ID       string `json:"id"`
	Name     string `json:"name"`
	Licence  string `json:"licence"`
	Size     int64  `json:"size"` // bytes
}

// copyModels adds the models fetched by `make model`, where there are any, to the built-in one, and lists all.
func (s *site) copyModels() error {
	if _, err := os.Stat("web/models"); err == nil {
		if err := s.copyTree("web/models", "web/models", func(string) bool { return true }); err != nil {
			return err
		}
	}
	index := struct {
		Models []modelEntry `json:"models"`
	}{}
	dir := filepath.Join(s.dir, "web/models")
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".json" {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		m := modelEntry{Manifest: filepath.ToSlash(rel)}
		if err := json.Unmarshal(data, &m); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		m.Manifest = filepath.ToSlash(rel)
		index.Models = append(index.Models, m)
		return nil
	})
	if err != nil {
		return err
	}
	if len(index.Models) == 0 {
		return fmt.Errorf("web/static/models holds no manifest: the site needs its built-in model")
	}
	// The page opens the first by itself: that is the built-in one, which lies beside the list.
	slices.SortFunc(index.Models, func(a, b modelEntry) int {
		folders := strings.Count(a.Manifest, "/") - strings.Count(b.Manifest, "/")
		return cmp.Or(folders, cmp.Compare(a.Size, b.Size))
	})
	return s.writeJSON("web/models/index.json", index)
}

func (s *site) copyTree(from, to string, keep func(rel string) bool) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if !keep(rel) {
			return nil
		}
		return s.copyFile(name, path.Join(to, rel))
	})
}

func (s *site) copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := s.create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if e := out.Close(); err == nil {
		err = e
	}
	return err
}

func (s *site) writeJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return s.write(name, append(data, '\n'))
}

func (s *site) write(name string, data []byte) error {
	f, err := s.create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

func (s *site) create(name string) (*os.File, error) {
	full := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return nil, err
	}
	return os.Create(full)
}

// names lists every file of the site, as paths relative to its root.
func (s *site) names() ([]string, error) {
	var out []string
	err := filepath.WalkDir(s.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(s.dir, name)
		out = append(out, filepath.ToSlash(rel))
		return err
	})
	slices.Sort(out)
	return out, err
}

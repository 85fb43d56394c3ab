//go:build !js

package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// files that must be on every site.
var wanted = []string{
	"index.html", "404.html", ".nojekyll", "app.js", "app-worker.js", "app.css", "wasm_exec.js", "manifest.webmanifest",
	"web/app.wasm", "web/engine.wasm", "web/engine.js", "web/simd.js", "web/simd.wasm", "web/gpu.js", "web/shell.js", "web/marks.js", "web/canvas.js", "web/shell.css", "web/shell.json",
	"web/text/en.json", "web/text/zh.json", "web/models/index.json", "web/models/teach.json",
}

var (
	reference = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	inline    = regexp.MustCompile(`<script(?:>|\s[^>]*>)[^<]|\sstyle="|\son[a-z]+="|javascript:`)
	foreign   = regexp.MustCompile(`["'(]\s*(?:https?:)?//[^/"' )]+`)
	quoted    = regexp.MustCompile(`"(/[^"]*)"`)
)

// Addresses that name something without ever being fetched.
var harmless = []string{"http://www.w3.org/"}

// check reads the site as a browser would: every file has a body, every reference of the page and of the service worker
// leads to a file, nothing points elsewhere, and the page obeys its own policy.
func (s *site) check() error {
	for _, name := range wanted {
		info, err := os.Stat(filepath.Join(s.dir, name))
		if err != nil {
			return fmt.Errorf("checking: %w", err)
		}
		if info.Size() == 0 && name != ".nojekyll" {
			return fmt.Errorf("checking %s: empty", name)
		}
	}
	names, err := s.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			return err
		}
		if err := s.checkFile(name, data); err != nil {
			return fmt.Errorf("checking %s: %w", name, err)
		}
	}
	return nil
}

func (s *site) checkFile(name string, data []byte) error {
	if bytes.HasPrefix(data, []byte("404 page not found")) {
		return fmt.Errorf("holds the text of a missing page")
	}
	var links []string
	switch path.Ext(name) {
	case ".html":
		if m := inline.Find(data); m != nil {
			return fmt.Errorf("%q is blocked by the page's policy", m)
		}
		for _, m := range reference.FindAllSubmatch(data, -1) {
			links = append(links, string(m[1]))
		}
	case ".webmanifest":
		fallthrough
	case ".js":
		if name == "app.js" || name == "app-worker.js" || name == "manifest.webmanifest" {
			for _, m := range quoted.FindAllSubmatch(data, -1) {
				if strings.HasPrefix(string(m[1]), s.prefix+"/") {
					links = append(links, string(m[1]))
				}
			}
		}
		fallthrough
	case ".css", ".svg":
		for _, m := range foreign.FindAll(data, -1) {
			if address := string(m[1:]); !allowed(address) {
				return fmt.Errorf("refers to %s", address)
			}
		}
	}
	for _, link := range links {
		if err := s.checkLink(link); err != nil {
			return err
		}
	}
	return nil
}

func allowed(address string) bool {
	for _, h := range harmless {
		if strings.HasPrefix(address+"/", h) {
			return true
		}
	}
	return false
}

// checkLink says whether a link leads to a file of this site.
func (s *site) checkLink(link string) error {
	link, _, _ = strings.Cut(link, "#")
	link, _, _ = strings.Cut(link, "?")
	if link == "" {
		return nil
	}
	name, ok := strings.CutPrefix(link, s.prefix+"/")
	if !ok || strings.HasPrefix(name, "/") {
		return fmt.Errorf("%s is not on this site", link)
	}
	if name == "" {
		name = "index.html"
	}
	if name == "web" {
		return nil // a folder's name in the page's settings, not a file
	}
	if _, err := os.Stat(filepath.Join(s.dir, filepath.FromSlash(name))); err != nil {
		return fmt.Errorf("%s leads nowhere", link)
	}
	return nil
}

// compress puts a gzip copy beside each program, for servers that can send one.
func (s *site) compress() error {
	for _, p := range programs {
		data, err := os.ReadFile(filepath.Join(s.dir, p.out))
		if err != nil {
			return err
		}
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		if err := s.write(p.out+".gz", b.Bytes()); err != nil {
			return err
		}
		fmt.Printf("%-16s %9d bytes, %9d with gzip (budget %d)\n", p.out, len(data), b.Len(), p.budget)
		if s.budget && b.Len() > p.budget {
			return fmt.Errorf("%s: %d bytes with gzip, over its budget of %d", p.out, b.Len(), p.budget)
		}
	}
	return nil
}

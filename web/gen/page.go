//go:build !js

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/ui"
)

// policy is the page's Content-Security-Policy: code, styles and data of this site only, no inline script, no eval but
// the compilation of WebAssembly. A worker does not inherit it, so a model that the reader names by address is fetched
// there and nowhere else.
const policy = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; " +
	"img-src 'self'; connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'"

// shellText is what the page must be able to say when its program is not there to say it.
type shellText struct {
	Title, Description, NoScript, NotFound, Home string
	Dead, DeadHint, Slow, SlowHint, Reload       string // for web/static/shell.js
}

// resolver puts the site's prefix before absolute paths. The root becomes the scope of the service worker, slash at the
// end included: /name without it is a redirect, which a service worker must not answer with.
type resolver string

func (r resolver) Resolve(location string) string {
	switch {
	case location == "" || location == "/":
		return string(r) + "/"
	case strings.HasPrefix(location, "/"):
		return string(r) + location
	}
	return location
}

// prerender writes the page and go-app's own files.
func (s *site) prerender() error {
	shell, err := s.shellFiles()
	if err != nil {
		return err
	}
	worker, err := os.ReadFile("web/static/app-worker.js")
	if err != nil {
		return err
	}
	program, err := os.Stat(filepath.Join(s.dir, "web/app.wasm"))
	if err != nil {
		return err
	}
	if err := ui.Routes(); err != nil {
		return err
	}
	en := s.text["en"]
	err = app.GenerateStaticWebsite(s.dir, &app.Handler{
		Name:                  "KV Lens",
		Title:                 en.Title,
		Description:           en.Description,
		Author:                "KV Lens authors",
		Domain:                s.domain,
		Image:                 "/web/icon-512.png",
		Lang:                  "en",
		LoadingLabel:          "{progress} %",
		BackgroundColor:       "#fbfaf7",
		ThemeColor:            "#fbfaf7",
		Resources:             resolver(s.prefix),
		Styles:                s.styles(),
		Scripts:               []string{"/web/theme.js", "/web/shell.js", "/web/marks.js", "/web/canvas.js"},
		CacheableResources:    shell,
		ServiceWorkerTemplate: string(worker),
		WasmContentLength:     strconv.FormatInt(program.Size(), 10),
		Version:               placeholder,
		Icon: app.Icon{
			Default: "/web/icon-192.png", Large: "/web/icon-512.png",
			Maskable: "/web/icon-maskable.png", SVG: "/web/icon.svg",
		},
	})
	if err != nil {
		return fmt.Errorf("prerendering: %w", err)
	}
	if err := s.patchPage(); err != nil {
		return err
	}
	if err := s.patchManifest(); err != nil {
		return err
	}
	// The loader must match the toolchain that made the programs, so it does not come from a dependency.
	root, err := goroot()
	if err != nil {
		return err
	}
	if err := s.copyFile(filepath.Join(root, "lib/wasm/wasm_exec.js"), "wasm_exec.js"); err != nil {
		return err
	}
	if err := s.write(".nojekyll", nil); err != nil {
		return err
	}
	return s.notFound()
}

// styles lists the page's own style sheets, in the order of their names.
func (s *site) styles() []string {
	names, _ := filepath.Glob(filepath.Join(s.dir, "web/*.css"))
	for i, name := range names {
		names[i] = "/web/" + filepath.Base(name)
	}
	return names
}

// shellFiles lists what an offline visit needs of web/: everything but the weights.
func (s *site) shellFiles() ([]string, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	var shell []string
	for _, name := range names {
		switch path.Ext(name) {
		case ".gguf", ".bin":
		default:
			shell = append(shell, "/"+name)
		}
	}
	return shell, nil
}

// tag matches a start tag with its attributes, which go-app writes in the order of a map.
var (
	tag       = regexp.MustCompile(`<([a-z][a-z0-9-]*)((?:\s+[A-Za-z:_-]+(?:="[^"]*")?)+)\s*>`)
	attribute = regexp.MustCompile(`[A-Za-z:_-]+(?:="[^"]*")?`)
)

// sortAttributes makes equal pages equal bytes, so that an unchanged site keeps its version.
func sortAttributes(page []byte) []byte {
	return tag.ReplaceAllFunc(page, func(t []byte) []byte {
		m := tag.FindSubmatch(t)
		attributes := attribute.FindAll(m[2], -1)
		slices.SortFunc(attributes, bytes.Compare)
		return []byte("<" + string(m[1]) + " " + string(bytes.Join(attributes, []byte(" "))) + ">")
	})
}

// patchPage puts the policy before anything that it governs, and a word for readers without scripts at the end.
func (s *site) patchPage() error {
	name := filepath.Join(s.dir, "index.html")
	page, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	meta := `<meta http-equiv="Content-Security-Policy" content="` + policy + `">`
	var word strings.Builder
	for _, lang := range []string{"en", "zh"} {
		fmt.Fprintf(&word, `<p lang="%s">%s</p>`, lang, template.HTMLEscapeString(s.text[lang].NoScript))
	}
	for _, p := range []struct{ at, with string }{
		{"<head>", "<head>" + meta},
		{"</body>", `<noscript class="shell-note">` + word.String() + "</noscript></body>"},
	} {
		if bytes.Count(page, []byte(p.at)) != 1 {
			return fmt.Errorf("index.html: want one %s", p.at)
		}
		page = bytes.Replace(page, []byte(p.at), []byte(p.with), 1)
	}
	return os.WriteFile(name, sortAttributes(page), 0o644)
}

// patchManifest narrows the installed page's scope, which go-app always sets to the whole origin.
func (s *site) patchManifest() error {
	name := filepath.Join(s.dir, "manifest.webmanifest")
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("manifest.webmanifest: %w", err)
	}
	root := s.prefix + "/"
	m["id"], m["scope"], m["start_url"] = root, root, root
	return s.writeJSON("manifest.webmanifest", m)
}

var notFoundPage = template.Must(template.New("404").Parse(`<!doctype html>
<html lang="en"><head><meta http-equiv="Content-Security-Policy" content="{{.Policy}}"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{{.EN.NotFound}}</title>
<link rel="icon" href="{{.Root}}web/icon.svg"><link rel="stylesheet" href="{{.Root}}web/app.css">
<link rel="stylesheet" href="{{.Root}}web/shell.css"><script src="{{.Root}}web/theme.js"></script></head>
<body class="shell-note"><h1>{{.EN.NotFound}}</h1><p><a href="{{.Root}}">{{.EN.Home}}</a></p>
<h1 lang="zh">{{.ZH.NotFound}}</h1><p lang="zh"><a href="{{.Root}}">{{.ZH.Home}}</a></p></body></html>
`))

func (s *site) notFound() error {
	var b bytes.Buffer
	err := notFoundPage.Execute(&b, map[string]any{
		"Policy": policy, "Root": s.prefix + "/", "EN": s.text["en"], "ZH": s.text["zh"],
	})
	if err != nil {
		return err
	}
	return s.write("404.html", b.Bytes())
}

// stamp names the version after the content: the hash of every file as it stands before the version is written in.
func (s *site) stamp() error {
	names, err := s.names()
	if err != nil {
		return err
	}
	sum := sha256.New()
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(data))
		sum.Write(data)
	}
	version := []byte(hex.EncodeToString(sum.Sum(nil))[:16])
	for _, name := range []string{"app.js", "app-worker.js"} {
		full := filepath.Join(s.dir, name)
		data, err := os.ReadFile(full)
		if err != nil {
			return err
		}
		if !bytes.Contains(data, []byte(placeholder)) {
			return fmt.Errorf("%s: has no version", name)
		}
		if err := os.WriteFile(full, bytes.ReplaceAll(data, []byte(placeholder), version), 0o644); err != nil {
			return err
		}
	}
	return nil
}

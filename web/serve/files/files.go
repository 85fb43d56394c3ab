// Package files serves a generated site the way a static host does: right types, ranges, compressed programs, the
// site's own page for a wrong address, and no listings.
package files

import (
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Types that hosts and systems often get wrong, and that browsers insist on.
var types = map[string]string{
	".html":        "text/html; charset=utf-8",
	".css":         "text/css; charset=utf-8",
	".js":          "text/javascript; charset=utf-8",
	".json":        "application/json",
	".webmanifest": "application/manifest+json",
	".wasm":        "application/wasm",
	".svg":         "image/svg+xml",
	".png":         "image/png",
	".gguf":        "application/octet-stream",
	".bin":         "application/octet-stream",
}

// Handler serves the site in dir under prefix ("" or "/name"). Answers must be revalidated, so that a rebuilt site is
// seen at once.
func Handler(dir, prefix string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		if r.URL.Path == prefix && prefix != "" {
			http.Redirect(w, r, prefix+"/", http.StatusMovedPermanently)
			return
		}
		name, ok := strings.CutPrefix(path.Clean(r.URL.Path), prefix)
		if !ok || (name != "" && name[0] != '/') || !serveFile(w, r, dir, name) {
			serveMissing(w, r, dir)
		}
	})
}

// serveFile answers with the file of that name, or reports that there is none.
func serveFile(w http.ResponseWriter, r *http.Request, dir, name string) bool {
	if name == "" || name == "/" {
		name = "/index.html"
	}
	full := filepath.Join(dir, filepath.FromSlash(name))
	f, err := os.Open(full)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.IsDir() {
		return false
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", typeOf(name))
	// A compressed body has no useful byte ranges, so a request for a range gets the file itself.
	if acceptsGzip(r) && r.Header.Get("Range") == "" {
		if z, err := os.Open(full + ".gz"); err == nil {
			defer z.Close()
			h.Set("Content-Encoding", "gzip")
			h.Set("Vary", "Accept-Encoding")
			f = z
		}
	}
	http.ServeContent(w, r, name, info.ModTime(), f)
	return true
}

func serveMissing(w http.ResponseWriter, r *http.Request, dir string) {
	page, err := os.ReadFile(filepath.Join(dir, "404.html"))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", types[".html"])
	w.WriteHeader(http.StatusNotFound)
	w.Write(page)
}

func typeOf(name string) string {
	ext := path.Ext(name)
	if t, ok := types[ext]; ok {
		return t
	}
	if t := mime.TypeByExtension(ext); t != "" {
		return t
	}
	return "application/octet-stream"
}

// acceptsGzip reports whether the client lists gzip without refusing it.
func acceptsGzip(r *http.Request) bool {
	for _, field := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		coding, weight, _ := strings.Cut(strings.TrimSpace(field), ";")
		if coding == "gzip" {
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
			return err != nil || q > 0
		}
	}
	return false
}

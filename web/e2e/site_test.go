//go:build !js

// Package e2e tries the built site the way a visitor does: served under a path, in Chromium without WebGPU. Run it with
// `make e2e`; without KVLENS_E2E=1 its tests are skipped, so that `go test ./...` needs no browser.
package e2e

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"strings"
	"sync"
	"testing"

	"kvlens/web/serve/files"
)

// prefix is where the site is served: never the root, because that hides wrong addresses.
const prefix = "/kv-lens"

// needBrowser skips a test where level 3 was not asked for.
func needBrowser(t *testing.T) {
	t.Helper()
	if os.Getenv("KVLENS_E2E") == "" {
		t.Skip("SKIPPED level 3: it runs with `make e2e`")
	}
}

var buildOnce = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "kvlens-site-")
	if err != nil {
		return "", err
	}
	dir += "/dist"
	cmd := exec.Command("go", "run", "./web/gen", "-out", dir, "-prefix", prefix)
	cmd.Dir = "../.."
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return dir, cmd.Run()
})

// host serves the site with faults that a test switches on.
type host struct {
	url string // of the page

	mu       sync.Mutex
	served   int64          // bytes of SmolLM2's parts sent since the last reset
	cutAt    int64          // break the connection once so many were sent; 0 for never
	cut      bool           // the connection is broken
	corrupt  string         // part whose next answer has one wrong byte
	requests map[string]int // by path
	offline  bool
	gate     chan struct{}                         // parts wait until it is closed; nil for none
	change   func(name string, body []byte) []byte // edits what is served; nil leaves it
	files    http.Handler
}

func startHost(t *testing.T) *host {
	t.Helper()
	dir, err := buildOnce()
	if err != nil {
		t.Fatalf("building the site: %v", err)
	}
	h := &host{files: files.Handler(dir, prefix), requests: map[string]int{}}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	h.url = server.URL + prefix + "/"
	return h
}

func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.requests[r.URL.Path]++
	part := path.Ext(r.URL.Path) == ".bin"
	broken := h.offline || part && h.cut
	flip := part && h.corrupt == path.Base(r.URL.Path)
	if flip {
		h.corrupt = ""
	}
	change, gate := h.change, h.gate
	h.mu.Unlock()
	if part && gate != nil {
		select {
		case <-gate:
		case <-r.Context().Done():
		}
	}
	switch {
	case broken:
		panic(http.ErrAbortHandler)
	case change != nil && !part:
		answer := httptest.NewRecorder()
		r.Header.Del("Accept-Encoding")
		r.Header.Del("If-Modified-Since")
		h.files.ServeHTTP(answer, r)
		maps.Copy(w.Header(), answer.Header())
		w.Header().Del("Content-Length")
		w.WriteHeader(answer.Code)
		w.Write(change(strings.TrimPrefix(r.URL.Path, prefix+"/"), answer.Body.Bytes()))
	case part:
		h.files.ServeHTTP(&faulty{ResponseWriter: w, host: h, flip: flip}, r)
	default:
		h.files.ServeHTTP(w, r)
	}
}

// set changes the faults.
func (h *host) set(change func(*host)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
}

// asked counts the requests whose path ends so.
func (h *host) asked(suffix string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for p, count := range h.requests {
		if strings.HasSuffix(p, suffix) {
			n += count
		}
	}
	return n
}

// faulty is an answer that may break off or carry a wrong byte.
type faulty struct {
	http.ResponseWriter
	host *host
	flip bool
}

func (f *faulty) Write(p []byte) (int, error) {
	f.host.mu.Lock()
	f.host.served += int64(len(p))
	if f.host.cutAt > 0 && f.host.served >= f.host.cutAt {
		f.host.cut = true
	}
	cut := f.host.cut
	f.host.mu.Unlock()
	if cut {
		panic(http.ErrAbortHandler)
	}
	if f.flip && len(p) > 0 {
		f.flip = false
		wrong := append([]byte(nil), p...)
		wrong[len(wrong)/2] ^= 0x10
		return f.ResponseWriter.Write(wrong)
	}
	return f.ResponseWriter.Write(p)
}

//go:build !js

package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed worker.js
var workerJS []byte

// harness serves the worker's script, the test binary and files, and takes what the test prints.
type harness struct {
	url   string
	srv   *http.Server
	args  []string
	roots []string // folders whose files a test may read
	exit  chan int

	mu  sync.Mutex
	pkg pkg
	bin string
	ran bool // exit was reported for this package
}

func newHarness(args []string, noSIMD bool) (*harness, error) {
	root, err := goCommand("list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return nil, err
	}
	goroot, err := goCommand("env", "GOROOT")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	h := &harness{url: "http://" + l.Addr().String(), args: args, roots: []string{root}, exit: make(chan int, 1)}
	for _, v := range variables() {
		if filepath.IsAbs(v) {
			h.roots = append(h.roots, filepath.Dir(v))
		}
	}
	static := filepath.Join(root, "web", "static")
	simd := filepath.Join(static, "simd.wasm")
	if noSIMD {
		simd = os.DevNull
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", page)
	mux.HandleFunc("GET /worker.js", func(w http.ResponseWriter, _ *http.Request) { script(w, workerJS) })
	mux.HandleFunc("GET /wasm_exec.js", serveFile(filepath.Join(goroot, "lib", "wasm", "wasm_exec.js")))
	mux.HandleFunc("GET /simd.js", serveFile(filepath.Join(static, "simd.js")))
	mux.HandleFunc("GET /gpu.js", serveFile(filepath.Join(static, "gpu.js")))
	mux.HandleFunc("GET /simd.wasm", serveFile(simd))
	mux.HandleFunc("GET /test.wasm", func(w http.ResponseWriter, q *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		serveFile(h.bin)(w, q)
	})
	mux.HandleFunc("GET /setup", h.setup)
	mux.HandleFunc("GET /stat", h.stat)
	mux.HandleFunc("GET /file", h.file)
	mux.HandleFunc("POST /out", func(_ http.ResponseWriter, q *http.Request) { _, _ = io.Copy(os.Stdout, q.Body) })
	mux.HandleFunc("POST /exit", h.exited)
	h.srv = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = h.srv.Serve(l) }() // ends with close
	return h, nil
}

func (h *harness) close() { _ = h.srv.Close() }

func (h *harness) start(p pkg, bin string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pkg, h.bin, h.ran = p, bin, false
}

func goCommand(args ...string) (string, error) {
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return "", fmt.Errorf("worker: go %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// variables are the environment variables that tests know.
func variables() map[string]string {
	env := map[string]string{}
	for _, kv := range os.Environ() {
		if k, v, _ := strings.Cut(kv, "="); strings.HasPrefix(k, "KVLENS_") || k == "CI" {
			env[k] = v
		}
	}
	return env
}

func page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, `<!doctype html><title>tests</title><link rel="icon" href="data:,"><script>
const worker = new Worker("/worker.js");
worker.onerror = (e) => fetch("/exit?code=2", {method: "POST", body: String(e.message) + "\n"});
</script>`)
}

func script(w http.ResponseWriter, b []byte) {
	w.Header().Set("Content-Type", "text/javascript")
	_, _ = w.Write(b)
}

func serveFile(path string) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		http.ServeFile(w, q, path)
	}
}

// setup tells the worker what to run.
func (h *harness) setup(w http.ResponseWriter, _ *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]any{"args": h.args, "env": variables(), "dir": h.pkg.dir})
}

// open finds a path that a test may read.
func (h *harness) open(q *http.Request) (string, os.FileInfo, error) {
	path := filepath.Clean(q.FormValue("path"))
	for _, r := range h.roots {
		if path == r || strings.HasPrefix(path, r+string(filepath.Separator)) {
			info, err := os.Stat(path)
			return path, info, err
		}
	}
	return "", nil, os.ErrNotExist
}

func (h *harness) stat(w http.ResponseWriter, q *http.Request) {
	path, info, err := h.open(q)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	names := []string{}
	if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"size": info.Size(), "dir": info.IsDir(), "names": names})
}

func (h *harness) file(w http.ResponseWriter, q *http.Request) {
	path, info, err := h.open(q)
	if err != nil || info.IsDir() {
		http.NotFound(w, q)
		return
	}
	f, err := os.Open(path)
	if err != nil {
		http.NotFound(w, q)
		return
	}
	defer func() { _ = f.Close() }()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	http.ServeContent(w, q, "", time.Time{}, f)
}

// exited takes the exit code, or 2 with the message of a crash. Only the first report counts.
func (h *harness) exited(_ http.ResponseWriter, q *http.Request) {
	_, _ = io.Copy(os.Stdout, q.Body)
	code, err := strconv.Atoi(q.FormValue("code"))
	if err != nil {
		code = 2
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ran {
		h.ran = true
		h.exit <- code
	}
}

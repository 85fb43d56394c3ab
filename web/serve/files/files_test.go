package files

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

func TestHandler(t *testing.T) {
	dir := t.TempDir()
	for name, body := range map[string]string{
		"index.html": "page", "404.html": "missing", "web/app.wasm": "program", "web/app.wasm.gz": "zipped",
		"web/models/part-000.bin": "0123456789",
	} {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(Handler(dir, "/kv"))
	defer server.Close()
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for _, c := range []struct {
		method, path   string
		header         [2]string
		status         int
		body, mimeType string
	}{
		{"GET", "/kv/", [2]string{}, 200, "page", "text/html; charset=utf-8"},
		{"GET", "/kv/?lang=zh", [2]string{}, 200, "page", "text/html; charset=utf-8"},
		{"GET", "/kv/web/app.wasm", [2]string{"Accept-Encoding", "identity"}, 200, "program", "application/wasm"},
		{"GET", "/kv/web/app.wasm", [2]string{"Accept-Encoding", "br, gzip;q=0.5"}, 200, "zipped", "application/wasm"},
		{"GET", "/kv/web/app.wasm", [2]string{"Accept-Encoding", "gzip;q=0"}, 200, "program", "application/wasm"},
		{"GET", "/kv/web/models/part-000.bin", [2]string{"Range", "bytes=2-4"}, 206, "234", "application/octet-stream"},
		{"GET", "/kv", [2]string{}, 301, "", ""},
		{"GET", "/", [2]string{}, 404, "missing", "text/html; charset=utf-8"},
		{"GET", "/kvx/index.html", [2]string{}, 404, "missing", "text/html; charset=utf-8"},
		{"GET", "/kv/web/", [2]string{}, 404, "missing", "text/html; charset=utf-8"},
		{"GET", "/kv/nothing", [2]string{}, 404, "missing", "text/html; charset=utf-8"},
		{"GET", "/kv/web/%2e%2e/%2e%2e/%2e%2e/etc/passwd", [2]string{}, 404, "missing", "text/html; charset=utf-8"},
		{"POST", "/kv/", [2]string{}, 405, "", ""},
	} {
		request, err := http.NewRequest(c.method, server.URL+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept-Encoding", "identity")
		if c.header[0] != "" {
			request.Header.Set(c.header[0], c.header[1])
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 64)
		n, _ := response.Body.Read(buf)
		response.Body.Close()
		if response.StatusCode != c.status {
			t.Errorf("%s %s: status %d, want %d", c.method, c.path, response.StatusCode, c.status)
		}
		if c.body != "" && string(buf[:n]) != c.body {
			t.Errorf("%s %s %v: body %q, want %q", c.method, c.path, c.header, buf[:n], c.body)
		}
		if c.mimeType != "" && response.Header.Get("Content-Type") != c.mimeType {
			t.Errorf("%s %s: type %q, want %q", c.method, c.path, response.Header.Get("Content-Type"), c.mimeType)
		}
	}
}

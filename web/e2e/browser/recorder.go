//go:build !js

package browser

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// ownHosts are services that Chromium itself asks at start, whatever its flags. No page of ours has a use for them.
var ownHosts = []string{
	"accounts.google.com", "android.clients.google.com", "clients2.google.com", "clientservices.googleapis.com",
	"content-autofill.googleapis.com", "optimizationguide-pa.googleapis.com", "redirector.gvt1.com",
	"safebrowsingohttpgateway.googleapis.com", "update.googleapis.com", "www.google.com",
}

// recorder is an HTTP proxy that refuses everything and remembers who was asked for. Chromium never sends requests for
// loopback addresses to a proxy, so the site under test does not pass through it.
type recorder struct {
	url string
	srv *http.Server

	mu    sync.Mutex
	hosts []string
}

func newRecorder() (*recorder, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("browser: proxy: %w", err)
	}
	r := &recorder{url: "http://" + l.Addr().String()}
	r.srv = &http.Server{Handler: http.HandlerFunc(r.refuse), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = r.srv.Serve(l) }() // ends with close
	return r, nil
}

func (r *recorder) refuse(w http.ResponseWriter, q *http.Request) {
	if host := (&url.URL{Host: q.Host}).Hostname(); !slices.Contains(ownHosts, host) {
		r.mu.Lock()
		r.hosts = append(r.hosts, host)
		r.mu.Unlock()
	}
	http.Error(w, "refused by the test", http.StatusForbidden)
}

func (r *recorder) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.hosts)
}

func (r *recorder) close() { _ = r.srv.Close() }

func decodeString(v []byte, s *string) bool { return json.Unmarshal(v, s) == nil }

//go:build !js

package weights

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"path"
	"sync/atomic"
	"testing"
	"time"
)

// site serves a model in parts; tests put faults in front of it.
type site struct {
	*httptest.Server
	data  []byte
	m     *Manifest
	gets  map[string]int // by file name
	fault func(w http.ResponseWriter, name string, nth int) (handled bool)
}

const modelParts = 5

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{data: allKinds(), gets: make(map[string]int)}
	s.m = manifest(s.data, len(s.data)/modelParts+1)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := path.Base(r.URL.Path)
		s.gets[name]++
		if s.fault != nil && s.fault(w, name, s.gets[name]) {
			return
		}
		s.serve(w, name)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *site) address() string { return s.URL + "/models/test/manifest.json?v=1" }

func (s *site) serve(w http.ResponseWriter, name string) {
	if name == "manifest.json" {
		w.Write(encode(s.m))
		return
	}
	if p := s.part(name); p != nil {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Write(p)
		return
	}
	http.Error(w, "not here", 404)
}

func (s *site) part(name string) []byte {
	off := int64(0)
	for _, p := range s.m.Parts {
		if p.Name == name {
			return s.data[off : off+p.Size]
		}
		off += p.Size
	}
	return nil
}

func (s *site) partGets() (n int) {
	for name, k := range s.gets {
		if name != "manifest.json" {
			n += k
		}
	}
	return n
}

type httpFetcher struct{ *http.Client }

func (f httpFetcher) Get(ctx context.Context, url string, _ Caching) (*Response, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := f.Do(req)
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return &Response{resp.StatusCode, kind, resp.Body}, nil
}

// disk is a memory FS that is kept, and that can be full or lose what is written.
type disk struct {
	*memoryFS
	quota int64        // bytes of the data file; 0 is no limit
	room  int64        // what Space says; 0 is unknown
	lose  atomic.Int64 // from this offset on, writes to the data file are dropped; 0 is never
}

func newDisk() *disk { return &disk{memoryFS: NewMemoryFS().(*memoryFS)} }

func (d *disk) Kept() bool                           { return true }
func (d *disk) Space(context.Context) (int64, int64) { return 0, d.room }

func (d *disk) Open(ctx context.Context, folder, name string) (Handle, error) {
	h, err := d.memoryFS.Open(ctx, folder, name)
	if err != nil || name != dataFile {
		return h, err
	}
	return &diskFile{h, d}, nil
}

type diskFile struct {
	Handle
	d *disk
}

func (f *diskFile) WriteAt(p []byte, off int64) (int, error) {
	end := off + int64(len(p))
	if f.d.quota > 0 && end > f.d.quota {
		return 0, fmt.Errorf("disk: %w", ErrNoSpace)
	}
	if lose := f.d.lose.Load(); lose > 0 && end > lose {
		return len(p), f.Truncate(max(end, f.d.size(f.Handle)))
	}
	return f.Handle.WriteAt(p, off)
}

func (d *disk) size(h Handle) int64 { n, _ := h.Size(); return n }

func newTestStore(fs FS) *Store {
	s := NewStore(fs, httpFetcher{new(http.Client)})
	s.sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	return s
}

// check opens a model and compares its bytes with the site's.
func (s *site) check(t *testing.T, store *Store, progress func(Progress)) {
	t.Helper()
	m, err := store.Open(t.Context(), s.address(), progress)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	got, err := io.ReadAll(io.NewSectionReader(m, 0, m.Manifest.Size))
	if err != nil || !bytes.Equal(got, s.data) {
		t.Fatalf("%d bytes, not the model: %v", len(got), err)
	}
	if f, err := m.File(); err != nil || len(f.Tensors) != 3 {
		t.Errorf("file: %v", err)
	}
}

func TestSibling(t *testing.T) {
	for url, want := range map[string]string{
		"https://x.example/a/m.json":          "https://x.example/a/p",
		"https://x.example/a/m.json?q=/b/c#d": "https://x.example/a/p",
		"https://x.example":                   "https://x.example/p",
		"https://x.example?q":                 "https://x.example/p",
		"/web/models/m.json":                  "/web/models/p",
		"models/m.json":                       "models/p",
		"m.json":                              "p",
	} {
		if got := sibling(url, "p"); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

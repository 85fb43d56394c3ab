//go:build !js

package weights

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
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

func TestStoreFetchesOnceAndReports(t *testing.T) {
	s, store := newSite(t), newTestStore(newDisk())
	var seen []Progress
	s.check(t, store, func(p Progress) { seen = append(seen, p) })
	last := Progress{Total: s.m.Size}
	for _, p := range seen {
		if p.Done < last.Done || p.Total != s.m.Size || p.Resumed != 0 || p.Refetched != 0 {
			t.Errorf("progress %+v after %+v", p, last)
		}
		last = p
	}
	if last.Done != s.m.Size || s.partGets() != modelParts {
		t.Errorf("ends with %+v after %d parts", last, s.partGets())
	}
	seen = nil
	s.check(t, store, func(p Progress) { seen = append(seen, p) })
	if len(seen) != 1 || seen[0].Done != s.m.Size || seen[0].Resumed != s.m.Size || s.partGets() != modelParts {
		t.Errorf("second visit: %+v, %d parts fetched", seen, s.partGets())
	}
	s.Close() // offline
	s.check(t, store, nil)
	status, err := store.Status(t.Context(), s.address())
	if err != nil || status.Stored != s.m.Size || status.Manifest.Name != s.m.Name {
		t.Errorf("offline status %+v, %v", status, err)
	}
}

// Faults that pass: the model arrives whole, and no part that is stored is fetched again.
func TestStoreGetsOver(t *testing.T) {
	for name, c := range map[string]struct {
		fault     func(s *site) func(w http.ResponseWriter, name string, nth int) bool
		gets      int // of parts
		refetched int
	}{
		"a corrupt part": {func(s *site) func(http.ResponseWriter, string, int) bool {
			return func(w http.ResponseWriter, name string, nth int) bool {
				if name != "part-2.bin" || nth > 1 {
					return false
				}
				bad := bytes.Clone(s.part(name))
				bad[7] ^= 1
				w.Write(bad)
				return true
			}
		}, modelParts + 1, 1},
		"a part that is too long": {func(s *site) func(http.ResponseWriter, string, int) bool {
			return func(w http.ResponseWriter, name string, nth int) bool {
				if name != "part-0.bin" || nth > 1 {
					return false
				}
				w.Write(append(bytes.Clone(s.part(name)), 0))
				return true
			}
		}, modelParts + 1, 1},
		"a cut connection": {func(s *site) func(http.ResponseWriter, string, int) bool {
			return func(w http.ResponseWriter, name string, nth int) bool {
				if name != "part-3.bin" || nth > 2 {
					return false
				}
				cut(w, s.part(name))
				return true
			}
		}, modelParts + 2, 0},
		"a short answer": {func(s *site) func(http.ResponseWriter, string, int) bool {
			return func(w http.ResponseWriter, name string, nth int) bool {
				if name != "part-3.bin" || nth > 1 {
					return false
				}
				w.Write(s.part(name)[:9])
				return true
			}
		}, modelParts + 1, 0},
		"a busy server": {func(*site) func(http.ResponseWriter, string, int) bool {
			return func(w http.ResponseWriter, name string, nth int) bool {
				if name == "manifest.json" || nth > 1 {
					return false
				}
				http.Error(w, "busy", http.StatusServiceUnavailable)
				return true
			}
		}, 2 * modelParts, 0},
		"compression on the way": {func(s *site) func(http.ResponseWriter, string, int) bool {
			return func(w http.ResponseWriter, name string, _ int) bool {
				if name == "manifest.json" {
					return false
				}
				w.Header().Set("Content-Encoding", "gzip")
				w.Write(zipped(s.part(name)))
				return true
			}
		}, modelParts, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, store := newSite(t), newTestStore(newDisk())
			s.fault = c.fault(s)
			var last Progress
			s.check(t, store, func(p Progress) { last = p })
			if s.partGets() != c.gets || last.Refetched != c.refetched || last.Done != s.m.Size {
				t.Errorf("%d parts fetched, %+v", s.partGets(), last)
			}
		})
	}
}

func cut(w http.ResponseWriter, data []byte) {
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	w.Write(data[:len(data)/2])
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func zipped(data []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(data)
	z.Close()
	return b.Bytes()
}

// Faults that stay end in a typed error; what arrived before is kept, and the next try goes on from there.
func TestStoreGivesUpAndResumes(t *testing.T) {
	status := func(want int) func(error) bool {
		return func(err error) bool {
			var e *FetchError
			return errors.As(err, &e) && e.Status == want && strings.HasSuffix(e.URL, "/models/test/part-3.bin")
		}
	}
	corrupt := func(err error) bool {
		var e *HashError
		return errors.As(err, &e) && e.Part == "part-3.bin" && !e.Storage
	}
	for _, c := range []struct {
		name  string
		gets  int // of the faulty part
		fault func(s *site, w http.ResponseWriter)
		want  func(error) bool
	}{
		{"missing", 1, func(_ *site, w http.ResponseWriter) { http.Error(w, "no", 404) }, status(404)},
		{"forbidden", 1, func(_ *site, w http.ResponseWriter) { http.Error(w, "no", http.StatusForbidden) }, status(http.StatusForbidden)},
		{"server down", 4, func(_ *site, w http.ResponseWriter) { http.Error(w, "no", http.StatusBadGateway) }, status(http.StatusBadGateway)},
		{"a page", 1, func(_ *site, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			io.WriteString(w, "<!doctype html>")
		}, func(err error) bool {
			var e *FetchError
			return errors.As(err, &e) && strings.Contains(e.Msg, "page")
		}},
		{"cut", 4, func(s *site, w http.ResponseWriter) { cut(w, s.part("part-3.bin")) }, func(err error) bool {
			var e *FetchError
			return errors.As(err, &e) && e.Err != nil
		}},
		{"short", 4, func(s *site, w http.ResponseWriter) { w.Write(s.part("part-3.bin")[:5]) }, func(err error) bool {
			var e *FetchError
			return errors.As(err, &e) && errors.Is(err, io.ErrUnexpectedEOF)
		}},
		{"wrong", 2, func(s *site, w http.ResponseWriter) { w.Write(make([]byte, len(s.part("part-3.bin")))) }, corrupt},
		{"compressed at rest", 2, func(s *site, w http.ResponseWriter) {
			w.Write(append(zipped(s.part("part-3.bin")), make([]byte, 100)...))
		}, corrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, store := newSite(t), newTestStore(newDisk())
			s.fault = func(w http.ResponseWriter, name string, _ int) bool {
				if name != "part-3.bin" {
					return false
				}
				c.fault(s, w)
				return true
			}
			_, err := store.Open(t.Context(), s.address(), nil)
			if err == nil || !c.want(err) || s.gets["part-3.bin"] != c.gets {
				t.Fatalf("after %d tries: %v", s.gets["part-3.bin"], err)
			}
			before := s.m.Parts[0].Size * 3
			if st, err := store.Status(t.Context(), s.address()); err != nil || st.Stored != before {
				t.Errorf("%d bytes stored, want %d: %v", st.Stored, before, err)
			}
			s.fault = nil
			resumed := int64(-1)
			s.check(t, store, func(p Progress) { resumed = p.Resumed })
			if resumed != before || s.gets["part-0.bin"] != 1 {
				t.Errorf("resumed from %d, first part fetched %d times", resumed, s.gets["part-0.bin"])
			}
		})
	}
}

func TestStoreCancel(t *testing.T) {
	s, store := newSite(t), newTestStore(newDisk())
	ctx, cancel := context.WithCancel(t.Context())
	_, err := store.Open(ctx, s.address(), func(p Progress) {
		if p.Done > s.m.Size/2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	s.check(t, store, nil) // the lock is free again
	if s.gets["part-0.bin"] != 1 {
		t.Error("a stored part was fetched again")
	}
}

// A connection that falls silent is cut and tried again.
func TestStoreStall(t *testing.T) {
	s, store := newSite(t), newTestStore(newDisk())
	store.stall = 50 * time.Millisecond
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	s.fault = func(w http.ResponseWriter, name string, nth int) bool {
		if name != "part-1.bin" || nth > 1 {
			return false
		}
		w.Write(s.part(name)[:3])
		w.(http.Flusher).Flush()
		<-hang
		return true
	}
	s.check(t, store, nil)
	if s.gets["part-1.bin"] != 2 {
		t.Errorf("%d tries", s.gets["part-1.bin"])
	}
}

func TestStoreOutOfSpace(t *testing.T) {
	for name, limit := range map[string]func(*disk, int64){
		"told before":       func(d *disk, size int64) { d.room = size - 1 },
		"met while writing": func(d *disk, size int64) { d.quota = size - 1 },
	} {
		s, d := newSite(t), newDisk()
		limit(d, s.m.Size)
		store := newTestStore(d)
		_, err := store.Open(t.Context(), s.address(), nil)
		var quota *QuotaError
		if !errors.As(err, &quota) || quota.Need == 0 {
			t.Errorf("%s: %v", name, err)
		}
		if d.room > 0 && (s.partGets() != 0 || quota.Need != s.m.Size || quota.Free != s.m.Size-1) {
			t.Errorf("%s: %d parts fetched, %+v", name, s.partGets(), quota)
		}
		d.room, d.quota = 0, 0
		s.check(t, store, nil)
	}
}

// Storage that drops writes without an error is found out by reading back.
func TestStoreLosesWrites(t *testing.T) {
	s, d := newSite(t), newDisk()
	d.lose.Store(s.m.Size / 2)
	_, err := newTestStore(d).Open(t.Context(), s.address(), nil)
	var bad *HashError
	if !errors.As(err, &bad) || !bad.Storage || bad.Part != "part-2.bin" {
		t.Fatalf("%v", err)
	}
	d.lose.Store(0)
	s.check(t, newTestStore(d), nil)
}

// What a crash or another version may leave behind is not believed.
func TestStoreDoubtsWhatItFinds(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, s *site, put func(name string, b []byte)){
		"empty data":      func(_ *testing.T, _ *site, put func(string, []byte)) { put(dataFile, nil) },
		"cut state":       func(_ *testing.T, s *site, put func(string, []byte)) { put(stateFile, []byte(digest(s.m)+"\n11")) },
		"foreign state":   func(_ *testing.T, _ *site, put func(string, []byte)) { put(stateFile, []byte("x\n11111")) },
		"no state":        func(_ *testing.T, _ *site, put func(string, []byte)) { put(stateFile, nil) },
		"broken manifest": func(_ *testing.T, _ *site, put func(string, []byte)) { put(manifestFile, []byte("{")) },
		"another model there": func(_ *testing.T, s *site, _ func(string, []byte)) {
			s.data = bytes.Clone(s.data)
			s.data[len(s.data)-1] ^= 1
			s.m = manifest(s.data, len(s.data)/modelParts+1)
		},
		"the manifest's words changed": func(_ *testing.T, s *site, _ func(string, []byte)) { s.m.Name = "Other" },
	} {
		t.Run(name, func(t *testing.T) {
			s, d := newSite(t), newDisk()
			store := newTestStore(d)
			s.check(t, store, nil)
			harm(t, s, func(name string, b []byte) {
				if err := store.writeFile(t.Context(), s.address(), name, b); err != nil {
					t.Fatal(err)
				}
			})
			s.check(t, store, nil)
			st, err := store.Status(t.Context(), s.address())
			if err != nil || st.Stored != s.m.Size || st.Manifest.Name != s.m.Name {
				t.Errorf("status %+v, %v", st, err)
			}
			if name == "the manifest's words changed" && s.partGets() != modelParts {
				t.Errorf("%d parts fetched", s.partGets())
			}
		})
	}
}

func TestStoreManifestTrouble(t *testing.T) {
	s, store := newSite(t), newTestStore(newDisk())
	for _, c := range []struct {
		name  string
		fault func(w http.ResponseWriter)
		want  any
	}{
		{"missing", func(w http.ResponseWriter) { http.Error(w, "", 404) }, new(*FetchError)},
		{"a page", func(w http.ResponseWriter) { io.WriteString(w, "<!doctype html><p>sign in") }, new(*FetchError)},
		{"not JSON", func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/plain"); io.WriteString(w, "hi") }, new(*ManifestError)},
		{"endless", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.Write(bytes.Repeat([]byte(" "), 3<<20))
		}, new(*ManifestError)},
	} {
		s.fault = func(w http.ResponseWriter, name string, _ int) bool {
			if name == "manifest.json" {
				c.fault(w)
			}
			return name == "manifest.json"
		}
		if _, err := store.Open(t.Context(), s.address(), nil); !errors.As(err, c.want) {
			t.Errorf("%s: open: %v", c.name, err)
		}
		if _, err := store.Status(t.Context(), s.address()); !errors.As(err, c.want) {
			t.Errorf("%s: status: %v", c.name, err)
		}
	}
	s.fault = nil
	s.check(t, store, nil)
}

// One model is open once at a time; another waits, and can be told not to.
func TestStoreLocks(t *testing.T) {
	s, d := newSite(t), newDisk()
	first, second := newTestStore(d), newTestStore(d) // two tabs on one disk
	m, err := first.Open(t.Context(), s.address(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := second.Open(ctx, s.address(), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("second tab: %v", err)
	}
	done := make(chan error)
	go func() {
		m, err := second.Open(t.Context(), s.address(), nil)
		if err == nil {
			err = m.Close()
		}
		done <- err
	}()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil || s.partGets() != modelParts {
		t.Errorf("second tab: %v, %d parts fetched", err, s.partGets())
	}
}

func TestStoreDelete(t *testing.T) {
	s, store := newSite(t), newTestStore(newDisk())
	s.check(t, store, nil)
	if err := store.Delete(t.Context(), s.address()); err != nil {
		t.Fatal(err)
	}
	if st, err := store.Status(t.Context(), s.address()); err != nil || st.Stored != 0 {
		t.Errorf("status %+v, %v", st, err)
	}
	if err := store.Delete(t.Context(), s.address()); err != nil {
		t.Errorf("deleting nothing: %v", err)
	}
	s.check(t, store, nil)
}

// Without a file system that keeps things, a model lives until it is closed, and costs nothing afterwards.
func TestStoreInMemory(t *testing.T) {
	s, mem := newSite(t), NewMemoryFS().(*memoryFS)
	s.check(t, newTestStore(mem), nil)
	if len(mem.files) != 0 {
		t.Error("a closed model stays in memory")
	}
}

func TestMemoryFile(t *testing.T) {
	f := newMemoryFS(func() page { return make(goPage, pageSize) })
	h, err := f.Open(t.Context(), "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	text := []byte("across two pages")
	if _, err := h.WriteAt(text, pageSize-5); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text)+2)
	if n, err := h.ReadAt(got, pageSize-5); n != len(text) || err != io.EOF || !bytes.Equal(got[:n], text) {
		t.Errorf("%q, %v", got[:n], err)
	}
	if n, err := h.ReadAt(got, 5*pageSize); n != 0 || err != io.EOF {
		t.Errorf("past the end: %d, %v", n, err)
	}
	if err := h.Truncate(pageSize - 3); err != nil {
		t.Fatal(err)
	}
	if n, err := h.ReadAt(got, pageSize-5); n != 2 || err != io.EOF {
		t.Errorf("after the cut: %d, %v", n, err)
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

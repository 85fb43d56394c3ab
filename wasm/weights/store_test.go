//go:build !js

package weights

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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

// silent is the site's network without a wire, and its connection falls silent in the first try of part 1.
type silent struct{ *site }

func (f silent) Get(ctx context.Context, url string, _ Caching) (*Response, error) {
	name, _, _ := strings.Cut(path.Base(url), "?")
	f.gets[name]++
	w := httptest.NewRecorder()
	f.serve(w, name)
	body := io.Reader(w.Body)
	if name == "part-1.bin" && f.gets[name] == 1 {
		body = io.MultiReader(io.LimitReader(body, 3), ending{ctx})
	}
	return &Response{w.Code, w.Header().Get("Content-Type"), io.NopCloser(body)}, nil
}

// ending gives nothing until its context ends.
type ending struct{ context.Context }

func (e ending) Read([]byte) (int, error) {
	<-e.Done()
	return 0, e.Err()
}

// A connection that falls silent is cut, after its time, and tried again.
func TestStoreStall(t *testing.T) {
	s := newSite(t)
	synctest.Test(t, func(t *testing.T) { // on a clock of its own, so that no busy machine falls silent too
		store, begin := NewStore(newDisk(), silent{s}), time.Now()
		s.check(t, store, nil)
		if s.gets["part-1.bin"] != 2 || s.partGets() != modelParts+1 {
			t.Errorf("%d tries, %d parts fetched", s.gets["part-1.bin"], s.partGets())
		}
		if took := time.Since(begin); took < store.stall {
			t.Errorf("it was given up after %v, want %v", took, store.stall)
		}
	})
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

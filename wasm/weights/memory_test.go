//go:build !js

package weights

import (
	"bytes"
	"io"
	"testing"
)

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

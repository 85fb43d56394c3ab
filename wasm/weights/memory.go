package weights

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"sync"
)

// memoryFS keeps files for this visit. Its pages come from outside where the program's own memory would never shrink.
type memoryFS struct {
	newPage func() page

	mu    sync.Mutex
	files map[string]map[string]*memoryFile // [folder][name]
	locks map[string]chan struct{}
}

// page is pageSize bytes of memory.
type page interface {
	read(p []byte, off int)
	write(p []byte, off int)
}

const pageSize = 1 << 20

type goPage []byte

func (b goPage) read(p []byte, off int)  { copy(p, b[off:]) }
func (b goPage) write(p []byte, off int) { copy(b[off:], p) }

// NewMemoryFS makes an FS in Go's memory.
func NewMemoryFS() FS { return newMemoryFS(func() page { return make(goPage, pageSize) }) }

func newMemoryFS(newPage func() page) *memoryFS {
	return &memoryFS{
		newPage: newPage,
		files:   make(map[string]map[string]*memoryFile),
		locks:   make(map[string]chan struct{}),
	}
}

func (m *memoryFS) Open(_ context.Context, folder, name string) (Handle, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.files[folder][name]
	if ok {
		return f, nil
	}
	if m.files[folder] == nil {
		m.files[folder] = make(map[string]*memoryFile)
	}
	f = &memoryFile{newPage: m.newPage}
	m.files[folder][name] = f
	return f, nil
}

func (m *memoryFS) ReadFile(_ context.Context, folder, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.files[folder][name]
	if !ok {
		return nil, fmt.Errorf("%s/%s: %w", folder, name, fs.ErrNotExist)
	}
	return io.ReadAll(io.NewSectionReader(f, 0, f.size))
}

func (m *memoryFS) Remove(_ context.Context, folder string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.files, folder)
	return nil
}

func (m *memoryFS) Space(context.Context) (usage, quota int64) { return 0, 0 }

func (m *memoryFS) Kept() bool { return false }

func (m *memoryFS) Lock(ctx context.Context, name string) (func(), error) {
	m.mu.Lock()
	c, ok := m.locks[name]
	if !ok {
		c = make(chan struct{}, 1)
		m.locks[name] = c
	}
	m.mu.Unlock()
	select {
	case c <- struct{}{}:
		return func() { <-c }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// memoryFile is used from one goroutine at a time: the Store locks each model.
type memoryFile struct {
	newPage func() page
	pages   []page
	size    int64
}

func (f *memoryFile) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fs.ErrInvalid
	}
	n := int(max(0, min(int64(len(p)), f.size-off)))
	f.each(p[:n], off, page.read)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memoryFile) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fs.ErrInvalid
	}
	if end := off + int64(len(p)); end > f.size {
		if err := f.Truncate(end); err != nil {
			return 0, err
		}
	}
	f.each(p, off, page.write)
	return len(p), nil
}

// each calls do for the stretches of p on each page.
func (f *memoryFile) each(p []byte, off int64, do func(page, []byte, int)) {
	for len(p) > 0 {
		at := int(off % pageSize)
		n := min(len(p), pageSize-at)
		do(f.pages[off/pageSize], p[:n], at)
		p, off = p[n:], off+int64(n)
	}
}

func (f *memoryFile) Size() (int64, error) { return f.size, nil }

func (f *memoryFile) Truncate(size int64) error {
	need := int((size + pageSize - 1) / pageSize)
	for len(f.pages) < need {
		f.pages = append(f.pages, f.newPage())
	}
	clear(f.pages[need:])
	f.pages, f.size = f.pages[:need], size
	return nil
}

func (f *memoryFile) Flush() error { return nil }
func (f *memoryFile) Close() error { return nil }

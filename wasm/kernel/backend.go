package kernel

import (
	"errors"
	"fmt"

	"kvlens/cache"
	"kvlens/wasm/gpu"
	"kvlens/wasm/step"
)

// Backend is a step.Backend on a device, which outlives it. It is used from one goroutine.
type Backend struct {
	lib   *Library
	dev   gpu.Device
	led   *cache.Ledger
	mem   map[step.Buffer]*memory
	last  step.Buffer
	execs map[*exec]bool
	queue queue
}

// memory is a buffer, or a part of one that another handle owns.
type memory struct {
	buf           gpu.Buffer
	name          string
	base, size    int64
	kind          cache.Kind
	logical, held int64 // bytes in the ledger; 0 for a part
}

// New makes a backend of its own library. Closing it frees its buffers; the device stays open.
func New(dev gpu.Device, led *cache.Ledger) (step.Backend, error) {
	return NewLibrary(dev).Backend(led), nil
}

// Backend makes a backend that uses the library's kernels.
func (l *Library) Backend(led *cache.Ledger) *Backend {
	return &Backend{lib: l, dev: l.dev, led: led, mem: map[step.Buffer]*memory{}, execs: map[*exec]bool{}}
}

// Info describes the backend.
func (b *Backend) Info() step.Info {
	i := b.dev.Info()
	detail := i.Adapter
	if how := b.lib.products(); how != "" {
		detail += " (" + how + ")"
	}
	return step.Info{Name: "webgpu", Detail: detail, MaxBuffer: i.Limits.MaxBuffer}
}

// Alloc returns zeroed memory. An arena (kind cache.Free) is bound whole, so that the device's limit of a binding is its
// limit.
func (b *Backend) Alloc(kind cache.Kind, name string, size int64) (step.Buffer, error) {
	if kind >= cache.Kinds || size < 0 {
		return 0, fmt.Errorf("webgpu: alloc %s: %d bytes of kind %d", name, size, kind)
	}
	if limit := b.dev.Info().Limits.MaxBinding; kind == cache.Free && size > limit {
		return 0, fmt.Errorf("webgpu: alloc %s: %w: %d bytes, the device binds %d at once", name, step.ErrMemory, size, limit)
	}
	m, err := b.alloc(kind, name, size)
	if err != nil {
		return 0, err
	}
	return b.handle(m), nil
}

// alloc makes a device buffer of whole words and enters it.
func (b *Backend) alloc(kind cache.Kind, name string, size int64) (*memory, error) {
	held := max(16, (size+3)&^3)
	buf, err := b.dev.NewBuffer(name, held)
	if err != nil {
		var limit *gpu.LimitError
		var memory *gpu.MemoryError
		if errors.As(err, &limit) || errors.As(err, &memory) {
			return nil, fmt.Errorf("webgpu: alloc %s: %w: %w", name, step.ErrMemory, err)
		}
		return nil, fmt.Errorf("webgpu: alloc %s: %w", name, err)
	}
	m := &memory{buf: buf, name: name, size: size, kind: kind, logical: size, held: held}
	if kind == cache.Free {
		m.logical = 0
	}
	b.led.Add(kind, m.logical, m.held)
	return m, nil
}

func (b *Backend) handle(m *memory) step.Buffer {
	b.last++
	b.mem[b.last] = m
	return b.last
}

// part makes a handle of size bytes of m from base on, which ends with release, not with Free.
func (b *Backend) part(m *memory, base, size int64) step.Buffer {
	return b.handle(&memory{buf: m.buf, name: m.name, base: base, size: size})
}

// release frees a device buffer and all that programs made of it.
func (b *Backend) release(m *memory) {
	if m == nil || m.held == 0 {
		return
	}
	for e := range b.execs {
		e.forget(m.buf)
	}
	b.dev.Destroy(m.buf)
	b.led.Add(m.kind, -m.logical, -m.held)
	m.held = 0
}

// Free gives memory back. Buffer 0 and buffers that are free already are ignored.
func (b *Backend) Free(buf step.Buffer) {
	m := b.mem[buf]
	if m == nil {
		return
	}
	delete(b.mem, buf)
	for e := range b.execs {
		e.leave(buf)
	}
	b.release(m)
}

// Close frees all memory.
func (b *Backend) Close() error {
	for e := range b.execs {
		e.Close()
	}
	for buf := range b.mem {
		b.Free(buf)
	}
	return nil
}

// find checks a range of a buffer.
func (b *Backend) find(buf step.Buffer, off, size int64) (*memory, error) {
	m := b.mem[buf]
	if m == nil {
		return nil, fmt.Errorf("webgpu: buffer %d: is not allocated", buf)
	}
	if off < 0 || size < 0 || off > m.size || size > m.size-off {
		return nil, fmt.Errorf("webgpu: buffer %s: %d bytes at %d reach out of its %d", m.name, size, off, m.size)
	}
	return m, nil
}

// Upload copies src to dst, from byte off on. Where src does not begin and end on whole words, the rest of those words
// is read first, which waits for the queue.
func (b *Backend) Upload(dst step.Buffer, off int64, src []byte) error {
	m, err := b.find(dst, off, int64(len(src)))
	if err != nil || len(src) == 0 {
		return err
	}
	at := m.base + off
	from, to := at&^3, (at+int64(len(src))+3)&^3
	if from != at || to-from != int64(len(src)) {
		words := make([]byte, to-from)
		if err := b.dev.Read(m.buf, from, words[:4]); err != nil {
			return fmt.Errorf("webgpu: upload to %s: %w", m.name, err)
		}
		if err := b.dev.Read(m.buf, to-4, words[len(words)-4:]); err != nil {
			return fmt.Errorf("webgpu: upload to %s: %w", m.name, err)
		}
		copy(words[at-from:], src)
		src = words
	}
	if err := b.dev.Write(m.buf, from, src); err != nil {
		return fmt.Errorf("webgpu: upload to %s: %w", m.name, err)
	}
	return nil
}

// Read copies src, from byte off on, to dst, after all work that was submitted.
func (b *Backend) Read(src step.Buffer, off int64, dst []byte) error {
	m, err := b.find(src, off, int64(len(dst)))
	if err != nil || len(dst) == 0 {
		return err
	}
	at := m.base + off
	from, to := at&^3, (at+int64(len(dst))+3)&^3
	words := dst
	if from != at || to-from != int64(len(dst)) {
		words = make([]byte, to-from)
	}
	if err := b.dev.Read(m.buf, from, words); err != nil {
		return fmt.Errorf("webgpu: read %s: %w", m.name, err)
	}
	copy(dst, words[at-from:])
	b.queue.done()
	return nil
}

// Package ref runs step programs in plain Go. Its float64 variant is the oracle that every other backend is held to;
// its float32 variant is fast enough to be the path of last resort in the browser and the command line's engine.
//
// [Backend] does what all CPU backends share. What differs is in [Loops], so that a backend with SIMD loops reuses the
// rest.
package ref

import (
	"errors"
	"fmt"
	"runtime"

	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// Backend is a step.Backend on the host's memory. It is used from one goroutine and may start others for a while.
type Backend struct {
	info    step.Info
	led     *cache.Ledger
	loops   Loops
	workers int
	mem     map[step.Buffer]*memory
	last    step.Buffer
	held    int64 // bytes in mem
}

type memory struct {
	bytes   []byte
	kind    cache.Kind
	logical int64
	name    string
}

// A wasm heap ends at 3.85 GB with a fatal error that nothing can catch. Elsewhere the limit only keeps a size that no
// machine has from the same end.
const (
	wasmLimit   = 3 << 30
	nativeLimit = 1 << 40
)

// New makes a backend that computes in float32, on all cores.
func New(led *cache.Ledger) step.Backend {
	return NewWith(led, f32{}, step.Info{Name: "ref", Detail: cores()})
}

// NewF64 makes the oracle: plain loops that sum in float64. What it stores between operations is float32, as with every
// backend.
func NewF64(led *cache.Ledger) step.Backend {
	return NewWith(led, f64{}, step.Info{Name: "ref", Detail: "float64 sums, " + cores()})
}

// Float32Loops are the loops of [New]: for a backend that replaces some of them, or has none of its own where it runs.
func Float32Loops() Loops { return f32{} }

func cores() string {
	if n := runtime.GOMAXPROCS(0); n > 1 {
		return fmt.Sprintf("%d cores", n)
	}
	return "1 core"
}

// NewWith makes a backend from other loops. It uses as many workers as Go has threads, so one in the browser.
func NewWith(led *cache.Ledger, loops Loops, info step.Info) *Backend {
	return &Backend{info: info, led: led, loops: loops, workers: runtime.GOMAXPROCS(0), mem: map[step.Buffer]*memory{}}
}

// Info describes the backend.
func (b *Backend) Info() step.Info { return b.info }

// Alloc returns zeroed memory. Kind cache.Free is for arenas: it is entered as allocated only, see cache.Ledger.
func (b *Backend) Alloc(kind cache.Kind, name string, size int64) (step.Buffer, error) {
	limit := int64(nativeLimit)
	if runtime.GOARCH == "wasm" {
		limit = wasmLimit
	}
	if kind >= cache.Kinds || size < 0 {
		return 0, fmt.Errorf("%s: alloc %s: %d bytes of kind %d", b.info.Name, name, size, kind)
	}
	if size > limit-b.held {
		return 0, fmt.Errorf("%s: alloc %s: %w: %d bytes, beside %d in use", b.info.Name, name, step.ErrMemory, size, b.held)
	}
	m := &memory{bytes: make([]byte, size), kind: kind, logical: size, name: name}
	if kind == cache.Free {
		m.logical = 0
	}
	b.last++
	b.mem[b.last] = m
	b.held += size
	b.led.Add(kind, m.logical, size)
	return b.last, nil
}

// Free gives memory back. Buffer 0 and buffers that are free already are ignored.
func (b *Backend) Free(buf step.Buffer) {
	m, ok := b.mem[buf]
	if !ok {
		return
	}
	delete(b.mem, buf)
	b.held -= int64(len(m.bytes))
	b.led.Add(m.kind, -m.logical, -int64(len(m.bytes)))
}

// Upload copies src to dst, from byte off on.
func (b *Backend) Upload(dst step.Buffer, off int64, src []byte) error {
	to, err := b.bytes(dst, off, int64(len(src)))
	if err == nil {
		copy(to, src)
	}
	return err
}

// Read copies src, from byte off on, to dst.
func (b *Backend) Read(src step.Buffer, off int64, dst []byte) error {
	from, err := b.bytes(src, off, int64(len(dst)))
	if err == nil {
		copy(dst, from)
	}
	return err
}

// Close frees all memory; programs compiled here are of no more use.
func (b *Backend) Close() error {
	for buf := range b.mem {
		b.Free(buf)
	}
	return nil
}

// bytes is part of a buffer's memory.
func (b *Backend) bytes(buf step.Buffer, off, size int64) ([]byte, error) {
	m, ok := b.mem[buf]
	if !ok {
		return nil, fmt.Errorf("%s: buffer %d: is not allocated", b.info.Name, buf)
	}
	if n := int64(len(m.bytes)); off < 0 || size < 0 || off > n || size > n-off {
		return nil, fmt.Errorf("%s: buffer %s: %d bytes at %d reach out of its %d", b.info.Name, m.name, size, off, n)
	}
	return m.bytes[off:][:size:size], nil
}

// matrix finds the memory of a tensor.
func (b *Backend) matrix(t step.Tensor, rows, cols int) (*quant.Matrix, error) {
	switch {
	case t.Rows != rows || t.Cols != cols:
		return nil, fmt.Errorf("is %d × %d instead of %d × %d", t.Rows, t.Cols, rows, cols)
	case t.Layout > quant.Layout8:
		return nil, fmt.Errorf("has unknown layout %d", t.Layout)
	case t.Layout >= quant.Layout4 && cols%quant.GroupSize != 0:
		return nil, fmt.Errorf("has %d columns, no multiple of %d", cols, quant.GroupSize)
	case t.Off%16 != 0:
		return nil, fmt.Errorf("starts at %d, no multiple of 16", t.Off)
	}
	data, err := b.bytes(t.Buf, t.Off, t.Layout.Size(rows, cols))
	if err != nil {
		return nil, err
	}
	return &quant.Matrix{Layout: t.Layout, Rows: rows, Cols: cols, Data: data}, nil
}

// vector finds the memory of an f32 row, such as a norm's weights.
func (b *Backend) vector(t step.Tensor, n int) ([]float32, error) {
	if t.Layout != quant.LayoutF32 {
		return nil, errors.New("is not f32")
	}
	m, err := b.matrix(t, 1, n)
	if err != nil {
		return nil, err
	}
	return quant.Float32s(m.Data), nil
}

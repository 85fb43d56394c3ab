package weights

import (
	"fmt"
	"io"
	"syscall/js"
)

// valueReader is a file whose bytes lie in JavaScript.
type valueReader interface {
	// values shows n bytes from byte off on, piece by piece: the first size bytes of each array from byte from on. The
	// arrays are used again.
	values(off, n int64, show func(array js.Value, from, size int64) error) error
}

// Values shows n bytes of the file from byte off on, piece by piece, without their passing through Go's memory: size
// bytes of each Uint8Array from byte from on, which are only there until show returns. It says whether that can be had.
func (f *File) Values(off, n int64, show func(array js.Value, from, size int64) error) (bool, error) {
	m, ok := f.r.(*Model)
	if !ok {
		return false, nil
	}
	v, ok := m.data.(valueReader)
	if !ok {
		return false, nil
	}
	if off < 0 || n < 0 || off > f.Size-n {
		return true, fmt.Errorf("weights: bytes %d to %d+%d of %d", off, off, n, f.Size)
	}
	return true, v.values(off, n, show)
}

func (f *opfsFile) values(off, n int64, show func(js.Value, int64, int64) error) error {
	for n > 0 {
		want := min(n, pieceSize)
		got, err := f.move("read", int(want), off)
		if err == nil && int64(got) < want {
			err = io.ErrUnexpectedEOF
		}
		if err == nil {
			err = show(f.buf, 0, want)
		}
		if err != nil {
			return err
		}
		off, n = off+want, n-want
	}
	return nil
}

func (f *memoryFile) values(off, n int64, show func(js.Value, int64, int64) error) error {
	if off > f.size-n {
		return io.ErrUnexpectedEOF
	}
	for n > 0 {
		at := off % pageSize
		size := min(n, pageSize-at)
		p, ok := f.pages[off/pageSize].(jsPage)
		if !ok {
			return fmt.Errorf("weights: memory is not the browser's")
		}
		if err := show(js.Value(p), at, size); err != nil {
			return err
		}
		off, n = off+size, n-size
	}
	return nil
}

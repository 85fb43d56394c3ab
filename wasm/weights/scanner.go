package weights

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// scanner reads a header front to back through one small buffer.
type scanner struct {
	r     io.ReaderAt
	size  int64 // of the file
	limit int64 // where reading stops
	next  int64 // offset of the first byte that is not in the buffer
	buf   []byte
	store [32 << 10]byte
}

// off is the offset of the next byte to be read.
func (s *scanner) off() int64 { return s.next - int64(len(s.buf)) }

// left is how many bytes can still be read.
func (s *scanner) left() int64 { return s.limit - s.off() }

// need refuses a field of n bytes when so many are not there.
func (s *scanner) need(field string, n uint64) error {
	switch {
	case n <= uint64(s.left()):
		return nil
	case s.limit < s.size:
		return refuse(field, "%d bytes at byte %d, but a header has at most %d", n, s.off(), s.limit)
	}
	return refuse(field, "%d bytes at byte %d, but the file ends at %d", n, s.off(), s.size)
}

// take returns the next n ≤ len(store) bytes, valid until the next call.
func (s *scanner) take(field string, n int) ([]byte, error) {
	if err := s.need(field, uint64(n)); err != nil {
		return nil, err
	}
	if len(s.buf) < n {
		kept := copy(s.store[:], s.buf)
		want := min(int64(len(s.store)-kept), s.limit-s.next)
		if err := readFull(s.r, s.store[kept:kept+int(want)], s.next); err != nil {
			return nil, fmt.Errorf("weights: read %s at byte %d: %w", field, s.off(), err)
		}
		s.next += want
		s.buf = s.store[:kept+int(want)]
	}
	b := s.buf[:n]
	s.buf = s.buf[n:]
	return b, nil
}

// skip passes over n bytes.
func (s *scanner) skip(field string, n uint64) error {
	if err := s.need(field, n); err != nil {
		return err
	}
	if n <= uint64(len(s.buf)) {
		s.buf = s.buf[n:]
		return nil
	}
	s.next, s.buf = s.off()+int64(n), nil
	return nil
}

// write copies the next n bytes to w.
func (s *scanner) write(field string, w io.Writer, n uint64) error {
	if err := s.need(field, n); err != nil {
		return err
	}
	for n > 0 {
		piece := min(n, uint64(len(s.store)))
		b, err := s.take(field, int(piece))
		if err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		n -= piece
	}
	return nil
}

func (s *scanner) u32(field string) (uint32, error) {
	b, err := s.take(field, 4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (s *scanner) u64(field string) (uint64, error) {
	b, err := s.take(field, 8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// count reads a number of things that have at least size bytes each.
func (s *scanner) count(field string, size, limit uint64) (uint64, error) {
	n, err := s.u64(field)
	if err != nil {
		return 0, err
	}
	if n > limit {
		return 0, refuse(field, "%d, at most %d are read", n, limit)
	}
	if n > uint64(s.left())/size {
		return 0, refuse(field, "%d do not fit the %d bytes that are left", n, s.left())
	}
	return n, nil
}

// text reads a string of at most limit bytes.
func (s *scanner) text(field string, limit uint64) (string, error) {
	n, err := s.u64(field)
	if err != nil {
		return "", err
	}
	if n > limit {
		return "", refuse(field, "%d bytes, at most %d are read", n, limit)
	}
	if err := s.need(field, n); err != nil {
		return "", err
	}
	var out strings.Builder
	out.Grow(int(n))
	err = s.write(field, &out, n)
	return out.String(), err
}

// readFull fills p or fails; reaching the end exactly is no failure.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

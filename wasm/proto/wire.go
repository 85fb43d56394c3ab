package proto

import (
	"encoding/binary"
	"fmt"
	"math"
)

// wire reads or writes fields one after the other. One method serves both directions, so that a field cannot be written
// in one way and read in another. Reading stops at the first error; later fields then keep their zero values.
type wire struct {
	buf     []byte
	off     int // read position
	reading bool
	err     string
}

func (w *wire) fail(format string, args ...any) {
	if w.err == "" {
		w.err = fmt.Sprintf(format, args...)
	}
}

// take returns the next n bytes to read, or nil.
func (w *wire) take(n int) []byte {
	if w.err != "" {
		return nil
	}
	if n > len(w.buf)-w.off {
		w.fail("%d bytes wanted, %d left", n, len(w.buf)-w.off)
		return nil
	}
	b := w.buf[w.off : w.off+n]
	w.off += n
	return b
}

// count is the number of elements of a list. It is checked against the bytes that are left, at least size for each
// element, before anybody allocates.
func (w *wire) count(n, size int) int {
	c := uint32(n)
	w.u32(&c)
	if !w.reading {
		return n
	}
	if left := len(w.buf) - w.off; w.err == "" && uint64(c)*uint64(size) > uint64(left) {
		w.fail("%d elements of %d bytes announced, %d bytes left", c, size, left)
	}
	if w.err != "" {
		return 0
	}
	return int(c)
}

func (w *wire) u8(v *uint8) {
	if !w.reading {
		w.buf = append(w.buf, *v)
	} else if b := w.take(1); b != nil {
		*v = b[0]
	}
}

func (w *wire) boolean(v *bool) {
	var b uint8
	if *v {
		b = 1
	}
	w.u8(&b)
	if b > 1 {
		w.fail("%d is no truth value", b)
	}
	if w.reading {
		*v = b == 1 && w.err == ""
	}
}

func (w *wire) u16(v *uint16) {
	if !w.reading {
		w.buf = binary.LittleEndian.AppendUint16(w.buf, *v)
	} else if b := w.take(2); b != nil {
		*v = binary.LittleEndian.Uint16(b)
	}
}

func (w *wire) u32(v *uint32) {
	if !w.reading {
		w.buf = binary.LittleEndian.AppendUint32(w.buf, *v)
	} else if b := w.take(4); b != nil {
		*v = binary.LittleEndian.Uint32(b)
	}
}

func (w *wire) u64(v *uint64) {
	if !w.reading {
		w.buf = binary.LittleEndian.AppendUint64(w.buf, *v)
	} else if b := w.take(8); b != nil {
		*v = binary.LittleEndian.Uint64(b)
	}
}

func (w *wire) f32(v *float32) {
	b := math.Float32bits(*v)
	w.u32(&b)
	if w.reading {
		*v = math.Float32frombits(b)
	}
}

func (w *wire) f64(v *float64) {
	b := math.Float64bits(*v)
	w.u64(&b)
	if w.reading {
		*v = math.Float64frombits(b)
	}
}

func (w *wire) text(v *string) {
	n := w.count(len(*v), 1)
	if !w.reading {
		w.buf = append(w.buf, *v...)
	} else {
		*v = string(w.take(n))
	}
}

func (w *wire) u8s(v *[]uint8) {
	n := w.count(len(*v), 1)
	if !w.reading {
		w.buf = append(w.buf, *v...)
	} else if n > 0 {
		*v = append([]uint8(nil), w.take(n)...)
	}
}

func (w *wire) u32s(v *[]uint32)    { list(w, v, 4, (*wire).u32) }
func (w *wire) u64s(v *[]uint64)    { list(w, v, 8, (*wire).u64) }
func (w *wire) f32s(v *[]float32)   { list(w, v, 4, (*wire).f32) }
func (w *wire) f64s(v *[]float64)   { list(w, v, 8, (*wire).f64) }
func (w *wire) texts(v *[]string)   { list(w, v, 4, (*wire).text) }
func (w *wire) rows(v *[]LedgerRow) { list(w, v, 25, func(w *wire, r *LedgerRow) { r.fields(w) }) }

// list reads or writes a list whose elements take at least size bytes each. An empty list is read as nil.
func list[T any](w *wire, v *[]T, size int, element func(*wire, *T)) {
	n := w.count(len(*v), size)
	if w.reading && n > 0 {
		*v = make([]T, n)
	}
	for i := range n {
		element(w, &(*v)[i])
	}
}

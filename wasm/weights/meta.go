package weights

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
)

// ValueType is the type of a metadata value, as GGUF numbers them.
type ValueType uint32

const (
	typeU8 ValueType = iota
	typeI8
	typeU16
	typeI16
	typeU32
	typeI32
	typeF32
	typeBool
	typeString
	typeArray
	typeU64
	typeI64
	typeF64
	valueTypes
)

var valueNames = [valueTypes]string{
	"u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64",
}

func (t ValueType) String() string {
	if t < valueTypes {
		return valueNames[t]
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// size is the number of bytes of a value, 0 for strings, arrays and unknown types.
func (t ValueType) size() int {
	switch t {
	case typeU8, typeI8, typeBool:
		return 1
	case typeU16, typeI16:
		return 2
	case typeU32, typeI32, typeF32:
		return 4
	case typeU64, typeI64, typeF64:
		return 8
	}
	return 0
}

// Meta is the metadata of a file. Single values are in memory, arrays are read from the file when they are asked for:
// a vocabulary is needed once. Strings are as the file has them, not necessarily UTF-8.
type Meta struct {
	pairs []pair // in file order
	byKey map[string]int
	r     io.ReaderAt
	size  int64
	err   error
}

type pair struct {
	Pair
	bits      uint64 // a number or bool
	text      string
	off, size int64 // of an array's elements in the file
}

// Pair describes a metadata value. Elem and Len belong to arrays.
type Pair struct {
	Key        string
	Type, Elem ValueType
	Len        int
}

// Pairs lists what is there, in file order.
func (m *Meta) Pairs() []Pair {
	out := make([]Pair, len(m.pairs))
	for i := range m.pairs {
		out[i] = m.pairs[i].Pair
	}
	return out
}

// Has reports whether there is a value of any type.
func (m *Meta) Has(key string) bool { return m.find(key) != nil }

// Err is the first error in reading an array. An array that could not be read looks like one that is not there.
func (m *Meta) Err() error { return m.err }

// Uint returns a whole number that is not negative, of any integer type.
func (m *Meta) Uint(key string) (uint64, bool) {
	n, ok := m.Int(key)
	if p := m.find(key); p != nil && p.Type == typeU64 {
		return p.bits, true
	}
	return uint64(n), ok && n >= 0
}

// Int returns a whole number of any integer type that fits.
func (m *Meta) Int(key string) (int64, bool) {
	p := m.find(key)
	if p == nil {
		return 0, false
	}
	return integer(p.Type, p.bits)
}

// Float returns a number of a floating-point type.
func (m *Meta) Float(key string) (float64, bool) {
	p := m.find(key)
	if p == nil {
		return 0, false
	}
	return float(p.Type, p.bits)
}

// Bool returns a bool.
func (m *Meta) Bool(key string) (bool, bool) {
	p := m.find(key)
	if p == nil || p.Type != typeBool {
		return false, false
	}
	return p.bits == 1, true
}

// String returns a string.
func (m *Meta) String(key string) (string, bool) {
	p := m.find(key)
	if p == nil || p.Type != typeString {
		return "", false
	}
	return p.text, true
}

// Strings reads an array of strings. They share one piece of memory.
func (m *Meta) Strings(key string) ([]string, bool) {
	p := m.find(key)
	if p == nil || p.Type != typeArray || p.Elem != typeString {
		return nil, false
	}
	var all strings.Builder
	all.Grow(int(p.size) - minString*p.Len)
	ends := make([]int, p.Len)
	s := m.scan(p)
	for i := range ends {
		n, err := s.u64(key)
		if err != nil {
			return nil, m.fail(err)
		}
		if err := s.write(key, &all, n); err != nil {
			return nil, m.fail(err)
		}
		ends[i] = all.Len()
	}
	text, out, start := all.String(), make([]string, p.Len), 0
	for i, end := range ends {
		out[i], start = text[start:end], end
	}
	return out, true
}

// Ints reads an array of integers of any type that fit.
func (m *Meta) Ints(key string) ([]int64, bool) { return numbers(m, key, integer) }

// Floats reads an array of floating-point numbers.
func (m *Meta) Floats(key string) ([]float64, bool) { return numbers(m, key, float) }

func numbers[T any](m *Meta, key string, convert func(ValueType, uint64) (T, bool)) ([]T, bool) {
	p := m.find(key)
	if p == nil || p.Type != typeArray {
		return nil, false
	}
	if _, ok := convert(p.Elem, 0); !ok {
		return nil, false
	}
	out, s := make([]T, p.Len), m.scan(p)
	for i := range out {
		bits, err := s.bits(key, p.Elem)
		if err != nil {
			return nil, m.fail(err)
		}
		v, ok := convert(p.Elem, bits)
		if !ok {
			return nil, false
		}
		out[i] = v
	}
	return out, true
}

func (m *Meta) fail(err error) bool {
	if m.err == nil {
		m.err = err
	}
	return false
}

func (m *Meta) find(key string) *pair {
	i, ok := m.byKey[key]
	if !ok {
		return nil
	}
	return &m.pairs[i]
}

// scan starts at an array's elements and ends with them.
func (m *Meta) scan(p *pair) *scanner {
	return &scanner{r: m.r, size: m.size, limit: p.off + p.size, next: p.off}
}

func (m *Meta) read(s *scanner, n uint64) error {
	m.pairs = make([]pair, 0, n)
	m.byKey = make(map[string]int, n)
	for i := range int(n) {
		var p pair
		var err error
		field := fmt.Sprintf("kv %d key", i)
		if p.Key, err = s.text(field, maxKey); err != nil {
			return err
		}
		if p.Key == "" || strings.IndexFunc(p.Key, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
			return refuse(field, "%.80q must be printable ASCII", p.Key)
		}
		if _, ok := m.byKey[p.Key]; ok {
			return refuse(field, "%.80q appears twice", p.Key)
		}
		if err := p.read(s); err != nil {
			return err
		}
		m.byKey[p.Key] = i
		m.pairs = append(m.pairs, p)
	}
	return nil
}

func (p *pair) read(s *scanner) error {
	t, err := s.u32(p.Key)
	if err != nil {
		return err
	}
	p.Type = ValueType(t)
	switch {
	case p.Type == typeString:
		p.text, err = s.text(p.Key, maxHeader)
	case p.Type == typeArray:
		err = p.readArray(s)
	case p.Type < valueTypes:
		p.bits, err = s.bits(p.Key, p.Type)
	default:
		err = refuse(p.Key, "%v is not known", p.Type)
	}
	return err
}

// readArray walks over the elements and remembers where they are.
func (p *pair) readArray(s *scanner) error {
	t, err := s.u32(p.Key)
	if err != nil {
		return err
	}
	p.Elem = ValueType(t)
	size := uint64(p.Elem.size())
	switch {
	case p.Elem == typeString:
		size = minString
	case p.Elem == typeArray:
		return refuse(p.Key, "arrays of arrays are not supported")
	case size == 0:
		return refuse(p.Key, "an array of %v is not known", p.Elem)
	}
	n, err := s.count(p.Key, size, maxItems)
	if err != nil {
		return err
	}
	p.Len, p.off = int(n), s.off()
	if p.Elem != typeString {
		p.size = int64(n * size)
		return s.skip(p.Key, n*size)
	}
	for range n {
		size, err := s.u64(p.Key)
		if err != nil {
			return err
		}
		if err := s.skip(p.Key, size); err != nil {
			return err
		}
	}
	p.size = s.off() - p.off
	return nil
}

// bits reads a number or bool of type t, widened with its sign.
func (s *scanner) bits(field string, t ValueType) (uint64, error) {
	b, err := s.take(field, t.size())
	if err != nil {
		return 0, err
	}
	switch t {
	case typeI8:
		return uint64(int8(b[0])), nil
	case typeI16:
		return uint64(int16(binary.LittleEndian.Uint16(b))), nil
	case typeI32:
		return uint64(int32(binary.LittleEndian.Uint32(b))), nil
	case typeBool:
		if b[0] > 1 {
			return 0, refuse(field, "%d is neither false nor true", b[0])
		}
	}
	var word [8]byte
	copy(word[:], b)
	return binary.LittleEndian.Uint64(word[:]), nil
}

func integer(t ValueType, bits uint64) (int64, bool) {
	switch t {
	case typeU8, typeI8, typeU16, typeI16, typeU32, typeI32, typeI64:
		return int64(bits), true
	case typeU64:
		return int64(bits), bits <= math.MaxInt64
	}
	return 0, false
}

func float(t ValueType, bits uint64) (float64, bool) {
	switch t {
	case typeF32:
		return float64(math.Float32frombits(uint32(bits))), true
	case typeF64:
		return math.Float64frombits(bits), true
	}
	return 0, false
}

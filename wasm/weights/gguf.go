package weights

import (
	"fmt"
	"io"
	"math"
	"unicode/utf8"

	"kvlens/wasm/quant"
)

// Limits of a GGUF file. The format allows more, no model needs it.
const (
	maxFile    = 1 << 50
	maxHeader  = 64 << 20 // bytes of metadata and tensor table
	maxPairs   = 1 << 16
	maxTensors = 1 << 16
	maxItems   = 1 << 22 // of one array
	maxKey     = 1<<16 - 1
	maxName    = 63 // bytes of a tensor's name
	maxElems   = 1 << 40
)

// Smallest sizes in a file, to hold counts against the bytes that are there.
const (
	minPair   = 8 + 4 + 1         // empty key, type, one-byte value
	minTensor = 8 + 4 + 8 + 4 + 8 // empty name, one dimension, type, offset
	minString = 8
)

// FormatError says which field of a file is wrong. Fields of the metadata are named by their key, those of a tensor as
// tensor "name" field.
type FormatError struct{ Field, Msg string }

func (e *FormatError) Error() string { return fmt.Sprintf("weights: %s: %s", e.Field, e.Msg) }

func refuse(field, format string, args ...any) *FormatError {
	return &FormatError{field, fmt.Sprintf(format, args...)}
}

// File is an open GGUF file. Nothing of its tensors is in memory.
type File struct {
	Version uint32
	Size    int64 // bytes
	Meta    *Meta
	Tensors []Tensor // in file order

	r      io.ReaderAt
	byName map[string]int
	close  func() error
}

// Tensor is a matrix in a file. The file's first dimension is Cols, the input features; the others make Rows, so that a
// vector has one row.
type Tensor struct {
	Name       string
	Type       quant.Type
	Rows, Cols int
	Off, Size  int64 // bytes, from the start of the file
}

// Open reads the header of a GGUF file (version 2 or 3, little-endian) of the given size. Every tensor of the result
// lies inside the file, has a type that the engine reads and overlaps no other. What is wrong with the file itself is a
// *FormatError; other errors come from r.
func Open(r io.ReaderAt, size int64) (*File, error) {
	if size < 0 || size > maxFile {
		return nil, refuse("file", "%d bytes, at most %d are read", size, int64(maxFile))
	}
	f := &File{Size: size, Meta: &Meta{r: r, size: size}, r: r}
	s := &scanner{r: r, size: size, limit: min(size, maxHeader)}
	if err := f.readHeader(s); err != nil {
		return nil, err
	}
	return f, nil
}

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return f.Tensors[i], true
}

// ReadAt reads the file's bytes, as io.ReaderAt says.
func (f *File) ReadAt(p []byte, off int64) (int, error) { return f.r.ReadAt(p, off) }

// Close closes what OpenPath opened. A File from Open leaves its reader alone.
func (f *File) Close() error {
	if f.close == nil {
		return nil
	}
	return f.close()
}

func (f *File) readHeader(s *scanner) error {
	tensors, pairs, err := f.readCounts(s)
	if err != nil {
		return err
	}
	if err := f.Meta.read(s, pairs); err != nil {
		return err
	}
	if n, ok := f.Meta.Uint("split.count"); ok && n > 1 {
		return refuse("split.count", "the file is one of %d, split files are not supported", n)
	}
	align, err := f.alignment()
	if err != nil {
		return err
	}
	return f.readTensors(s, tensors, align)
}

func (f *File) readCounts(s *scanner) (tensors, pairs uint64, err error) {
	magic, err := s.u32("magic")
	if err != nil {
		return 0, 0, err
	}
	if magic != 0x46554747 {
		return 0, 0, refuse("magic", "%#08x, this is not a GGUF file", magic)
	}
	if f.Version, err = s.u32("version"); err != nil {
		return 0, 0, err
	}
	switch {
	case f.Version == 2 || f.Version == 3:
	case f.Version&0xFFFF == 0:
		return 0, 0, refuse("version", "%#08x, the file is big-endian", f.Version)
	default:
		return 0, 0, refuse("version", "%d, only 2 and 3 are read", f.Version)
	}
	if tensors, err = s.count("tensor_count", minTensor, maxTensors); err != nil {
		return 0, 0, err
	}
	pairs, err = s.count("kv_count", minPair, maxPairs)
	return tensors, pairs, err
}

func (f *File) alignment() (int64, error) {
	const key = "general.alignment"
	if !f.Meta.Has(key) {
		return 32, nil
	}
	n, ok := f.Meta.Uint(key)
	if !ok || n < 8 || n > 65536 || n&(n-1) != 0 {
		return 0, refuse(key, "must be a power of two from 8 to 65536")
	}
	return int64(n), nil
}

// readTensors reads the tensor table. Like the format's reference reader it demands that tensors follow each other in
// table order, each at the next aligned offset, so that none can overlap another.
func (f *File) readTensors(s *scanner, n uint64, align int64) error {
	f.Tensors = make([]Tensor, 0, n)
	f.byName = make(map[string]int, n)
	var next int64 // from the start of the data section
	for i := range int(n) {
		t, off, err := readTensor(s, i)
		if err != nil {
			return err
		}
		if _, ok := f.byName[t.Name]; ok {
			return refuse(fmt.Sprintf("tensor %d name", i), "%q appears twice", t.Name)
		}
		if off != uint64(next) {
			return refuse(t.field("offset"), "%d, the tensors before end at %d", off, next)
		}
		t.Off = next
		next = alignUp(next+t.Size, align) // cannot overflow: each size is at most f.Size, see below
		if next > f.Size+align {
			return refuse(t.field("size"), "%d bytes at offset %d are more than the file has", t.Size, off)
		}
		f.byName[t.Name] = i
		f.Tensors = append(f.Tensors, t)
	}
	data := alignUp(s.off(), align)
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if t.Off += data; t.Size > f.Size-t.Off {
			return refuse(t.field("size"), "%d bytes at byte %d are more than the file's %d", t.Size, t.Off, f.Size)
		}
	}
	return nil
}

// readTensor reads one row of the tensor table. Its size is at most the file's.
func readTensor(s *scanner, i int) (t Tensor, off uint64, err error) {
	field := fmt.Sprintf("tensor %d name", i)
	if t.Name, err = s.text(field, maxName); err != nil {
		return t, 0, err
	}
	if t.Name == "" || !utf8.ValidString(t.Name) {
		return t, 0, refuse(field, "%q is empty or not UTF-8", t.Name)
	}
	dims, err := s.u32(t.field("n_dims"))
	if err != nil {
		return t, 0, err
	}
	if dims < 1 || dims > 4 {
		return t, 0, refuse(t.field("n_dims"), "%d, must be 1 to 4", dims)
	}
	elems, cols := uint64(1), uint64(0)
	for d := range int(dims) {
		n, err := s.u64(t.field("dims"))
		if err != nil {
			return t, 0, err
		}
		if n == 0 || n > maxElems/elems {
			return t, 0, refuse(t.field("dims"), "dimension %d is %d", d, n)
		}
		elems *= n
		if d == 0 {
			cols = n
		}
	}
	id, err := s.u32(t.field("type"))
	if err != nil {
		return t, 0, err
	}
	t.Type = quant.Type(id)
	block, blockBytes := t.Type.Block()
	switch {
	case block == 0:
		return t, 0, refuse(t.field("type"), "%v is not supported", t.Type)
	case cols%uint64(block) != 0:
		return t, 0, refuse(t.field("dims"), "%d columns are no whole number of %v blocks", cols, t.Type)
	case elems/uint64(block) > uint64(s.size)/uint64(blockBytes):
		return t, 0, refuse(t.field("dims"), "%d weights of %v are more than the file has", elems, t.Type)
	case cols > math.MaxInt32 || elems/cols > math.MaxInt32:
		return t, 0, refuse(t.field("dims"), "%d×%d is too large", elems/cols, cols)
	}
	t.Rows, t.Cols = int(elems/cols), int(cols)
	t.Size = int64(elems / uint64(block) * uint64(blockBytes))
	off, err = s.u64(t.field("offset"))
	return t, off, err
}

func (t *Tensor) field(name string) string { return fmt.Sprintf("tensor %q %s", t.Name, name) }

func alignUp(n, align int64) int64 { return (n + align - 1) &^ (align - 1) }

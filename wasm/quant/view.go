package quant

import (
	"fmt"
	"unsafe"
)

// Number is a type whose values lie in packed planes and pages.
type Number interface {
	int8 | uint8 | uint16 | int32 | uint32 | float32
}

// Float32s, Uint32s, Uint16s and Int8s see bytes as numbers, without a copy and in the machine's byte order, which is
// little-endian wherever this program runs. They panic when b is not aligned or no whole number of elements: offsets of
// planes and pages are the caller's own arithmetic.
func Float32s(b []byte) []float32 { return view[float32](b) }

// Uint32s sees bytes as 32-bit words.
func Uint32s(b []byte) []uint32 { return view[uint32](b) }

// Uint16s sees bytes as 16-bit words.
func Uint16s(b []byte) []uint16 { return view[uint16](b) }

// Int8s sees bytes as signed bytes.
func Int8s(b []byte) []int8 { return view[int8](b) }

// Bytes sees numbers as bytes, without a copy.
func Bytes[T Number](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

func view[T Number](b []byte) []T {
	var zero T
	size := int(unsafe.Sizeof(zero))
	if len(b) == 0 {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if len(b)%size != 0 || uintptr(p)%uintptr(size) != 0 {
		panic(fmt.Sprintf("quant: %d bytes at %#x are no aligned elements of %d bytes", len(b), uintptr(p), size))
	}
	return unsafe.Slice((*T)(p), len(b)/size)
}

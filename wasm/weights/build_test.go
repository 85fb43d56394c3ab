package weights

import (
	"bytes"
	"encoding/binary"
	"math"
)

// builder writes GGUF files as the format's description says, right or wrong.
type builder struct{ bytes.Buffer }

func (b *builder) put(vs ...any) *builder {
	for _, v := range vs {
		switch v := v.(type) {
		case string:
			binary.Write(b, binary.LittleEndian, uint64(len(v)))
			b.WriteString(v)
		case []byte:
			b.Write(v)
		default:
			if err := binary.Write(b, binary.LittleEndian, v); err != nil {
				panic(err)
			}
		}
	}
	return b
}

func header(version uint32, tensors, pairs uint64) *builder {
	return new(builder).put([]byte("GGUF"), version, tensors, pairs)
}

func (b *builder) tensor(name string, typ uint32, off uint64, dims ...uint64) *builder {
	return b.put(name, uint32(len(dims)), dims, typ, off)
}

// data pads the header to a multiple of 32 and adds n bytes.
func (b *builder) data(n int) []byte {
	out := b.Bytes()
	out = append(out, make([]byte, -len(out)&31)...)
	for i := range n {
		out = append(out, byte(i))
	}
	return out
}

// allKinds is a small file with a value of every type.
func allKinds() []byte {
	b := header(3, 3, 20)
	b.put("u8", uint32(0), uint8(200), "i8", uint32(1), int8(-3), "u16", uint32(2), uint16(60000))
	b.put("i16", uint32(3), int16(-300), "u32", uint32(4), uint32(4e9), "i32", uint32(5), int32(-70000))
	b.put("f32", uint32(6), float32(1.5), "no", uint32(7), false, "yes", uint32(7), true)
	b.put("text", uint32(8), "a b\n\xff", "empty", uint32(8), "")
	b.put("u64", uint32(10), uint64(math.MaxUint64), "i64", uint32(11), int64(-1)<<40, "f64", uint32(12), 1e300)
	b.put("strings", uint32(9), uint32(8), uint64(4), "one", "", "three", "四")
	b.put("ints", uint32(9), uint32(5), uint64(3), []int32{3, -1, math.MaxInt32})
	b.put("bytes", uint32(9), uint32(0), uint64(2), []uint8{255, 0})
	b.put("big", uint32(9), uint32(10), uint64(1), uint64(math.MaxUint64))
	b.put("floats", uint32(9), uint32(6), uint64(2), []float32{-0.5, 1e-3})
	b.put("none", uint32(9), uint32(8), uint64(0))
	b.tensor("a", 3, 0, 32, 2)        // Q4_1: 2 blocks of 20 bytes
	b.tensor("b", 0, 64, 3)           // F32: 12 bytes
	b.tensor("c", 8, 96, 64, 2, 1, 3) // Q8_0: 12 blocks of 34 bytes
	return b.data(96 + 408)
}

package simd

// The module's functions, with the parameters of the C sources.

//go:wasmimport simd available
//go:noescape
func available() int32

//go:wasmimport simd quantize
//go:noescape
func quantize(x *float32, rows, groups int32, code *int16, scale, sum *float32)

//go:wasmimport simd matmul4
//go:noescape
func matmul4(code *uint8, scales *uint32, rows, groups int32, a *int16, scale, sum *float32, count int32, out *float32, stride, add int32, scratch *float32)

//go:wasmimport simd matmul8
//go:noescape
func matmul8(code *uint8, scales *uint16, rows, groups int32, a *int16, scale, sum *float32, count int32, out *float32, stride, add int32, scratch *float32)

//go:wasmimport simd halves
//go:noescape
func halves(h *uint16, n int32, out *float32)

//go:wasmimport simd weights4
//go:noescape
func weights4(code *uint8, scales *uint32, count int32, out *float32)

//go:wasmimport simd weights8
//go:noescape
func weights8(code *uint8, scales *uint16, count int32, out *float32)

//go:wasmimport simd matmulf
//go:noescape
func matmulf(w *float32, rows, cols int32, x *float32, count int32, out *float32, stride, add int32)

//go:wasmimport simd rmsnorm
//go:noescape
func rmsnorm(out, x, w *float32, n int32, eps float32)

//go:wasmimport simd silumul
//go:noescape
func silumul(gate, up *float32, n int32)

//go:wasmimport simd attend
//go:noescape
func attend(q, out *float32, rows, heads, stride, dim int32, scale float32,
	arena *uint8, keys *uint32, keyLanes, keyHalf int32, values *uint32, valueLanes, valueHalf int32,
	positions *uint32, slots int32, k, v *float32, kvStride, kvRows, seen int32, work *float32)

//go:wasmimport simd gather
//go:noescape
func gather(out *float32, arena *uint8, table *uint32, lanes, half int32, slots *uint32, n, dim int32)

//go:wasmimport simd logits
//go:noescape
func logits(out, q, k *float32, n, dim int32, scale float32, scratch *float32)

//go:wasmimport simd softmax
//go:noescape
func softmax(row *float32, n int32, scratch *float32)

//go:wasmimport simd columns
//go:noescape
func columns(q *float32, rows, stride int32, k *float32, dim, seen int32, scale float32, out, work *float32, row int32)

//go:wasmimport simd mass
//go:noescape
func mass(out, x *float32, rows, cols int32, by float32)

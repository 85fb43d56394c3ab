// Package simd is the Go face of the engine's hot loops in the browser: a small WebAssembly module (src/*.c;
// built by build.sh) with 128-bit SIMD, which Go's compiler does not emit.
//
// The module imports Go's own memory and works in place on Go's slices, without a copy; Go's collector does not move
// objects, and nothing else runs during a call. Its functions are leaves that keep their state in registers: the module
// has no memory, stack, data, table or globals of its own, so it can't get into Go's way (trim/main_test.go checks it).
// web/static/simd.js connects the two. A call costs about a quarter of a microsecond.
//
// Every function here checks its slices against the sizes that it passes on and panics if one is too short: a wrong size
// is a defect of the caller, and must not write into memory that belongs to something else.
//
// Outside the browser the package is empty.
package simd

//go:generate ./build.sh

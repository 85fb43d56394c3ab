// Shared by the kernels. Every function is a leaf that keeps its state in registers: the module has no stack, no
// data and no globals, and works on memory that belongs to Go (see doc.go).
#ifndef KVLENS_KERNELS_H
#define KVLENS_KERNELS_H

#include <stdint.h>
#include <wasm_simd128.h>

#define EXPORT(name) __attribute__((export_name(#name))) void name
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")

// group is the number of weights that share a scale.
enum { group = 32 };

// padded rounds a number of groups up to whole vectors: rows of scales are that long.
INLINE int padded(int groups) { return (groups + 3) & ~3; }

INLINE v128_t splat(const float *p) { return wasm_v128_load32_splat(p); }

INLINE float sum4(v128_t v) {
  v = wasm_f32x4_add(v, wasm_i32x4_shuffle(v, v, 2, 3, 0, 1));
  v = wasm_f32x4_add(v, wasm_i32x4_shuffle(v, v, 1, 0, 3, 2));
  return wasm_f32x4_extract_lane(v, 0);
}

// sums gives the four lane sums of four vectors.
INLINE v128_t sums(v128_t a, v128_t b, v128_t c, v128_t d) {
  v128_t ab = wasm_f32x4_add(wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), wasm_i32x4_shuffle(a, b, 2, 6, 3, 7));
  v128_t cd = wasm_f32x4_add(wasm_i32x4_shuffle(c, d, 0, 4, 1, 5), wasm_i32x4_shuffle(c, d, 2, 6, 3, 7));
  return wasm_f32x4_add(wasm_i32x4_shuffle(ab, cd, 0, 1, 4, 5), wasm_i32x4_shuffle(ab, cd, 2, 3, 6, 7));
}

// Half floats: moving the 15 lower bits to their place in a float gives the value times 2^-112, subnormal halves
// included. Infinity and NaN are not kept: no weight, key or value may hold them.

// half4 converts the halves in the upper 16 bits of each lane.
INLINE v128_t half4(v128_t upper) {
  v128_t bits = wasm_v128_and(wasm_i32x4_shr(upper, 3), wasm_i32x4_splat((int)0x8FFFE000));
  return wasm_f32x4_mul(bits, wasm_f32x4_splat(0x1p112f));
}

INLINE v128_t half_low(v128_t h) { return half4(wasm_i16x8_shuffle(wasm_i32x4_splat(0), h, 0, 8, 1, 9, 2, 10, 3, 11)); }
INLINE v128_t half_high(v128_t h) { return half4(wasm_i16x8_shuffle(wasm_i32x4_splat(0), h, 4, 12, 5, 13, 6, 14, 7, 15)); }

INLINE float half1(uint32_t h) {
  union {
    int32_t i;
    float f;
  } u = {((int32_t)(h << 16) >> 3) & (int32_t)0x8FFFE000};
  return u.f * 0x1p112f;
}

// exp4 is e^x for x ≤ 0 within 2 units in the last place; 0 below −87. Range reduction by ln 2 in two parts, then the
// polynomial of degree 6 of the Taylor series on [−ln2/2, ln2/2].
INLINE v128_t exp4(v128_t x) {
  v128_t tiny = wasm_f32x4_lt(x, wasm_f32x4_splat(-87.0f));
  x = wasm_f32x4_max(x, wasm_f32x4_splat(-87.0f));
  v128_t n = wasm_f32x4_nearest(wasm_f32x4_mul(x, wasm_f32x4_splat(1.44269504f)));
  v128_t r = wasm_f32x4_sub(x, wasm_f32x4_mul(n, wasm_f32x4_splat(0.693145752f)));
  r = wasm_f32x4_sub(r, wasm_f32x4_mul(n, wasm_f32x4_splat(1.42860677e-6f)));
  v128_t p = wasm_f32x4_splat(1.0f / 720);
  p = wasm_f32x4_add(wasm_f32x4_mul(p, r), wasm_f32x4_splat(1.0f / 120));
  p = wasm_f32x4_add(wasm_f32x4_mul(p, r), wasm_f32x4_splat(1.0f / 24));
  p = wasm_f32x4_add(wasm_f32x4_mul(p, r), wasm_f32x4_splat(1.0f / 6));
  p = wasm_f32x4_add(wasm_f32x4_mul(p, r), wasm_f32x4_splat(0.5f));
  p = wasm_f32x4_add(wasm_f32x4_mul(p, r), wasm_f32x4_splat(1.0f));
  p = wasm_f32x4_add(wasm_f32x4_mul(p, r), wasm_f32x4_splat(1.0f));
  v128_t scale = wasm_i32x4_shl(wasm_i32x4_add(wasm_i32x4_trunc_sat_f32x4(n), wasm_i32x4_splat(127)), 23);
  return wasm_v128_andnot(wasm_f32x4_mul(p, scale), tiny);
}

#endif

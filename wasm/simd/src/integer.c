// Products of packed 4- and 8-bit matrices with activations that are quantised to int16 per group of 32. The instruction
// that the products are made of multiplies pairs of int16, so 8 bits would be no faster: the codes use all 16, and what
// is lost is 256 times less. A sum of 32 products with 8-bit weights stays below 2^27.
#include "kernels.h"
#include "unpack.h"

enum { most_code = 32767 };

// quantize turns rows of groups·32 activations into codes, scales and sums: x ≈ code·scale, and sum = scale·Σcode. Rows
// of scales and sums are padded(groups) long, padded with zeros.
EXPORT(quantize)(const float *x, int rows, int groups, int16_t *code, float *scale, float *sum) {
  for (int t = 0; t < rows; t++) {
    for (int g = 0; g < groups; g++, x += group, code += group) {
      v128_t v[8];
      v128_t top = wasm_f32x4_splat(0);
      UNROLL for (int i = 0; i < 8; i++) {
        v[i] = wasm_v128_load(x + 4 * i);
        top = wasm_f32x4_max(top, wasm_f32x4_abs(v[i]));
      }
      top = wasm_f32x4_max(top, wasm_i32x4_shuffle(top, top, 2, 3, 0, 1));
      top = wasm_f32x4_max(top, wasm_i32x4_shuffle(top, top, 1, 0, 3, 2));
      float most = wasm_f32x4_extract_lane(top, 0);
      float inverse = most == 0 ? 0 : most_code / most;
      v128_t inv = wasm_f32x4_splat(inverse);
      v128_t total = wasm_i32x4_splat(0);
      UNROLL for (int i = 0; i < 4; i++) {
        v128_t a = wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest(wasm_f32x4_mul(v[2 * i], inv)));
        v128_t b = wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest(wasm_f32x4_mul(v[2 * i + 1], inv)));
        total = wasm_i32x4_add(total, wasm_i32x4_add(a, b));
        wasm_v128_store(code + 8 * i, wasm_i16x8_narrow_i32x4(a, b));
      }
      scale[g] = most / most_code;
      sum[g] = most / most_code * sum4(wasm_f32x4_convert_i32x4(total));
    }
    for (int g = groups; g < padded(groups); g++) scale[g] = sum[g] = 0;
    scale += padded(groups);
    sum += padded(groups);
  }
}

// Wide is 32 weights as int16.
typedef struct {
  v128_t v[4];
} wide;

INLINE wide widen4(const uint8_t *code) {
  v128_t c = wasm_v128_load(code);
  v128_t lo = wasm_v128_and(c, wasm_i8x16_splat(15));
  v128_t hi = wasm_u8x16_shr(c, 4);
  return (wide){{wasm_u16x8_extend_low_u8x16(lo), wasm_u16x8_extend_high_u8x16(lo), wasm_u16x8_extend_low_u8x16(hi),
                 wasm_u16x8_extend_high_u8x16(hi)}};
}

INLINE wide widen8(const uint8_t *code) {
  return (wide){{wasm_i16x8_load8x8(code), wasm_i16x8_load8x8(code + 8), wasm_i16x8_load8x8(code + 16),
                 wasm_i16x8_load8x8(code + 24)}};
}

INLINE wide widen(int bits, const uint8_t *code) { return bits == 4 ? widen4(code) : widen8(code); }

// products is the sum of the group's 32 products in four parts.
INLINE v128_t products(wide w, const int16_t *a) {
  v128_t s = wasm_i32x4_dot_i16x8(w.v[0], wasm_v128_load(a));
  s = wasm_i32x4_add(s, wasm_i32x4_dot_i16x8(w.v[1], wasm_v128_load(a + 8)));
  s = wasm_i32x4_add(s, wasm_i32x4_dot_i16x8(w.v[2], wasm_v128_load(a + 16)));
  return wasm_i32x4_add(s, wasm_i32x4_dot_i16x8(w.v[3], wasm_v128_load(a + 24)));
}

// tokens is one weight row times count tokens: the weights are widened once for all of them.
INLINE void tokens(int bits, int count, const uint8_t *code, int groups, const float *scale, const float *min,
                   const int16_t *a, const float *as, const float *sum, float *out, int stride, int add) {
  const int n = padded(groups), step = bits * group / 8, cols = groups * group;
  v128_t acc[8];
  UNROLL for (int t = 0; t < count; t++) acc[t] = wasm_f32x4_splat(0);
  for (int g = 0; g < groups; g++) {
    wide w = widen(bits, code + g * step);
    v128_t s = splat(scale + g);
    UNROLL for (int t = 0; t < count; t++) {
      v128_t p = products(w, a + t * cols + g * group);
      acc[t] = wasm_f32x4_add(acc[t],
                              wasm_f32x4_mul(wasm_f32x4_convert_i32x4(p), wasm_f32x4_mul(s, splat(as + t * n + g))));
    }
  }
  if (bits == 4) {
    // Behind the row's minima come others, which meet the zeros behind its sums.
    for (int g = 0; g < groups; g += 4) {
      v128_t m = wasm_v128_load(min + g);
      UNROLL for (int t = 0; t < count; t++) acc[t] =
          wasm_f32x4_add(acc[t], wasm_f32x4_mul(m, wasm_v128_load(sum + t * n + g)));
    }
  }
  UNROLL for (int t = 0; t < count; t++) put(out + t * stride, sum4(acc[t]), add);
}

// matmul is out[t·stride + r] = W[r]·a[t], or += if add is set. It takes a few rows at a time, so that they stay in the
// nearest cache for all tokens; one token alone reads the weights in their order, which is what the memory is fastest
// at. scratch holds 2·few·padded(groups) floats.
INLINE void matmul(int bits, const uint8_t *code, const void *packed, int rows, int groups, const int16_t *a,
                   const float *as, const float *sum, int count, float *out, int stride, int add, float *scratch) {
  enum { few = 4 };
  const int row = groups * bits * group / 8, n = padded(groups), cols = groups * group;
  const uint32_t *packed4 = packed;
  const uint16_t *packed8 = packed;
  float *scale = scratch, *min = scratch + few * n;
  for (int i = 0; i < 2 * few * n; i += 4) wasm_v128_store(scratch + i, wasm_f32x4_splat(0));
  for (int r = 0; r < rows; r += few) {
    const int have = rows - r < few ? rows - r : few;
    if (bits == 4)
      unpack4(packed4 + r * groups, have * groups, scale, min);
    else
      unpack8(packed8 + r * groups, have * groups, scale);
    const uint8_t *c = code + r * row;
    for (int t = 0; t < count;) {
      const int16_t *at = a + t * cols;
      const float *ast = as + t * n, *sumt = sum + t * n;
      float *o = out + t * stride + r;
      const int left = count - t;
      const int take = left >= 8 ? 8 : left >= 4 ? 4 : 1;
      for (int i = 0; i < have; i++) {
        const uint8_t *ci = c + i * row;
        const float *si = scale + i * groups, *mi = min + i * groups;
        if (take == 8)
          tokens(bits, 8, ci, groups, si, mi, at, ast, sumt, o + i, stride, add);
        else if (take == 4)
          tokens(bits, 4, ci, groups, si, mi, at, ast, sumt, o + i, stride, add);
        else
          tokens(bits, 1, ci, groups, si, mi, at, ast, sumt, o + i, stride, add);
      }
      t += take;
    }
  }
}

EXPORT(matmul4)(const uint8_t *code, const void *packed, int rows, int groups, const int16_t *a, const float *as,
                const float *sum, int count, float *out, int stride, int add, float *scratch) {
  matmul(4, code, packed, rows, groups, a, as, sum, count, out, stride, add, scratch);
}

EXPORT(matmul8)(const uint8_t *code, const void *packed, int rows, int groups, const int16_t *a, const float *as,
                const float *sum, int count, float *out, int stride, int add, float *scratch) {
  matmul(8, code, packed, rows, groups, a, as, sum, count, out, stride, add, scratch);
}

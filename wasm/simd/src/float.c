// Products and element-wise loops in f32.
#include "kernels.h"
#include "unpack.h"

// halves converts n half floats.
EXPORT(halves)(const uint16_t *h, int n, float *out) {
  int i = 0;
  for (; i + 8 <= n; i += 8) {
    v128_t v = wasm_v128_load(h + i);
    wasm_v128_store(out + i, half_low(v));
    wasm_v128_store(out + i + 4, half_high(v));
  }
  for (; i < n; i++) out[i] = half1(h[i]);
}

// bytes8 stores eight int16 as floats: v·scale + min.
INLINE void bytes8(float *out, v128_t v, v128_t scale, v128_t min) {
  v128_t lo = wasm_f32x4_convert_i32x4(wasm_i32x4_extend_low_i16x8(v));
  v128_t hi = wasm_f32x4_convert_i32x4(wasm_i32x4_extend_high_i16x8(v));
  wasm_v128_store(out, wasm_f32x4_add(wasm_f32x4_mul(lo, scale), min));
  wasm_v128_store(out + 4, wasm_f32x4_add(wasm_f32x4_mul(hi, scale), min));
}

// weights4 and weights8 unpack count groups, which lie one after the other, to floats.
EXPORT(weights4)(const uint8_t *code, const uint32_t *packed, int count, float *out) {
  for (int g = 0; g < count; g++, code += 16, out += group) {
    v128_t scale = wasm_f32x4_splat(half1(packed[g] & 0xFFFF)), min = wasm_f32x4_splat(half1(packed[g] >> 16));
    v128_t c = wasm_v128_load(code);
    v128_t lo = wasm_v128_and(c, wasm_i8x16_splat(15)), hi = wasm_u8x16_shr(c, 4);
    bytes8(out, wasm_u16x8_extend_low_u8x16(lo), scale, min);
    bytes8(out + 8, wasm_u16x8_extend_high_u8x16(lo), scale, min);
    bytes8(out + 16, wasm_u16x8_extend_low_u8x16(hi), scale, min);
    bytes8(out + 24, wasm_u16x8_extend_high_u8x16(hi), scale, min);
  }
}

EXPORT(weights8)(const int8_t *code, const uint16_t *packed, int count, float *out) {
  for (int g = 0; g < count; g++) {
    v128_t scale = wasm_f32x4_splat(half1(packed[g])), zero = wasm_f32x4_splat(0);
    for (int i = 0; i < group; i += 8, code += 8, out += 8) bytes8(out, wasm_i16x8_load8x8(code), scale, zero);
  }
}

// block is r rows of w times t vectors of x.
INLINE void block(int r, int t, const float *w, int cols, const float *x, float *out, int stride, int add) {
  v128_t acc[8];
  UNROLL for (int i = 0; i < r * t; i++) acc[i] = wasm_f32x4_splat(0);
  int c = 0;
  for (; c + 4 <= cols; c += 4) {
    v128_t wv[4];
    UNROLL for (int i = 0; i < r; i++) wv[i] = wasm_v128_load(w + i * cols + c);
    UNROLL for (int j = 0; j < t; j++) {
      v128_t xv = wasm_v128_load(x + j * cols + c);
      UNROLL for (int i = 0; i < r; i++) acc[j * r + i] = wasm_f32x4_add(acc[j * r + i], wasm_f32x4_mul(wv[i], xv));
    }
  }
  UNROLL for (int j = 0; j < t; j++) UNROLL for (int i = 0; i < r; i++) {
    float s = sum4(acc[j * r + i]);
    for (int k = c; k < cols; k++) s += w[i * cols + k] * x[j * cols + k];
    put(out + j * stride + i, s, add);
  }
}

// matmulf is out[t·stride + r] = w[r]·x[t], or += if add is set; w is rows × cols, x is count × cols.
EXPORT(matmulf)(const float *w, int rows, int cols, const float *x, int count, float *out, int stride, int add) {
  int t = 0;
  for (; t + 4 <= count; t += 4) {
    int r = 0;
    for (; r + 2 <= rows; r += 2) block(2, 4, w + r * cols, cols, x + t * cols, out + t * stride + r, stride, add);
    for (; r < rows; r++) block(1, 4, w + r * cols, cols, x + t * cols, out + t * stride + r, stride, add);
  }
  for (; t < count; t++) {
    int r = 0;
    for (; r + 4 <= rows; r += 4) block(4, 1, w + r * cols, cols, x + t * cols, out + t * stride + r, stride, add);
    for (; r < rows; r++) block(1, 1, w + r * cols, cols, x + t * cols, out + t * stride + r, stride, add);
  }
}

// rmsnorm is out = x·w / √(mean(x²) + eps), for one row.
EXPORT(rmsnorm)(float *out, const float *x, const float *w, int n, float eps) {
  v128_t acc[4];
  UNROLL for (int i = 0; i < 4; i++) acc[i] = wasm_f32x4_splat(0);
  int c = 0;
  for (; c + 16 <= n; c += 16) {
    UNROLL for (int i = 0; i < 4; i++) {
      v128_t v = wasm_v128_load(x + c + 4 * i);
      acc[i] = wasm_f32x4_add(acc[i], wasm_f32x4_mul(v, v));
    }
  }
  float total = sum4(wasm_f32x4_add(wasm_f32x4_add(acc[0], acc[1]), wasm_f32x4_add(acc[2], acc[3])));
  for (; c < n; c++) total += x[c] * x[c];
  v128_t scale = wasm_f32x4_div(wasm_f32x4_splat(1), wasm_f32x4_sqrt(wasm_f32x4_splat(total / (float)n + eps)));
  for (c = 0; c + 4 <= n; c += 4)
    wasm_v128_store(out + c, wasm_f32x4_mul(wasm_f32x4_mul(wasm_v128_load(x + c), scale), wasm_v128_load(w + c)));
  for (; c < n; c++) out[c] = x[c] * wasm_f32x4_extract_lane(scale, 0) * w[c];
}

// silu4 is g / (1 + e^-g), with e^-|g| so that nothing overflows.
INLINE v128_t silu4(v128_t g) {
  v128_t one = wasm_f32x4_splat(1), e = exp4(wasm_f32x4_neg(wasm_f32x4_abs(g)));
  v128_t top = wasm_v128_bitselect(e, one, wasm_f32x4_lt(g, wasm_f32x4_splat(0)));
  return wasm_f32x4_mul(g, wasm_f32x4_div(top, wasm_f32x4_add(one, e)));
}

// silumul is gate = gate/(1 + e^-gate)·up.
EXPORT(silumul)(float *gate, const float *up, int n) {
  int i = 0;
  for (; i + 4 <= n; i += 4)
    wasm_v128_store(gate + i, wasm_f32x4_mul(silu4(wasm_v128_load(gate + i)), wasm_v128_load(up + i)));
  for (; i < n; i++) gate[i] = wasm_f32x4_extract_lane(silu4(wasm_f32x4_splat(gate[i])), 0) * up[i];
}

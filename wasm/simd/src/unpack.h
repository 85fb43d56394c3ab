// Scales and minima of packed rows, as floats.
#ifndef KVLENS_UNPACK_H
#define KVLENS_UNPACK_H

#include "kernels.h"

// unpack4 converts one row's scales and minima to floats, padded with zeros.
INLINE void unpack4(const uint32_t *packed, int groups, float *scale, float *min) {
  int g = 0;
  for (; g + 4 <= groups; g += 4) {
    v128_t p = wasm_v128_load(packed + g);
    wasm_v128_store(scale + g, half4(wasm_i32x4_shl(p, 16)));
    wasm_v128_store(min + g, half4(p));
  }
  for (; g < groups; g++) {
    scale[g] = half1(packed[g] & 0xFFFF);
    min[g] = half1(packed[g] >> 16);
  }
  for (; g < padded(groups); g++) scale[g] = min[g] = 0;
}

INLINE void unpack8(const uint16_t *packed, int groups, float *scale) {
  int g = 0;
  for (; g + 8 <= groups; g += 8) {
    v128_t p = wasm_v128_load(packed + g);
    wasm_v128_store(scale + g, half_low(p));
    wasm_v128_store(scale + g + 4, half_high(p));
  }
  for (; g < groups; g++) scale[g] = half1(packed[g]);
}

INLINE void put(float *out, float v, int add) { *out = add ? *out + v : v; }

INLINE void put4(float *out, v128_t v, int add) {
  wasm_v128_store(out, add ? wasm_f32x4_add(wasm_v128_load(out), v) : v);
}

#endif

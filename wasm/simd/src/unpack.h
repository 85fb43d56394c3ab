// Scales and minima of packed rows, as floats.
#ifndef KVLENS_UNPACK_H
#define KVLENS_UNPACK_H

#include "kernels.h"

// unpack4 converts the scales and minima of n groups.
INLINE void unpack4(const uint32_t *packed, int n, float *scale, float *min) {
  int g = 0;
  for (; g + 4 <= n; g += 4) {
    v128_t p = wasm_v128_load(packed + g);
    wasm_v128_store(scale + g, half4(wasm_i32x4_shl(p, 16)));
    wasm_v128_store(min + g, half4(p));
  }
  for (; g < n; g++) {
    scale[g] = half1(packed[g] & 0xFFFF);
    min[g] = half1(packed[g] >> 16);
  }
}

// unpack8 converts the scales of n groups.
INLINE void unpack8(const uint16_t *packed, int n, float *scale) {
  int g = 0;
  for (; g + 8 <= n; g += 8) {
    v128_t p = wasm_v128_load(packed + g);
    wasm_v128_store(scale + g, half_low(p));
    wasm_v128_store(scale + g + 4, half_high(p));
  }
  for (; g < n; g++) scale[g] = half1(packed[g]);
}

INLINE void put(float *out, float v, int add) { *out = add ? *out + v : v; }

#endif

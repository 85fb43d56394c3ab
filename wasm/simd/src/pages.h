// Lanes of pages as floats.
#ifndef KVLENS_PAGES_H
#define KVLENS_PAGES_H

#include "kernels.h"

// lane copies or converts one lane of a page.
INLINE void lane(const uint8_t *page, int index, int half, int dim, float *out) {
  if (half) {
    const uint16_t *h = (const uint16_t *)page + index * dim;
    for (int d = 0; d < dim; d += 8) {
      v128_t v = wasm_v128_load(h + d);
      wasm_v128_store(out + d, half_low(v));
      wasm_v128_store(out + d + 4, half_high(v));
    }
  } else {
    const float *f = (const float *)page + index * dim;
    for (int d = 0; d < dim; d += 4) wasm_v128_store(out + d, wasm_v128_load(f + d));
  }
}

#endif

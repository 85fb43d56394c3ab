// Logits: products of queries and keys.
#ifndef KVLENS_SCORES_H
#define KVLENS_SCORES_H

#include "kernels.h"

INLINE int least(int a, int b) { return a < b ? a : b; }

// dots gives the products of count queries with two keys: lanes 0 and 1 of pair[i] add up to query i's with the first
// key, lanes 2 and 3 to that with the second.
INLINE void dots(int count, int dim, const float *const *q, const float *k0, const float *k1, v128_t *pair) {
  v128_t a[3], b[3];
  UNROLL for (int i = 0; i < count; i++) a[i] = b[i] = wasm_f32x4_splat(0);
  for (int d = 0; d < dim; d += 4) {
    v128_t u = wasm_v128_load(k0 + d), v = wasm_v128_load(k1 + d);
    UNROLL for (int i = 0; i < count; i++) {
      v128_t x = wasm_v128_load(q[i] + d);
      a[i] = wasm_f32x4_add(a[i], wasm_f32x4_mul(x, u));
      b[i] = wasm_f32x4_add(b[i], wasm_f32x4_mul(x, v));
    }
  }
  UNROLL for (int i = 0; i < count; i++) pair[i] =
      wasm_f32x4_add(wasm_i32x4_shuffle(a[i], b[i], 0, 1, 4, 5), wasm_i32x4_shuffle(a[i], b[i], 2, 3, 6, 7));
}

// scores writes the logits of count queries for n keys, kstride apart, in rows that are row apart, and something for the
// keys that fill the last vector.
INLINE void scores(float *score, int row, float scale, int dim, int count, const float *const *q, const float *k,
                   int kstride, int n) {
  for (int j = 0; j < n; j += 4) {
    const float *key[4];
    v128_t first[3], second[3];
    UNROLL for (int u = 0; u < 4; u++) key[u] = k + least(j + u, n - 1) * kstride;
    dots(count, dim, q, key[0], key[1], first);
    dots(count, dim, q, key[2], key[3], second);
    UNROLL for (int i = 0; i < count; i++) {
      v128_t even = wasm_i32x4_shuffle(first[i], second[i], 0, 2, 4, 6);
      v128_t odd = wasm_i32x4_shuffle(first[i], second[i], 1, 3, 5, 7);
      wasm_v128_store(score + i * row + j, wasm_f32x4_mul(wasm_f32x4_add(even, odd), wasm_f32x4_splat(scale)));
    }
  }
}

#endif

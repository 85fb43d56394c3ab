// Attention of the query heads that share one key-value head, with a running softmax over tiles of keys
// (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018): whatever the number of keys, the
// scratch stays in the first-level cache and half floats are converted once for all queries.
#include "kernels.h"

enum { tile = 32, pos_lanes = 8 };

static const uint32_t dead = 0xFFFFFFFF;

// queries are what attends: rows × heads vectors of dim floats, row t and head g at t·stride + g·dim. out is laid out
// alike and holds the weighted values, not yet divided by their weight. state holds, per query, the largest logit so
// far and the sum of weights; score is scratch for two rows of a tile.
typedef struct {
  const float *q;
  float *out, *state, *score;
  int rows, heads, stride, dim;
  float scale;
} queries;

INLINE int offset(const queries *a, int i) { return i / a->heads * a->stride + i % a->heads * a->dim; }

INLINE int least(int a, int b) { return a < b ? a : b; }

// scores writes the logits of count queries for n keys.
INLINE void scores(const queries *a, int count, const float *const *q, const float *k, int kstride, int n) {
  for (int j = 0; j < n; j += 4) {
    const float *key[4];
    v128_t acc[8];
    UNROLL for (int u = 0; u < 4; u++) key[u] = k + least(j + u, n - 1) * kstride;
    UNROLL for (int u = 0; u < 4 * count; u++) acc[u] = wasm_f32x4_splat(0);
    for (int d = 0; d < a->dim; d += 4) {
      v128_t qv[2];
      UNROLL for (int i = 0; i < count; i++) qv[i] = wasm_v128_load(q[i] + d);
      UNROLL for (int u = 0; u < 4; u++) {
        v128_t kv = wasm_v128_load(key[u] + d);
        UNROLL for (int i = 0; i < count; i++) acc[4 * i + u] =
            wasm_f32x4_add(acc[4 * i + u], wasm_f32x4_mul(qv[i], kv));
      }
    }
    UNROLL for (int i = 0; i < count; i++)
      wasm_v128_store(a->score + i * tile + j, wasm_f32x4_mul(sums(acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]),
                                                              wasm_f32x4_splat(a->scale)));
  }
}

// weigh turns one query's logits into weights, of which the first n count and the rest up to full are zero, and
// returns the factor for what was summed before.
INLINE float weigh(float *score, int n, int full, float *state) {
  v128_t least_ = wasm_f32x4_splat(-__builtin_inff());
  v128_t top = least_, lane = wasm_i32x4_make(0, 1, 2, 3);
  for (int j = 0; j < full; j += 4) {
    v128_t in = wasm_i32x4_lt(wasm_i32x4_add(lane, wasm_i32x4_splat(j)), wasm_i32x4_splat(n));
    v128_t s = wasm_v128_bitselect(wasm_v128_load(score + j), least_, in);
    top = wasm_f32x4_max(top, s);
    wasm_v128_store(score + j, s);
  }
  top = wasm_f32x4_max(top, wasm_i32x4_shuffle(top, top, 2, 3, 0, 1));
  top = wasm_f32x4_max(top, wasm_i32x4_shuffle(top, top, 1, 0, 3, 2));
  top = wasm_f32x4_max(top, wasm_f32x4_splat(state[0]));
  v128_t total = wasm_f32x4_splat(0);
  for (int j = 0; j < full; j += 4) {
    v128_t p = exp4(wasm_f32x4_sub(wasm_v128_load(score + j), top));
    total = wasm_f32x4_add(total, p);
    wasm_v128_store(score + j, p);
  }
  float factor = wasm_f32x4_extract_lane(exp4(wasm_f32x4_sub(wasm_f32x4_splat(state[0]), top)), 0);
  state[0] = wasm_f32x4_extract_lane(top, 0);
  state[1] = state[1] * factor + sum4(total);
  return factor;
}

// values adds n weighted values to width·4 floats of count queries.
INLINE void values(int count, int width, float *const *out, const float *factor, const float *score, const float *v,
                   int vstride, int n) {
  v128_t acc[8];
  UNROLL for (int i = 0; i < count; i++) UNROLL for (int d = 0; d < width; d++) acc[width * i + d] =
      wasm_f32x4_mul(wasm_v128_load(out[i] + 4 * d), wasm_f32x4_splat(factor[i]));
  for (int j = 0; j < n; j++, v += vstride) {
    v128_t p[2];
    UNROLL for (int i = 0; i < count; i++) p[i] = splat(score + i * tile + j);
    UNROLL for (int d = 0; d < width; d++) {
      v128_t vv = wasm_v128_load(v + 4 * d);
      UNROLL for (int i = 0; i < count; i++) acc[width * i + d] =
          wasm_f32x4_add(acc[width * i + d], wasm_f32x4_mul(p[i], vv));
    }
  }
  UNROLL for (int i = 0; i < count; i++) UNROLL for (int d = 0; d < width; d++)
      wasm_v128_store(out[i] + 4 * d, acc[width * i + d]);
}

// some lets count queries from number i on see one tile; query row t sees its first least(n, first + t) keys.
INLINE void some(const queries *a, int count, int i, const float *k, const float *v, int stride, int n, int first) {
  const float *q[2];
  float *out[2], factor[2];
  int see[2];
  UNROLL for (int u = 0; u < count; u++) {
    q[u] = a->q + offset(a, i + u);
    out[u] = a->out + offset(a, i + u);
    see[u] = least(n, first + (i + u) / a->heads);
  }
  const int most = see[count - 1]; // rows only see more, later
  if (most <= 0) return;
  scores(a, count, q, k, stride, most);
  UNROLL for (int u = 0; u < count; u++) factor[u] =
      see[u] <= 0 ? 1 : weigh(a->score + u * tile, see[u], (most + 3) & ~3, a->state + 2 * (i + u));
  if (see[0] <= 0)
    for (int j = 0; j < most; j++) a->score[j] = 0;
  int d = 0;
  for (; d + 16 <= a->dim; d += 16) {
    float *at[2];
    UNROLL for (int u = 0; u < count; u++) at[u] = out[u] + d;
    values(count, 4, at, factor, a->score, v + d, stride, most);
  }
  for (; d < a->dim; d += 4) {
    float *at[2];
    UNROLL for (int u = 0; u < count; u++) at[u] = out[u] + d;
    values(count, 1, at, factor, a->score, v + d, stride, most);
  }
}

INLINE void attend(const queries *a, const float *k, const float *v, int stride, int n, int first) {
  int i = 0;
  for (; i + 2 <= a->rows * a->heads; i += 2) some(a, 2, i, k, v, stride, n, first);
  if (i < a->rows * a->heads) some(a, 1, i, k, v, stride, n, first);
}

// attend_start clears what the queries have summed.
EXPORT(attend_start)(float *out, float *state, int rows, int heads, int stride, int dim) {
  for (int t = 0; t < rows; t++)
    for (int d = 0; d < heads * dim; d += 4) wasm_v128_store(out + t * stride + d, wasm_f32x4_splat(0));
  for (int i = 0; i < rows * heads; i++) {
    state[2 * i] = -__builtin_inff();
    state[2 * i + 1] = 0;
  }
}

// attend_end divides by the sum of weights.
EXPORT(attend_end)(float *out, const float *state, int rows, int heads, int stride, int dim) {
  for (int i = 0; i < rows * heads; i++) {
    v128_t by = wasm_f32x4_splat(state[2 * i + 1] > 0 ? 1 / state[2 * i + 1] : 0);
    float *o = out + i / heads * stride + i % heads * dim;
    for (int d = 0; d < dim; d += 4) wasm_v128_store(o + d, wasm_f32x4_mul(wasm_v128_load(o + d), by));
  }
}

// attend_rows attends over n keys and values that are floats, row j at j·kvstride; query row t sees the first
// first + t of them. work holds 2·tile floats.
EXPORT(attend_rows)(const float *q, float *out, float *state, int rows, int heads, int stride, int dim, float scale,
                    const float *k, const float *v, int kvstride, int n, int first, float *work) {
  const queries a = {q, out, state, work, rows, heads, stride, dim, scale};
  for (int j = 0; j < n; j += tile)
    attend(&a, k + j * kvstride, v + j * kvstride, kvstride, least(tile, n - j), first - j);
}

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

// attend_pages attends over the live slots of one list. The tables hold the offset of each page from the arena's start
// in words; pages have key_lanes and value_lanes lanes. work holds 2·tile·(dim + 1) floats.
EXPORT(attend_pages)(const float *q, float *out, float *state, int rows, int heads, int stride, int dim, float scale,
                     const uint8_t *arena, const uint32_t *keys, int key_lanes, int key_half, const uint32_t *vals,
                     int value_lanes, int value_half, const uint32_t *positions, int slots, float *work) {
  float *k = work + 2 * tile, *v = k + tile * dim;
  const queries a = {q, out, state, work, rows, heads, stride, dim, scale};
  int n = 0, kp = 0, kl = 0, vp = 0, vl = 0; // tokens in the tile; page and lane of the slot's key and value
  for (int s = 0; s < slots; s++) {
    const uint32_t *position = (const uint32_t *)arena + positions[s / pos_lanes] + s % pos_lanes;
    if (*position != dead) {
      lane(arena + 4 * keys[kp], kl, key_half, dim, k + n * dim);
      lane(arena + 4 * vals[vp], vl, value_half, dim, v + n * dim);
      n++;
    }
    if (++kl == key_lanes) kl = 0, kp++;
    if (++vl == value_lanes) vl = 0, vp++;
    if (n == tile || (n > 0 && s == slots - 1)) {
      attend(&a, k, v, dim, n, n);
      n = 0;
    }
  }
}

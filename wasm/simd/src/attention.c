// Attention of the query heads that share one key-value head, with a running softmax over tiles of keys
// (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018): whatever the number of keys, the
// scratch stays in the first-level cache and half floats are converted once for all queries.
#include "kernels.h"
#include "pages.h"
#include "scores.h"

enum { tile = 32, pos_lanes = 8 };

static const uint32_t dead = 0xFFFFFFFF;

// queries are what attends: rows × heads vectors of dim floats, row t and head g at t·stride + g·dim. out is laid out
// alike and holds the weighted values, not yet divided by their weight. state holds, per query, the largest logit so
// far and the sum of weights; score is scratch for three rows of a tile.
typedef struct {
  const float *q;
  float *out, *state, *score;
  int rows, heads, stride, dim;
  float scale;
} queries;

INLINE int offset(const queries *a, int i) { return i / a->heads * a->stride + i % a->heads * a->dim; }

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
    v128_t p[3];
    UNROLL for (int i = 0; i < count; i++) p[i] = splat(score + i * tile + j);
    UNROLL for (int d = 0; d < width; d++) {
      v128_t x = wasm_v128_load(v + 4 * d);
      UNROLL for (int i = 0; i < count; i++) acc[width * i + d] =
          wasm_f32x4_add(acc[width * i + d], wasm_f32x4_mul(p[i], x));
    }
  }
  UNROLL for (int i = 0; i < count; i++) UNROLL for (int d = 0; d < width; d++)
      wasm_v128_store(out[i] + 4 * d, acc[width * i + d]);
}

// see lets count queries from number i on see one tile; query row t sees its first least(n, first + t) keys.
INLINE void see(const queries *a, int count, int i, const float *k, const float *v, int stride, int n, int first) {
  const float *q[3];
  float *out[3], factor[3];
  const int most = least(n, first + (i + count - 1) / a->heads); // later rows see more
  if (most <= 0) return;
  UNROLL for (int u = 0; u < count; u++) {
    q[u] = a->q + offset(a, i + u);
    out[u] = a->out + offset(a, i + u);
  }
  scores(a->score, tile, a->scale, a->dim, count, q, k, stride, most);
  UNROLL for (int u = 0; u < count; u++) {
    const int visible = least(n, first + (i + u) / a->heads);
    factor[u] = weigh(a->score + u * tile, visible, (most + 3) & ~3, a->state + 2 * (i + u));
  }
  // As many at a time as the registers hold.
  const int width = count == 3 ? 2 : 4;
  int d = 0;
  for (; d + 4 * width <= a->dim; d += 4 * width) {
    float *at[3];
    UNROLL for (int u = 0; u < count; u++) at[u] = out[u] + d;
    values(count, width, at, factor, a->score, v + d, stride, most);
  }
  for (; d < a->dim; d += 4) {
    float *at[3];
    UNROLL for (int u = 0; u < count; u++) at[u] = out[u] + d;
    values(count, 1, at, factor, a->score, v + d, stride, most);
  }
}

// attend is the whole of it. First come the live slots of one list: the tables hold the offset of each page from the
// arena's start in words; pages have key_lanes and value_lanes lanes. Then come rows keys and values k, v that are
// floats, row j at j·kvstride; query row t sees the first seen + t of them. A query that sees nothing gets zeros. work
// holds 2·rows·heads + tile·(3 + 2·dim) floats.
EXPORT(attend)(const float *q, float *out, int rows, int heads, int stride, int dim, float scale, const uint8_t *arena,
               const uint32_t *keys, int key_lanes, int key_half, const uint32_t *vals, int value_lanes, int value_half,
               const uint32_t *positions, int slots, const float *k, const float *v, int kvstride, int kvrows, int seen,
               float *work) {
  float *state = work, *score = work + 2 * rows * heads, *key = score + 3 * tile, *value = key + tile * dim;
  const queries a = {q, out, state, score, rows, heads, stride, dim, scale};
  const int count = rows * heads;
  for (int i = 0; i < count; i++) {
    for (int d = 0; d < dim; d += 4) wasm_v128_store(out + offset(&a, i) + d, wasm_f32x4_splat(0));
    state[2 * i] = -0x1.fffffep127f; // less than any logit, and finite: a difference to it is a number
    state[2 * i + 1] = 0;
  }
  int kp = 0, kl = 0, vp = 0, vl = 0; // page and lane of the slot's key and value
  for (int slot = 0, row = 0; slot < slots || row < kvrows;) {
    const float *tk = key, *tv = value;
    int n = 0, tstride = dim, first = tile;
    if (slot < slots) {
      for (; slot < slots && n < tile; slot++) {
        const uint32_t *position = (const uint32_t *)arena + positions[slot / pos_lanes] + slot % pos_lanes;
        if (*position != dead) {
          lane(arena + 4 * keys[kp], kl, key_half, dim, key + n * dim);
          lane(arena + 4 * vals[vp], vl, value_half, dim, value + n * dim);
          n++;
        }
        if (++kl == key_lanes) kl = 0, kp++;
        if (++vl == value_lanes) vl = 0, vp++;
      }
    } else {
      tk = k + row * kvstride, tv = v + row * kvstride, tstride = kvstride;
      n = least(tile, kvrows - row);
      first = seen - row;
      row += n;
    }
    for (int i = 0; i < count;) {
      const int left = count - i;
      if (left == 3 || left > 4) {
        see(&a, 3, i, tk, tv, tstride, n, first);
        i += 3;
      } else if (left > 1) {
        see(&a, 2, i, tk, tv, tstride, n, first);
        i += 2;
      } else {
        see(&a, 1, i, tk, tv, tstride, n, first);
        i++;
      }
    }
  }
  for (int i = 0; i < count; i++) {
    float *o = out + offset(&a, i);
    v128_t by = wasm_f32x4_splat(state[2 * i + 1] > 0 ? 1 / state[2 * i + 1] : 0);
    for (int d = 0; d < dim; d += 4) wasm_v128_store(o + d, wasm_f32x4_mul(wasm_v128_load(o + d), by));
  }
}

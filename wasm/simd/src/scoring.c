// What recipes score tokens by.
#include "pages.h"
#include "scores.h"

// gather unpacks the lanes of n slots, one after the other. table holds the offset of each page from the arena's start in
// words; slot i is lane i mod lanes of page i div lanes.
EXPORT(gather)(float *out, const uint8_t *arena, const uint32_t *table, int lanes, int half, const uint32_t *slots, int n,
               int dim) {
  for (int i = 0; i < n; i++) {
    const uint32_t slot = slots[i], page = slot / (uint32_t)lanes;
    lane(arena + 4 * (uintptr_t)table[page], (int)(slot - page * (uint32_t)lanes), half, dim, out + i * dim);
  }
}

// logits is scale · q·k[i] for n keys. scratch takes four of them.
EXPORT(logits)(float *out, const float *q, const float *k, int n, int dim, float scale, float *scratch) {
  const int whole = n & ~3;
  const float *one[1] = {q};
  if (whole > 0) scores(out, 0, scale, dim, 1, one, k, dim, whole);
  if (whole == n) return;
  scores(scratch, 0, scale, dim, 1, one, k + whole * dim, dim, n - whole);
  for (int i = whole; i < n; i++) out[i] = scratch[i - whole];
}

// weights turns n logits into e^(l − largest), the rest up to full into zeros, and returns their sum. full is a multiple
// of 4.
INLINE float weights(float *row, int n, int full) {
  const v128_t lowest = wasm_f32x4_splat(-__builtin_inff()), lane_ = wasm_i32x4_make(0, 1, 2, 3);
  v128_t top = wasm_f32x4_splat(-0x1.fffffep127f), total = wasm_f32x4_splat(0); // finite: differences are numbers
  for (int j = 0; j < full; j += 4) {
    v128_t in = wasm_i32x4_lt(wasm_i32x4_add(lane_, wasm_i32x4_splat(j)), wasm_i32x4_splat(n));
    v128_t s = wasm_v128_bitselect(wasm_v128_load(row + j), lowest, in);
    top = wasm_f32x4_max(top, s);
    wasm_v128_store(row + j, s);
  }
  top = wasm_f32x4_max(top, wasm_i32x4_shuffle(top, top, 2, 3, 0, 1));
  top = wasm_f32x4_max(top, wasm_i32x4_shuffle(top, top, 1, 0, 3, 2));
  for (int j = 0; j < full; j += 4) {
    v128_t p = exp4(wasm_f32x4_sub(wasm_v128_load(row + j), top));
    total = wasm_f32x4_add(total, p);
    wasm_v128_store(row + j, p);
  }
  return sum4(total);
}

// softmax replaces n logits by their softmax; where all are −∞, by zeros. scratch takes n of them and up to 3 more.
EXPORT(softmax)(float *row, int n, float *scratch) {
  const int full = (n + 3) & ~3;
  int i = 0;
  for (; i + 4 <= n; i += 4) wasm_v128_store(scratch + i, wasm_v128_load(row + i));
  for (; i < n; i++) scratch[i] = row[i];
  const float sum = weights(scratch, n, full);
  const v128_t by = wasm_f32x4_splat(sum > 0 ? 1 / sum : 0);
  for (i = 0; i + 4 <= n; i += 4) wasm_v128_store(row + i, wasm_f32x4_mul(wasm_v128_load(scratch + i), by));
  for (; i < n; i++) row[i] = scratch[i] * wasm_f32x4_extract_lane(by, 0);
}

// rows3 adds count rows' attention. Row t of them sees the first seen + t keys.
INLINE void rows3(int count, const float *q, int stride, const float *k, int dim, int seen, float scale, float *out,
                  float *work, int row) {
  const float *at[3];
  v128_t by[3];
  const int most = seen + count - 1, full = (most + 3) & ~3;
  UNROLL for (int u = 0; u < count; u++) at[u] = q + u * stride;
  scores(work, row, scale, dim, count, at, k, dim, most);
  UNROLL for (int u = 0; u < count; u++) {
    const float sum = weights(work + u * row, seen + u, full);
    by[u] = wasm_f32x4_splat(sum > 0 ? 1 / sum : 0);
  }
  int j = 0;
  for (; j + 4 <= most; j += 4) {
    v128_t o = wasm_v128_load(out + j);
    UNROLL for (int u = 0; u < count; u++) o =
        wasm_f32x4_add(o, wasm_f32x4_mul(by[u], wasm_v128_load(work + u * row + j)));
    wasm_v128_store(out + j, o);
  }
  for (; j < most; j++) UNROLL for (int u = 0; u < count; u++) out[j] +=
      wasm_f32x4_extract_lane(by[u], 0) * work[u * row + j];
}

// columns adds the attention of rows queries of one head, stride apart, to a sum for each key; row t sees the first
// seen + t keys. work holds three rows of logits, which are row apart, a multiple of 4 and no less than any row sees.
EXPORT(columns)(const float *q, int rows, int stride, const float *k, int dim, int seen, float scale, float *out,
                float *work, int row) {
  int t = 0;
  for (; t + 3 <= rows; t += 3) rows3(3, q + t * stride, stride, k, dim, seen + t, scale, out, work, row);
  for (; t < rows; t++) rows3(1, q + t * stride, stride, k, dim, seen + t, scale, out, work, row);
}

// mass adds by · Σ|x| to a number for each of some rows of x, which lie one after the other.
EXPORT(mass)(float *out, const float *x, int rows, int cols, float by) {
  for (int r = 0; r < rows; r++, x += cols) {
    v128_t a = wasm_f32x4_splat(0), b = a;
    int c = 0;
    for (; c + 8 <= cols; c += 8) {
      a = wasm_f32x4_add(a, wasm_f32x4_abs(wasm_v128_load(x + c)));
      b = wasm_f32x4_add(b, wasm_f32x4_abs(wasm_v128_load(x + c + 4)));
    }
    float total = sum4(wasm_f32x4_add(a, b));
    for (; c < cols; c++) total += __builtin_fabsf(x[c]);
    out[r] += by * total;
  }
}

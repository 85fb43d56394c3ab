// Recipes: one row of scores for each KV head of those of its query heads: smoothed over neighbouring candidates before or
// after the reduction, which is over the head's group or, in a recipe that has one set for a layer, over all scored heads.
//
// Shapes: rows [scored heads][STRIDE]; lse [scored heads]; worth [kv_heads][STRIDE].
// Grid: x, y over candidates and KV heads.
struct Params {
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
  form: u32,     // of rows: PLAIN, LOGITS, or sums of attention that SUMS or PER_QUERY adds to those of stored tokens
  windowed: u32, // 1: the last QUERIES candidates have no score and are no neighbours
  pool: u32,     // 0, AVERAGE or HIGHEST
  size: u32,     // of the neighbourhood, at least 1
  after: u32,    // 1: smoothed after the reduction
  reduce: u32,   // MEAN, MAX, SUM or LAYER
  share: u32,    // 1: KV heads whose candidates are the same have the mean of their scores
  values: u32,   // 1: times the norm of the value
  epsilon: f32,  // what is added before that
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(4) var<storage, read> kv: array<f32>;
@group(0) @binding(5) var<storage, read> arena: array<u32>;
@group(0) @binding(6) var<storage, read> lse: array<f32>;
@group(0) @binding(7) var<storage, read> rows: array<f32>;
@group(0) @binding(10) var<storage, read_write> worth: array<f32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lanes.wgsl
//!include lib/candidates.wgsl
//!include lib/beside.wgsl

// The numbers are those of kernel/scoring.go.
const LOGITS: u32 = 1u;
const SUMS: u32 = 2u;
const PER_QUERY: u32 = 3u;
const AVERAGE: u32 = 1u;
const HIGHEST: u32 = 2u;
const MEAN: u32 = 0u;
const MAX: u32 = 1u;
const LAYER: u32 = 3u;

// Candidates of a KV head that have scores.
fn prefix(h: u32) -> u32 {
  return candidates(h) - tokens[QUERIES] * p.windowed;
}

// Row s of scores at candidate j.
fn raw(s: u32, j: u32) -> f32 {
  var x = rows[s * tokens[STRIDE] + j];
  if (p.form == LOGITS) {
    return exp(x - lse[s]);
  }
  let h = kv_head(scored_head(s));
  if (p.form >= SUMS && j < stored(h)) {
    x += bitcast<f32>(arena[accumulated_at(list_of(h), slot_of(h, j))]);
  }
  if (p.form == PER_QUERY) {
    x /= f32(position_of(h, candidates(h) - 1u) - position_of(h, j) + 1u);
  }
  return x;
}

// The neighbourhood of candidate j, from x and below y; beyond the ends is nothing.
fn around(j: u32, end: u32) -> vec2<u32> {
  let half = p.size / 2u;
  return vec2<u32>(max(j, half) - half, min(j + p.size - half, end));
}

fn smoothed(s: u32, j: u32) -> f32 {
  let end = prefix(kv_head(scored_head(s)));
  if (p.pool == 0u || p.after == 1u || j >= end) {
    return raw(s, j);
  }
  let near = around(j, end);
  var acc = select(0.0, INVALID, p.pool == HIGHEST);
  for (var i = near.x; i < near.y; i++) {
    let x = raw(s, i);
    acc = select(acc + x, max(acc, x), p.pool == HIGHEST);
  }
  return select(acc, acc / f32(p.size), p.pool == AVERAGE);
}

// The candidate of a KV head at a position, NONE if there is none; j is tried first.
fn find(h: u32, position: u32, j: u32) -> u32 {
  var low = 0u;
  var high = candidates(h);
  if (j < high && position_of(h, j) == position) {
    return j;
  }
  while (low < high) {
    let middle = (low + high) / 2u;
    if (position_of(h, middle) < position) {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }
  if (low < candidates(h) && position_of(h, low) == position) {
    return low;
  }
  return NONE;
}

fn reduced(h: u32, j: u32) -> f32 {
  var n = 0.0;
  var sum = 0.0;
  var top = INVALID;
  for (var s = 0u; s < tokens[SCORED]; s++) {
    if (kv_head(scored_head(s)) == h && p.reduce != LAYER) {
      let x = smoothed(s, j);
      n += 1.0;
      sum += x;
      top = max(top, x);
    }
  }
  if (n > 0.0) {
    if (p.reduce == MAX) {
      return top;
    }
    return select(sum, sum / n, p.reduce == MEAN);
  }
  // All scored heads, as far as they have this token: for one set, and for a group of which no head is scored.
  let position = position_of(h, j);
  for (var s = 0u; s < tokens[SCORED]; s++) {
    let i = find(kv_head(scored_head(s)), position, j);
    if (i != NONE) {
      n += 1.0;
      sum += smoothed(s, i);
    }
  }
  return sum / max(n, 1.0);
}

fn settled(h: u32, j: u32) -> f32 {
  var x: f32;
  let end = prefix(h);
  if (p.pool != 0u && p.after == 1u && j < end) {
    let near = around(j, end);
    x = select(0.0, INVALID, p.pool == HIGHEST);
    for (var i = near.x; i < near.y; i++) {
      let y = reduced(h, i);
      x = select(x + y, max(x, y), p.pool == HIGHEST);
    }
    x = select(x, x / f32(p.size), p.pool == AVERAGE);
  } else {
    x = reduced(h, j);
  }
  if (p.values == 1u) {
    let value = value_of(h, j);
    var squares = 0.0;
    for (var c = 0u; c < p.dim / 2u; c++) {
      let v = value_pair(value, c);
      squares += dot(v, v);
    }
    x = (x + p.epsilon) * sqrt(squares);
  }
  return x;
}

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let n = thread(id, groups);
  let h = n / tokens[STRIDE];
  let j = n % tokens[STRIDE];
  if (h >= p.kv_heads) {
    return;
  }
  if (j >= candidates(h)) {
    worth[n] = INVALID;
    return;
  }
  if (p.share == 0u || tokens[SAME] == 0u) {
    worth[n] = settled(h, j);
    return;
  }
  var sum = 0.0;
  for (var g = 0u; g < p.kv_heads; g++) {
    sum += settled(g, j);
  }
  worth[n] = sum / f32(p.kv_heads);
}

// Recipes: one row of scores for each KV head of those of its query heads: smoothed over neighbouring candidates before or
// after the reduction, which is over the head's group or, in a recipe that has one set for a layer, over all scored heads.
//
// Shapes: rows [scored heads][STRIDE], behind them stats [scored heads][STRIDE][2]; lse [scored heads]; worth
// [kv_heads][STRIDE], behind them totals [GROUP][2]: the layer's entropy and variance in parts that the host adds up (CAKE).
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
  totals: u32,   // 1: of stats too
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
//!include lib/sharers.wgsl

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
    // Queries that could look; to what was stored the new rows', and a moving average that counts as one.
    x /= f32(min(candidates(h) - j, tokens[NEW] + 1u));
  }
  return x;
}

// The neighbourhood of candidate j, where it is smoothed: from x and below y, beyond the ends is nothing; and what its sum
// is divided by.
fn around(j: u32, end: u32, smoothed: bool) -> vec3<u32> {
  if (p.pool == 0u || !smoothed || j >= end) {
    return vec3<u32>(j, j + 1u, 1u);
  }
  let half = p.size / 2u;
  return vec3<u32>(max(j, half) - half, min(j + p.size - half, end), select(1u, p.size, p.pool == AVERAGE));
}

fn join(acc: f32, x: f32) -> f32 {
  return select(acc + x, max(acc, x), p.pool == HIGHEST);
}

fn nothing() -> f32 {
  return select(0.0, INVALID, p.pool == HIGHEST);
}

// The candidate of a KV head at a position, NONE if there is none; j is tried first.
fn find(h: u32, position: u32, j: u32) -> u32 {
  let count = candidates(h);
  var low = 0u;
  var high = count;
  var middle = min(j, count - 1u);
  while (low < high) {
    let at = position_of(h, middle);
    if (at == position) {
      return middle;
    }
    if (at < position) {
      low = middle + 1u;
    } else {
      high = middle;
    }
    middle = (low + high) / 2u;
  }
  return NONE;
}

fn smoothed(s: u32, j: u32) -> f32 {
  let near = around(j, prefix(kv_head(scored_head(s))), p.after == 0u);
  var acc = nothing();
  for (var i = near.x; i < near.y; i++) {
    acc = join(acc, raw(s, i));
  }
  return acc / f32(near.z);
}

// Whether a head of the group is scored.
fn scores(h: u32) -> bool {
  for (var s = 0u; s < tokens[SCORED]; s++) {
    if (kv_head(scored_head(s)) == h) {
      return true;
    }
  }
  return false;
}

// Over the group; or for one set, and for a group of which no head is scored, the mean over all scored heads, as far as
// they have this token.
fn reduced(h: u32, j: u32) -> f32 {
  let position = position_of(h, j);
  let layer = p.reduce == LAYER || !scores(h);
  var n = 0.0;
  var sum = 0.0;
  var top = INVALID;
  for (var s = 0u; s < tokens[SCORED]; s++) {
    let head = kv_head(scored_head(s));
    if (!layer && head != h) {
      continue;
    }
    let i = find(head, position, j);
    if (i != NONE) {
      let x = smoothed(s, i);
      n += 1.0;
      sum += x;
      top = max(top, x);
    }
  }
  if (layer || p.reduce == MEAN) {
    return sum / max(n, 1.0);
  }
  return select(sum, top, p.reduce == MAX);
}

fn settled(h: u32, j: u32) -> f32 {
  let near = around(j, prefix(h), p.after == 1u);
  var acc = nothing();
  for (var i = near.x; i < near.y; i++) {
    acc = join(acc, reduced(h, i));
  }
  let x = acc / f32(near.z);
  if (p.values == 0u) {
    return x;
  }
  let value = value_of(h, j);
  var squares = 0.0;
  for (var c = 0u; c < p.dim / 2u; c++) {
    let v = value_pair(value, c);
    squares += dot(v, v);
  }
  return (x + p.epsilon) * sqrt(squares);
}

// Adds up every GROUP-th entry of stats.
fn total(part: u32) {
  let entries = tokens[SCORED] * tokens[STRIDE];
  var sum = vec2<f32>(0.0, 0.0);
  for (var i = part; i < entries; i += GROUP) {
    sum += vec2<f32>(rows[entries + 2u * i], rows[entries + 2u * i + 1u]);
  }
  let at = p.kv_heads * tokens[STRIDE] + 2u * part;
  worth[at] = sum.x;
  worth[at + 1u] = sum.y;
}

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let n = thread(id, groups);
  let h = n / tokens[STRIDE];
  let j = n % tokens[STRIDE];
  if (p.totals == 1u && n < GROUP) {
    total(n);
  }
  if (h >= p.kv_heads) {
    return;
  }
  if (j >= candidates(h)) {
    worth[n] = INVALID;
    return;
  }
  let heads = sharers(h);
  var sum = 0.0;
  for (var g = heads.x; g < heads.y; g++) {
    sum += settled(g, j);
  }
  worth[n] = sum / f32(heads.y - heads.x);
}

// Recipes: the attention that queries give to each candidate, summed over the queries: those of an observation window
// (SnapKV, Li et al., 2024), or chunk by chunk those of a whole prompt (H2O, Zhang et al., 2023). Second pass, after lse.wgsl.
//
// Shapes: lse [scored heads][QUERIES]; rows [scored heads][STRIDE].
// Grid: x, y over tiles of TILE candidates and scored heads.
struct Params {
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
  scale: f32,
  windowed: u32, // 1: the last QUERIES candidates get 0; 0: sums go on from chunk to chunk
  mean: u32,     // 1: sums are divided by QUERIES
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(3) var<storage, read> q: array<f32>;
@group(0) @binding(4) var<storage, read> kv: array<f32>;
@group(0) @binding(5) var<storage, read> arena: array<u32>;
@group(0) @binding(6) var<storage, read> lse: array<f32>;
@group(0) @binding(7) var<storage, read_write> rows: array<f32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lanes.wgsl
//!include lib/candidates.wgsl

const PAIRS: u32 = 1u; // dim/2
const TILE: u32 = 2u;  // candidates of a thread, which reads a query once for all: STRIDE is a multiple

var<private> keys: array<array<vec2<f32>, TILE>, PAIRS>;

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let n = thread(id, groups) * TILE;
  let s = n / tokens[STRIDE];
  if (s >= tokens[SCORED]) {
    return;
  }
  let first = n % tokens[STRIDE];
  let head = scored_head(s);
  let h = kv_head(head);
  let queries = tokens[QUERIES];
  let count = candidates(h);
  let before = stored(h) + tokens[FIRST_ROW]; // the candidate that is the first query's own token
  for (var t = 0u; t < TILE; t++) {
    let key = key_of(h, min(first + t, count - 1u));
    for (var c = 0u; c < PAIRS; c++) {
      keys[c][t] = key_pair(key, c) * p.scale;
    }
  }
  var sums: array<f32, TILE>;
  var logits: array<f32, TILE>;
  for (var i = max(first, before) - before; i < queries; i++) {
    let query = ((tokens[FIRST] + i) % tokens[AROUND] * p.heads + head) * p.dim;
    for (var t = 0u; t < TILE; t++) {
      logits[t] = 0.0;
    }
    for (var c = 0u; c < PAIRS; c++) {
      let x = vec2<f32>(q[query + 2u * c], q[query + 2u * c + 1u]);
      for (var t = 0u; t < TILE; t++) {
        logits[t] += dot(keys[c][t], x);
      }
    }
    for (var t = 0u; t < TILE; t++) {
      sums[t] += select(0.0, exp(logits[t] - lse[s * queries + i]), first + t <= before + i);
    }
  }
  for (var t = 0u; t < TILE; t++) {
    let j = first + t;
    var sum = sums[t];
    if (p.mean == 1u) {
      sum /= f32(queries);
    }
    if (p.windowed == 1u && j + queries >= count) {
      sum = 0.0;
    }
    if (p.windowed == 0u && tokens[FIRST_ROW] > 0u) {
      sum += rows[n + t];
    }
    rows[n + t] = select(INVALID, sum, j < count);
  }
}

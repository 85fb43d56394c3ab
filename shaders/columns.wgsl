// Recipes: the attention that queries give to each candidate, summed over the queries: those of an observation window
// (SnapKV, Li et al., 2024), or chunk by chunk those of a whole prompt (H2O, Zhang et al., 2023). Second pass, after lse.wgsl.
//
// Shapes: lse [scored heads][QUERIES]; rows [scored heads][STRIDE].
// Grid: x, y over candidates and scored heads.
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
//!include lib/logit_keys.wgsl

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let n = thread(id, groups);
  let s = n / tokens[STRIDE];
  if (s >= tokens[SCORED]) {
    return;
  }
  let j = n % tokens[STRIDE];
  let h = kv_head(scored_head(s));
  let queries = tokens[QUERIES];
  let count = candidates(h);
  if (j >= count) {
    rows[n] = INVALID;
    return;
  }
  if (p.windowed == 1u && j + queries >= count) {
    rows[n] = 0.0;
    return;
  }
  let before = stored(h) + tokens[FIRST_ROW]; // the candidate that is the first query's own token
  var i = 0u;
  if (j > before) {
    i = j - before;
  }
  hold_key(h, j);
  var sum = 0.0;
  for (; i < queries; i++) {
    sum += exp(logit_by(s, i) - lse[s * queries + i]);
  }
  if (p.mean == 1u) {
    sum /= f32(queries);
  }
  if (p.windowed == 0u && tokens[FIRST_ROW] > 0u) {
    sum += rows[n];
  }
  rows[n] = sum;
}

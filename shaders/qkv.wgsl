// Queries, keys and values in one: RMS norm, product with the stacked matrix, RoPE on queries and keys, and where they
// belong: scratch rows, or in recorded decode the slot of the new token.
//
// Shapes: W [(heads + 2·kv_heads)·dim][cols], X [prompt rows][cols], q [n][heads·dim]; n = session[ROWS].
// Grid: x, y over pairs of channels of all heads, LANES threads each; z over tiles of TILE rows. Both rows of a rotated
// pair are computed by the same threads, so that rotation needs no second pass.
struct Params {
  cols: u32,
  codes_at: u32,
  scales_at: u32,
  eps: f32,
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
  rot: u32,
  neox: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> codes: array<u32>;
@group(0) @binding(3) var<storage, read> scales: array<u32>;
@group(0) @binding(4) var<storage, read> x: array<f32>;
//!include lib/normed.wgsl
@group(0) @binding(6) var<storage, read> rope: array<f32>;
@group(0) @binding(7) var<storage, read_write> q: array<f32>;
//!include lib/{sink}.wgsl

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/weights_{layout}.wgsl
//!include {product}.wgsl
//!include lib/rotate.wgsl

fn input4(t: u32, k: u32) -> vec4<f32> {
  let at = (session[FROM] + min(t, session[ROWS] - 1u)) * p.cols + k;
  return vec4<f32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
}

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let pairs = (p.heads + 2u * p.kv_heads) * p.dim / 2u;
  let n = thread(id, groups);
  let unit = min(n / LANES, pairs - 1u);
  let h = unit / (p.dim / 2u);
  let i = unit % (p.dim / 2u);
  let channels = pair_of(i);
  let t0 = id.z * TILE;
  product(h * p.dim + channels.x, t0, id.x % GROUP);
  var first: array<f32, TILE>;
  for (var t = 0u; t < TILE; t++) {
    first[t] = sums[t];
  }
  product(h * p.dim + channels.y, t0, id.x % GROUP);
  if (n / LANES >= pairs || n % LANES != 0u) {
    return;
  }
  for (var t = 0u; t < TILE; t++) {
    if (t0 + t < session[ROWS]) {
      put(rotated(vec2<f32>(first[t], sums[t]), h, i, session[POS] + t0 + t), h, i, t0 + t);
    }
  }
}

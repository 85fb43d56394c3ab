// Recipes: −cos of each candidate's key and the mean direction of all (KeyDiff, Park et al., 2025): keys unlike the others
// are worth the most. Where either has no length it is 0.
//
// Shapes: directions [kv_heads][PARTS][dim]; worth [kv_heads][STRIDE].
// Grid: x, y over candidates and KV heads.
const PARTS: u32 = 16u;

struct Params {
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
  share: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(4) var<storage, read> kv: array<f32>;
@group(0) @binding(5) var<storage, read> arena: array<u32>;
@group(0) @binding(10) var<storage, read_write> worth: array<f32>;
@group(0) @binding(11) var<storage, read> directions: array<f32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lanes.wgsl
//!include lib/candidates.wgsl
//!include lib/sharers.wgsl

fn score(h: u32, j: u32) -> f32 {
  let key = key_of(h, j);
  var product = 0.0;
  var length = 0.0;
  var squares = 0.0;
  for (var c = 0u; c < p.dim / 2u; c++) {
    var mean = vec2<f32>(0.0, 0.0);
    for (var part = 0u; part < PARTS; part++) {
      let at = (h * PARTS + part) * p.dim + 2u * c;
      mean += vec2<f32>(directions[at], directions[at + 1u]);
    }
    let x = key_pair(key, c);
    product += dot(x, mean);
    length += dot(x, x);
    squares += dot(mean, mean);
  }
  let lengths = sqrt(length) * sqrt(squares);
  if (lengths > 0.0) {
    return -product / lengths;
  }
  return 0.0;
}

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let n = thread(id, groups);
  let h = n / tokens[STRIDE];
  let j = n % tokens[STRIDE];
  if (h >= p.kv_heads || j >= candidates(h)) {
    return;
  }
  let heads = sharers(h);
  var sum = 0.0;
  for (var g = heads.x; g < heads.y; g++) {
    sum += score(g, j);
  }
  worth[n] = sum / f32(heads.y - heads.x);
}

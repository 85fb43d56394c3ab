// Recipes: the sum of the directions of a KV head's keys, in PARTS parts that keydiff.wgsl adds up (KeyDiff, Park et al.,
// 2025). Keys of no length have none.
//
// Shapes: worth [kv_heads][STRIDE]: the norms of keys; directions [kv_heads][PARTS][dim].
// Grid: x, y over pairs of channels, parts and KV heads; a part takes every PARTS-th candidate.
const PARTS: u32 = 16u;

struct Params {
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(4) var<storage, read> kv: array<f32>;
@group(0) @binding(5) var<storage, read> arena: array<u32>;
@group(0) @binding(10) var<storage, read> worth: array<f32>;
@group(0) @binding(11) var<storage, read_write> directions: array<f32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lanes.wgsl
//!include lib/candidates.wgsl

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let n = thread(id, groups);
  let c = n % (p.dim / 2u);
  let part = n / (p.dim / 2u) % PARTS;
  let h = n / (p.dim / 2u) / PARTS;
  if (h >= p.kv_heads) {
    return;
  }
  var sum = vec2<f32>(0.0, 0.0);
  for (var j = part; j < candidates(h); j += PARTS) {
    let norm = worth[h * tokens[STRIDE] + j];
    if (norm > 0.0) {
      sum += key_pair(key_of(h, j), c) / norm;
    }
  }
  directions[2u * n] = sum.x;
  directions[2u * n + 1u] = sum.y;
}

// Recipes: a factor times the norm of each candidate's key (Knorm, Devoto et al., 2024: −1).
//
// Shapes: worth [kv_heads][STRIDE].
// Grid: x, y over candidates and KV heads.
struct Params {
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
  share: u32,
  by: f32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(4) var<storage, read> kv: array<f32>;
@group(0) @binding(5) var<storage, read> arena: array<u32>;
@group(0) @binding(10) var<storage, read_write> worth: array<f32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lanes.wgsl
//!include lib/candidates.wgsl
//!include lib/sharers.wgsl

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let n = thread(id, groups);
  let h = n / tokens[STRIDE];
  if (h >= p.kv_heads) {
    return;
  }
  let j = n % tokens[STRIDE];
  if (j >= candidates(h)) {
    worth[n] = INVALID;
    return;
  }
  let heads = sharers(h);
  var sum = 0.0;
  for (var g = heads.x; g < heads.y; g++) {
    let key = key_of(g, j);
    var squares = 0.0;
    for (var c = 0u; c < p.dim / 2u; c++) {
      let x = key_pair(key, c);
      squares += dot(x, x);
    }
    sum += sqrt(squares);
  }
  worth[n] = p.by * sum / f32(heads.y - heads.x);
}

// RoPE for stacks of mixed layouts, whose products come from matmul.wgsl: raw [n][(heads + 2·kv_heads)·dim] is rotated
// and handed out to queries, keys and values.
//
// Grid: x, y over the pairs of channels of all heads and rows.
struct Params {
  heads: u32,
  kv_heads: u32,
  dim: u32,
  rot: u32,
  neox: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> raw: array<f32>;
@group(0) @binding(6) var<storage, read> rope: array<f32>;
@group(0) @binding(7) var<storage, read_write> q: array<f32>;
//!include lib/rows.wgsl

//!include lib/session.wgsl
//!include lib/grid.wgsl
//!include lib/rotate.wgsl

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let heads = p.heads + 2u * p.kv_heads;
  let pairs = p.dim / 2u;
  let n = thread(id, groups);
  let i = n % pairs;
  let h = n / pairs % heads;
  let t = n / pairs / heads;
  if (t >= session[ROWS]) {
    return;
  }
  let at = (t * heads + h) * p.dim;
  let channels = pair_of(i);
  put(rotated(vec2<f32>(raw[at + channels.x], raw[at + channels.y]), h, i, session[POS] + t), h, i, t);
}

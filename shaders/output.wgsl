// Recorded decode: adds up the parts of weigh.wgsl, multiplies by the output projection and adds to the residual, row 0
// of X.
//
// Shapes: W [rows][heads·dim], parts as in weigh.wgsl, y [rows].
// Grid: x, y over the weight rows, LANES threads each. Every row adds the parts up anew: SPLITS is small, and a dispatch
// of its own would cost more.
struct Params {
  rows: u32,
  cols: u32,
  codes_at: u32,
  scales_at: u32,
  heads: u32,
  dim: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> parts: array<f32>;
@group(0) @binding(2) var<storage, read> codes: array<u32>;
@group(0) @binding(3) var<storage, read> scales: array<u32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;

//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/plain.wgsl
//!include lib/weights_{layout}.wgsl
//!include {product}.wgsl
//!include lib/parts.wgsl

// Channels of one head are neighbours, and pairs of them never part.
fn input4(t: u32, k: u32) -> vec4<f32> {
  let low = share(k / p.dim);
  var high = low;
  if ((k + 2u) % p.dim == 0u) {
    high = share(min((k + 2u) / p.dim, p.heads - 1u));
  }
  return vec4<f32>(total(k) * low, total(k + 1u) * low, total(k + 2u) * high, total(k + 3u) * high);
}

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread(id, groups);
  let r = i / LANES;
  product(min(r, p.rows - 1u), 0u, id.x % GROUP);
  if (r < p.rows && i % LANES == 0u) {
    y[r] += sums[0];
  }
}

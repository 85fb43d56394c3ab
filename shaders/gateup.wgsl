// The first half of the MLP in one: RMS norm, products with gate and up, F = SiLU(gate)·up (Shazeer, "GLU Variants",
// 2020).
//
// Shapes: W [2·ffn][cols], gate rows first; X [prompt rows][cols], f [n][ffn]; n = session[ROWS].
// Grid: x, y over the columns of f, LANES threads each; z over tiles of TILE rows.
struct Params {
  ffn: u32,
  cols: u32,
  codes_at: u32,
  scales_at: u32,
  eps: f32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> codes: array<u32>;
@group(0) @binding(3) var<storage, read> scales: array<u32>;
@group(0) @binding(4) var<storage, read> x: array<f32>;
//!include lib/normed.wgsl
@group(0) @binding(6) var<storage, read_write> f: array<f32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/weights_{layout}.wgsl
//!include {product}.wgsl
//!include lib/silu.wgsl

fn input4(t: u32, k: u32) -> vec4<f32> {
  let at = (session[FROM] + min(t, session[ROWS] - 1u)) * p.cols + k;
  return vec4<f32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
}

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread(id, groups);
  let r = min(i / LANES, p.ffn - 1u);
  let t0 = id.z * TILE;
  product(r, t0, id.x % GROUP);
  var gate: array<f32, TILE>;
  for (var t = 0u; t < TILE; t++) {
    gate[t] = sums[t];
  }
  product(p.ffn + r, t0, id.x % GROUP);
  if (i / LANES >= p.ffn || i % LANES != 0u) {
    return;
  }
  for (var t = 0u; t < TILE; t++) {
    if (t0 + t < session[ROWS]) {
      f[(t0 + t) * p.ffn + r] = silu(gate[t]) * sums[t];
    }
  }
}

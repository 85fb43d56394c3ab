// Matrix times rows: y[t][r] = W[r]·x[t], or +=, or of the normed x. It serves every product that no fused kernel takes:
// both projections, the output matrix, and stacks of mixed layouts.
//
// Shapes: W [rows][cols], x [n][cols] from row session[x_from] on, y [n][stride] from row session[y_from] and column
// first on; n = session[count].
// Grid: x, y over the weight rows, LANES threads each; z over tiles of TILE input rows.
const ADD: bool = false;

struct Params {
  rows: u32,
  cols: u32,
  codes_at: u32,
  scales_at: u32,
  first: u32,
  stride: u32,
  count: u32,  // words of the session buffer
  x_from: u32,
  y_from: u32,
  eps: f32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> codes: array<u32>;
@group(0) @binding(3) var<storage, read> scales: array<u32>;
@group(0) @binding(4) var<storage, read> x: array<f32>;
//!include lib/{input}.wgsl
@group(0) @binding(6) var<storage, read_write> y: array<f32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/weights_{layout}.wgsl
//!include {product}.wgsl

fn input4(t: u32, k: u32) -> vec4<f32> {
  let at = (session[p.x_from] + min(t, session[p.count] - 1u)) * p.cols + k;
  return vec4<f32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
}

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread(id, groups);
  let r = i / LANES;
  let t0 = id.z * TILE;
  product(min(r, p.rows - 1u), t0, id.x % GROUP);
  if (r >= p.rows || i % LANES != 0u) {
    return;
  }
  for (var t = 0u; t < TILE; t++) {
    if (t0 + t < session[p.count]) {
      let at = (session[p.y_from] + t0 + t) * p.stride + p.first + r;
      if (ADD) {
        y[at] += sums[t];
      } else {
        y[at] = sums[t];
      }
    }
  }
}

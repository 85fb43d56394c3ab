// RMS norm of the rows that get logits: N[t] = X[first + t]/√(mean of squares + eps)·weights.
//
// Shapes: X [prompt rows][cols], n [rows][cols].
// Grid: one thread an element; each sums the squares of its row by itself, which costs less than a barrier.
struct Params {
  cols: u32,
  eps: f32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> weights: array<f32>;
@group(0) @binding(3) var<storage, read> x: array<f32>;
@group(0) @binding(4) var<storage, read_write> n: array<f32>;

//!include lib/session.wgsl
//!include lib/grid.wgsl

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread(id, groups);
  if (i >= session[LOGIT_ROWS] * p.cols) {
    return;
  }
  let row = (session[LOGIT_FROM] + i / p.cols) * p.cols;
  var squares = 0.0;
  for (var k = 0u; k < p.cols; k++) {
    squares += x[row + k] * x[row + k];
  }
  n[i] = x[row + i % p.cols] * inverseSqrt(squares / f32(p.cols) + p.eps) * weights[i % p.cols];
}

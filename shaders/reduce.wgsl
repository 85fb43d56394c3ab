// Adds up the parts of weigh.wgsl: a [heads·dim], row QUERY of the attention output.
//
// Grid: one thread a channel.
struct Params {
  heads: u32,
  dim: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> parts: array<f32>;
@group(0) @binding(3) var<storage, read_write> a: array<f32>;

//!include lib/session.wgsl
//!include lib/grid.wgsl
//!include lib/parts.wgsl

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let c = id.x;
  if (c < p.heads * p.dim) {
    a[session[QUERY] * p.heads * p.dim + c] = total(c) * share(c / p.dim);
  }
}

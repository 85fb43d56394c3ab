// F = SiLU(gate)·up for stacks of mixed layouts, whose products come from matmul.wgsl: raw [n][2·ffn], gate first.
//
// Grid: x, y over the elements of f [n][ffn].
struct Params {
  ffn: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> raw: array<f32>;
@group(0) @binding(6) var<storage, read_write> f: array<f32>;

//!include lib/session.wgsl
//!include lib/grid.wgsl
//!include lib/silu.wgsl

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread(id, groups);
  if (i >= session[ROWS] * p.ffn) {
    return;
  }
  let at = i / p.ffn * 2u * p.ffn + i % p.ffn;
  f[i] = silu(raw[at]) * raw[at + p.ffn];
}

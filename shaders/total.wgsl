// Recipes: a layer's entropy and variance (CAKE) in GROUP parts, which the host reads and adds up.
//
// Shapes: stats [scored heads][STRIDE][2]; totals [GROUP][2].
// Grid: one workgroup.
struct Params {
  heads: u32,
  kv_heads: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(8) var<storage, read> stats: array<f32>;
@group(0) @binding(9) var<storage, read_write> totals: array<f32>;

//!include lib/grid.wgsl
//!include lib/tokens.wgsl

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  var entropy = 0.0;
  var variance = 0.0;
  for (var i = id.x; i < tokens[SCORED] * tokens[STRIDE]; i += GROUP) {
    entropy += stats[2u * i];
    variance += stats[2u * i + 1u];
  }
  totals[2u * id.x] = entropy;
  totals[2u * id.x + 1u] = variance;
}

// Recipes: mean + gamma · variance over the window's queries of the attention that they give to each candidate before
// them (CAKE, Qin et al., 2025), and the candidate's part of the layer's preference. After lse.wgsl.
//
// Shapes: lse [scored heads][QUERIES]; rows [scored heads][STRIDE], behind them stats [scored heads][STRIDE][2]: entropy
// −Σ a·ln(a + 10⁻¹⁰) and variance, the unbiased one, 0 for one query.
// Grid: x, y over candidates and scored heads.
struct Params {
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
  scale: f32,
  gamma: f32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(4) var<storage, read> kv: array<f32>;
@group(0) @binding(5) var<storage, read> arena: array<u32>;
@group(0) @binding(6) var<storage, read> lse: array<f32>;
@group(0) @binding(7) var<storage, read_write> rows: array<f32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lanes.wgsl
//!include lib/candidates.wgsl
//!include lib/logit_keys.wgsl

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let n = thread(id, groups);
  let s = n / tokens[STRIDE];
  if (s >= tokens[SCORED]) {
    return;
  }
  let j = n % tokens[STRIDE];
  let queries = tokens[QUERIES];
  let h = kv_head(scored_head(s));
  let count = candidates(h);
  var mean = 0.0;
  var m2 = 0.0;
  var entropy = 0.0;
  if (j + queries < count) {
    hold_key(h, j);
    // Welford's form: squares of small numbers would lose what gamma then multiplies.
    for (var i = 0u; i < queries; i++) {
      let a = exp(logit_by(s, i) - lse[s * queries + i]);
      let d = a - mean;
      entropy -= a * log(a + 1.0e-10);
      mean += d / f32(i + 1u);
      m2 += d * (a - mean);
    }
  }
  let variance = m2 / max(f32(queries) - 1.0, 1.0);
  rows[n] = select(INVALID, mean + p.gamma * variance, j < count);
  let stats = tokens[SCORED] * tokens[STRIDE] + 2u * n;
  rows[stats] = entropy;
  rows[stats + 1u] = variance;
}

// Recipes: the logarithm of the sum of exponentials of each row of logits, over all candidates that its query sees. With
// it any entry of the softmax is e^(logit − lse), so that columns can be summed without a matrix of attention.
//
// Shapes: lse [scored heads][QUERIES].
// Grid: x, y over queries and scored heads, LANES threads each, which take every LANES-th candidate.
struct Params {
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
  scale: f32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(4) var<storage, read> kv: array<f32>;
@group(0) @binding(5) var<storage, read> arena: array<u32>;
@group(0) @binding(6) var<storage, read_write> lse: array<f32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lanes.wgsl
//!include lib/candidates.wgsl
//!include lib/logit_{logits}.wgsl
//!include lib/{whole}.wgsl

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let n = thread(id, groups);
  // Threads past the last row do its work once more: all of a workgroup meet at the barrier.
  let row = min(n / LANES, tokens[QUERIES] * tokens[SCORED] - 1u);
  let i = row % tokens[QUERIES];
  let s = row / tokens[QUERIES];
  let seen = stored(kv_head(scored_head(s))) + tokens[FIRST_ROW] + i + 1u;
  hold_query(s, i);
  var top = LOWEST;
  var sum = 0.0;
  for (var j = n % LANES; j < seen; j += LANES) {
    let logit = logit_at(s, j);
    let most = max(top, logit);
    sum = sum * exp(top - most) + exp(logit - most);
    top = most;
  }
  let all = whole(top, sum, id.x % GROUP);
  if (n % LANES == 0u) {
    lse[row] = all;
  }
}

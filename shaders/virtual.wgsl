// Adds a list's compensation token to the parts of weigh.wgsl (RazorAttention, Tang et al., 2024, eq. 5): it stands for
// the n tokens that left, with the means of their keys and values and the logit q·k̃/√dim + ln n. Its weight is relative to
// the row's largest logit, like the parts'; where it is e^80 times that, the row counts for nothing anyway.
//
// Shapes: q [chunk rows][heads·dim], of which row QUERY; scores, parts as in weigh.wgsl.
// Grid: one workgroup a head; a thread takes every GROUP-th channel.
const SPLITS: u32 = 1u;

struct Params {
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
  scale: f32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> q: array<f32>;
@group(0) @binding(3) var<storage, read> scores: array<f32>;
@group(0) @binding(4) var<storage, read> arena: array<u32>;
@group(0) @binding(5) var<storage, read> lists: array<u32>;
@group(0) @binding(6) var<storage, read_write> parts: array<f32>;

//!include lib/session.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lists.wgsl
//!include lib/sums.wgsl
//!include lib/{top}.wgsl

@compute @workgroup_size(GROUP)
fn main(@builtin(local_invocation_id) local: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>) {
  let h = group.x;
  let list = p.layer * p.kv_heads + h / (p.heads / p.kv_heads);
  let top = top_of(h * session[CAPACITY], session[ring_at(list) + 1u], local.x);
  let absorbed = lists[list * LIST + ABSORBED];
  if (absorbed == 0u) {
    return;
  }
  let n = f32(absorbed);
  let query = (session[QUERY] * p.heads + h) * p.dim;
  var logit = 0.0;
  for (var c = 0u; c < p.dim; c++) {
    logit += q[query + c] * sum_of(list, c);
  }
  let weight = exp(min(logit / n * p.scale + log(n) - top, 80.0));
  for (var c = local.x; c < p.dim; c += GROUP) {
    parts[h * p.dim + c] += weight * sum_of(list, p.dim + c) / n;
  }
  if (local.x == 0u) {
    parts[SPLITS * p.heads * p.dim + h] += weight;
  }
}

// Attention of prefill: A[t] = softmax(q·k/√dim)·v over a layer's stored tokens and the new rows 0…from + t, with the
// online softmax (Milakov and Gimelshein, 2018): one pass over keys and values, no row of logits. What is left of each row
// is the logarithm of its sum of exponentials, from which columns.wgsl finds any entry of the softmax again.
//
// Shapes: q, a [n][heads·dim]; kv both [prompt rows][kv_heads·dim]; lse [heads][n]. PAIRS = dim/2.
// Grid: x, y over heads and rows, LANES threads each, which take every LANES-th key. The head runs faster than the row,
// so that neighbours read the same keys.
const PAIRS: u32 = 1u;

struct Params {
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
  scale: f32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(3) var<storage, read> kv: array<f32>;
@group(0) @binding(4) var<storage, read> arena: array<u32>;
@group(0) @binding(7) var<storage, read_write> a: array<f32>;
@group(0) @binding(8) var<storage, read_write> lse: array<f32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lanes.wgsl
//!include lib/queries.wgsl
//!include lib/left_{left}.wgsl
//!include lib/{merge}.wgsl

var<private> query: array<vec2<f32>, PAIRS>;
var<private> acc: array<vec2<f32>, PAIRS>;
var<private> top: f32;
var<private> sum: f32;

// Takes one more logit and returns its weight, after rescaling what was summed before.
fn weigh(logit: f32) -> f32 {
  if (logit > top) {
    let shrink = exp(top - logit);
    sum *= shrink;
    for (var i = 0u; i < PAIRS; i++) {
      acc[i] *= shrink;
    }
    top = logit;
  }
  let weight = exp(logit - top);
  sum += weight;
  return weight;
}

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let n = thread(id, groups);
  let lane = n % LANES;
  let h = n / LANES % p.heads;
  // Threads past the last row do its work once more: all of a workgroup meet at the barriers of the merge.
  let t = min(n / LANES / p.heads, session[ROWS] - 1u);
  let kv_head = h / (p.heads / p.kv_heads);
  let list = p.layer * p.kv_heads + kv_head;
  let at = (t * p.heads + h) * p.dim;
  for (var i = 0u; i < PAIRS; i++) {
    query[i] = vec2<f32>(q[at + 2u * i], q[at + 2u * i + 1u]) * p.scale;
    acc[i] = vec2<f32>(0.0, 0.0);
  }
  top = LOWEST;
  sum = 0.0;
  let left = logit_left(list, at);
  if (lane == 0u && left > LOWEST) {
    let weight = weigh(left);
    for (var i = 0u; i < PAIRS; i++) {
      acc[i] += weight * value_left(list, i);
    }
  }
  let count = session[ring_at(list) + 1u];
  for (var slot = lane; slot < count; slot += LANES) {
    if (arena[position_at(list, slot)] > session[LAST]) {
      continue;
    }
    let key = key_at(list, slot);
    var logit = 0.0;
    for (var i = 0u; i < PAIRS; i++) {
      logit += dot(query[i], key2(key, i));
    }
    let weight = weigh(logit);
    let value = value_at(list, slot);
    for (var i = 0u; i < PAIRS; i++) {
      acc[i] += weight * value2(value, i);
    }
  }
  for (var j = lane; j <= session[FROM] + t; j += LANES) {
    let key = (j * p.kv_heads + kv_head) * p.dim;
    var logit = 0.0;
    for (var i = 0u; i < PAIRS; i++) {
      logit += dot(query[i], vec2<f32>(kv[key + 2u * i], kv[key + 2u * i + 1u]));
    }
    let weight = weigh(logit);
    let value = session[VALUES_AT] + key;
    for (var i = 0u; i < PAIRS; i++) {
      acc[i] += weight * vec2<f32>(kv[value + 2u * i], kv[value + 2u * i + 1u]);
    }
  }
  write_row(at, h * session[ROWS] + t, id.x % GROUP);
}

// Decode, second half of attention: the values of a layer's stored tokens, weighted by e^(logit − largest logit), in
// SPLITS parts that output.wgsl or reduce.wgsl adds up ("Flash-Decoding", Dao et al., 2023). All parts take the largest
// logit of the whole row, so that they add up as they are. Where a token stands for what left the list, it is in part 0.
//
// Shapes: scores [heads][CAPACITY]; parts [SPLITS][heads·dim], then the sums of weights [SPLITS][heads].
// Grid: x over the splits, which stride over value pages, y over the heads; a thread takes two channels at a time.
struct Params {
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
  scale: f32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> scores: array<f32>;
@group(0) @binding(3) var<storage, read> arena: array<u32>;
@group(0) @binding(4) var<storage, read_write> parts: array<f32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lanes.wgsl
//!include lib/{top}.wgsl
//!include lib/left_{left}.wgsl

@compute @workgroup_size(GROUP)
fn main(
  @builtin(local_invocation_id) local: vec3<u32>,
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
) {
  let h = group.y;
  let list = p.layer * p.kv_heads + h / (p.heads / p.kv_heads);
  let row = h * session[CAPACITY];
  let count = session[ring_at(list) + 1u];
  let top = top_of(row, count, local.x);
  let lanes = session[PAGE_V];
  var left = 0.0;
  if (group.x == 0u) {
    let logit = logit_left(list, (session[QUERY] * p.heads + h) * p.dim);
    if (logit > LOWEST) {
      left = exp(min(logit - top, 80.0)); // where it is that much more, the others count for nothing anyway
    }
  }
  for (var i = local.x; i < p.dim / 2u; i += GROUP) {
    var acc = vec2<f32>(0.0, 0.0);
    if (left > 0.0) {
      acc = left * value_left(list, i);
    }
    var sum = left;
    for (var first = group.x * lanes; first < count; first += groups.x * lanes) {
      for (var slot = first; slot < min(first + lanes, count); slot++) {
        let logit = scores[row + slot];
        if (logit > LOWEST) {
          let weight = exp(logit - top);
          sum += weight;
          acc += weight * value2(value_at(list, slot), i);
        }
      }
    }
    let at = (group.x * p.heads + h) * p.dim + 2u * i;
    parts[at] = acc.x;
    parts[at + 1u] = acc.y;
    if (i == 0u) {
      parts[groups.x * p.heads * p.dim + group.x * p.heads + h] = sum;
    }
  }
}

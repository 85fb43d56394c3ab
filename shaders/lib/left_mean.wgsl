// One compensation token stands for the n tokens that left a list (RazorAttention, Tang et al., 2024, eq. 5), with the
// means of their keys and values and the logit q·k̃/√dim + ln n. Its weight is relative to the row's largest logit, like
// those of the others; where it is e^80 times that, the row counts for nothing anyway.
@group(0) @binding(5) var<storage, read> q: array<f32>; // [chunk rows][heads·dim], of which row QUERY
@group(0) @binding(6) var<storage, read> lists: array<u32>;
//!include lib/lists.wgsl
//!include lib/sums.wgsl

fn weight_left(h: u32, list: u32, top: f32) -> f32 {
  let n = lists[list * LIST + ABSORBED];
  if (n == 0u) {
    return 0.0;
  }
  let query = (session[QUERY] * p.heads + h) * p.dim;
  var logit = 0.0;
  for (var c = 0u; c < p.dim; c++) {
    logit += q[query + c] * sum_of(list, c);
  }
  return exp(min(logit / f32(n) * p.scale + log(f32(n)) - top, 80.0));
}

fn value_left(list: u32, i: u32) -> vec2<f32> {
  let n = f32(lists[list * LIST + ABSORBED]);
  return vec2<f32>(sum_of(list, p.dim + 2u * i), sum_of(list, p.dim + 2u * i + 1u)) / n;
}

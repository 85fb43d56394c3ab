// One compensation token stands for the n tokens that left a list (RazorAttention, Tang et al., 2024, eq. 5), with the
// means of their keys and values and the logit q·k̃/√dim + ln n.
@group(0) @binding(6) var<storage, read> lists: array<u32>;
//!include lib/queries.wgsl
//!include lib/lists.wgsl
//!include lib/sums.wgsl

// The logit of the query at float query of q; LOWEST where nothing left.
fn logit_left(list: u32, query: u32) -> f32 {
  let n = lists[list * LIST + ABSORBED];
  if (n == 0u) {
    return LOWEST;
  }
  var logit = 0.0;
  for (var c = 0u; c < p.dim; c++) {
    logit += q[query + c] * sum_of(list, c);
  }
  return logit / f32(n) * p.scale + log(f32(n));
}

fn value_left(list: u32, i: u32) -> vec2<f32> {
  let n = f32(lists[list * LIST + ABSORBED]);
  return vec2<f32>(sum_of(list, p.dim + 2u * i), sum_of(list, p.dim + 2u * i + 1u)) / n;
}

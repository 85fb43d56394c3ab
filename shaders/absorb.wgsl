// Between select.wgsl and keep.wgsl: adds what leaves a layer's lists, and what of the prompt is not stored, to their sums
// (RazorAttention, Tang et al., 2024). The slot of a stored token that leaves still has its position, but another's rank, or
// none.
//
// Shapes: kv both [prompt rows][kv_heads·dim]; stays [kv_heads][STRIDE].
// Grid: one workgroup a KV head; a thread takes two channels at a time.
struct Params {
  layer: u32,
  kv_heads: u32,
  dim: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> kv: array<f32>;
@group(0) @binding(3) var<storage, read_write> lists: array<u32>;
@group(0) @binding(4) var<storage, read> ranks: array<u32>;
@group(0) @binding(5) var<storage, read> stays: array<u32>;
@group(0) @binding(6) var<storage, read_write> arena: array<u32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lanes.wgsl
//!include lib/lists.wgsl
//!include lib/ranks.wgsl
//!include lib/absorb.wgsl

@compute @workgroup_size(GROUP)
fn main(@builtin(local_invocation_id) local: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>) {
  let h = group.x;
  let list = p.layer * p.kv_heads + h;
  let at = list * LIST;
  let row = h * lists[at + STRIDE];
  let were = lists[at + WERE];
  let fresh = lists[at + ABSORBED] == 0u;
  let held = lists[at + HELD];
  for (var i = local.x; i < p.dim; i += GROUP) {
    var sum = vec2<f32>(0.0, 0.0);
    for (var slot = 0u; slot < lists[at + HAD]; slot++) {
      if (ranks[rank_at(list, slot)] >= held && arena[position_at(list, slot)] != NONE) {
        sum += stored2(list, slot, i);
      }
    }
    for (var t = 0u; t < lists[at + NEW]; t++) {
      if (stays[row + were + t] == 0u) {
        let x = (t * p.kv_heads + h) * p.dim;
        let start = select(session[VALUES_AT] + x + 2u * i - p.dim, x + 2u * i, i < p.dim / 2u);
        sum += vec2<f32>(kv[start], kv[start + 1u]);
      }
    }
    add_to(sums_at(list) + 2u * i, sum, fresh);
  }
  workgroupBarrier();
  if (local.x == 0u) {
    count_absorbed(list, were + lists[at + NEW] - lists[at + LIVE]);
  }
}

// Recipes whose layers share a budget as a prompt goes through them (CAKE, Qin et al., 2025): notes what the tokens that
// stay of a layer are worth, by rank, so that the layer can shrink later. After select.wgsl, and again after each time that
// it has chosen among what was noted.
//
// Shapes: worth, kept [kv_heads][STRIDE]; earlier [kv_heads][CAPACITY].
// Grid: one workgroup a KV head.
const AGAIN: bool = false; // what was noted takes the place of worth

struct Params {
  layer: u32,
  kv_heads: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> worth: array<f32>;
@group(0) @binding(3) var<storage, read> lists: array<u32>;
@group(0) @binding(6) var<storage, read> kept: array<u32>;
@group(0) @binding(7) var<storage, read_write> earlier: array<f32>;

//!include lib/session.wgsl
//!include lib/grid.wgsl
//!include lib/lists.wgsl
//!include lib/ranks.wgsl

@compute @workgroup_size(GROUP)
fn main(@builtin(local_invocation_id) local: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>) {
  let list = p.layer * p.kv_heads + group.x;
  let at = list * LIST;
  let row = group.x * lists[at + STRIDE];
  let count = lists[at + LIVE];
  // Tokens move to lower ranks, so that a part of them is read before it is written.
  let parts = (count + GROUP - 1u) / GROUP;
  for (var part = 0u; part < parts; part++) {
    let rank = part * GROUP + local.x;
    var x = 0.0;
    if (rank < count) {
      let candidate = kept[row + rank];
      if (AGAIN) {
        x = earlier[row_of(group.x) + candidate];
      } else {
        x = worth[row + candidate];
      }
    }
    storageBarrier();
    workgroupBarrier();
    if (rank < count) {
      earlier[row_of(group.x) + rank] = x;
    }
    storageBarrier();
    workgroupBarrier();
  }
}

// Recipes, decode: adds the attention that the newest token gives, from the logits and the sums of weights that score.wgsl
// and weigh.wgsl left, to the accumulated attention of each slot: acc ← decay·acc + weight·Σ over the group
// (H2O, Zhang et al., 2023). The newest token begins at 0, and what a compensation token gets is nobody's.
//
// Shapes: scores [heads][CAPACITY]; parts as in weigh.wgsl.
// Grid: x over workgroups that stride over the slots, y over the KV heads.
const SHARED: bool = false; // the largest logits come by workgroup memory

struct Params {
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
  decay: f32,
  weight: f32, // of each head's attention
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> scores: array<f32>;
@group(0) @binding(3) var<storage, read> parts: array<f32>;
@group(0) @binding(4) var<storage, read_write> arena: array<u32>;

//!include lib/session.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/beside.wgsl
//!include lib/parts.wgsl
//!include lib/{top}.wgsl

@compute @workgroup_size(GROUP)
fn main(
  @builtin(global_invocation_id) id: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
) {
  let h = group.y;
  let list = p.layer * p.kv_heads + h;
  let count = session[ring_at(list) + 1u];
  let size = p.heads / p.kv_heads;
  for (var head = h * size; head < (h + 1u) * size; head++) {
    let row = head * session[CAPACITY];
    let top = top_of(row, count, local.x);
    let by = p.weight * share(head);
    for (var slot = id.x; slot < count; slot += groups.x * GROUP) {
      let at = accumulated_at(list, slot);
      var acc = bitcast<f32>(arena[at]);
      if (head == h * size) {
        acc = select(p.decay * acc, 0.0, slot == session[ring_at(list)]);
      }
      let logit = scores[row + slot];
      if (logit > LOWEST) {
        acc += by * exp(logit - top);
      }
      if (session[HALT] == 0u) {
        arena[at] = bitcast<u32>(acc);
      }
    }
    if (SHARED) {
      workgroupBarrier(); // the next head's largest logit takes the same memory
    }
  }
}

// Recipes, decode: the attention that the newest token gives, from the logits and the sums of weights that score.wgsl and
// weigh.wgsl left. It is added to the accumulated attention of each slot (H2O, Zhang et al., 2023: acc ← decay·acc + the
// group's mean), or kept as it is for rules that ask the last query alone (TOVA, Oren et al., 2024). The newest token
// begins at 0.
//
// Shapes: scores [heads][CAPACITY]; parts as in weigh.wgsl; worth [kv_heads][CAPACITY], INVALID where a slot does not count.
// Grid: x over workgroups that stride over the slots, y over the KV heads.
const FOLD: bool = true;    // into the pages of accumulated attention, otherwise to worth
const SHARED: bool = false; // the largest logits come by workgroup memory

struct Params {
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
  all: u32,    // 1: the mean of all heads instead of the group's, for lists with the same tokens in the same slots
  most: u32,   // 1: the highest instead of the sum
  decay: f32,
  weight: f32, // of each head's attention
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> scores: array<f32>;
@group(0) @binding(3) var<storage, read> parts: array<f32>;
@group(0) @binding(4) var<storage, read_write> arena: array<u32>;
@group(0) @binding(5) var<storage, read_write> worth: array<f32>;

//!include lib/session.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/beside.wgsl
//!include lib/parts.wgsl
//!include lib/{top}.wgsl

const INVALID: f32 = -1.0e30;

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
  let first = select(h * size, 0u, p.all == 1u);
  let end = select(first + size, p.heads, p.all == 1u);
  for (var head = first; head < end; head++) {
    let row = head * session[CAPACITY];
    let top = top_of(row, count, local.x);
    let by = p.weight * share(head);
    for (var slot = id.x; slot < count; slot += groups.x * GROUP) {
      let logit = scores[row + slot];
      var x = 0.0;
      if (logit > LOWEST) {
        x = by * exp(logit - top);
      }
      if (FOLD) {
        let at = accumulated_at(list, slot);
        var acc = bitcast<f32>(arena[at]);
        if (head == first) {
          acc = select(p.decay * acc, 0.0, slot == session[ring_at(list)]);
        }
        if (session[HALT] == 0u) {
          arena[at] = bitcast<u32>(acc + x);
        }
      } else {
        let at = h * session[CAPACITY] + slot;
        var acc = worth[at];
        if (head == first) {
          acc = 0.0;
        }
        worth[at] = select(select(acc + x, max(acc, x), p.most == 1u), INVALID, logit <= LOWEST);
      }
    }
    if (SHARED) {
      workgroupBarrier(); // the next head's largest logit takes the same memory
    }
  }
}

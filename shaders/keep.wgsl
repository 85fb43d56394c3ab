// Stores what select.wgsl keeps of a prompt: keys, values and positions of the new rows go to the slots whose ranks are
// theirs; slots without a rank are dead. Where a recipe keeps accumulated attention, it begins here.
//
// Shapes: kv both [prompt rows][kv_heads·dim]; kept [kv_heads][STRIDE].
// Grid: x, y over pairs of channels, KV heads and slots.
const UNTURN: bool = false; // keys are stored before RoPE (StreamingLLM)
const ACCRUE: bool = false;

struct Params {
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
  rot: u32,
  neox: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> kv: array<f32>;
@group(0) @binding(3) var<storage, read> rope: array<f32>;
@group(0) @binding(5) var<storage, read> lists: array<u32>;
@group(0) @binding(6) var<storage, read> ranks: array<u32>;
@group(0) @binding(7) var<storage, read> kept: array<u32>;
@group(0) @binding(8) var<storage, read_write> arena: array<u32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/write.wgsl
//!include lib/beside.wgsl
//!include lib/lists.wgsl
//!include lib/ranks.wgsl
//!include lib/turn.wgsl
//!include lib/begin_{begin}.wgsl

// Channel c of the key at float k of kv.
fn key(k: u32, c: u32, position: u32) -> f32 {
  if (UNTURN && c < p.rot) {
    return unturned(kv[k + c], kv[k + partner_of(c)], c, position);
  }
  return kv[k + c];
}

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let pairs = p.dim / 2u;
  let n = thread(id, groups);
  let i = n % pairs;
  let h = n / pairs % p.kv_heads;
  let slot = n / pairs / p.kv_heads;
  let list = p.layer * p.kv_heads + h;
  let at = list * LIST;
  if (slot >= lists[at + SLOTS]) {
    return;
  }
  let rank = ranks[rank_at(list, slot)];
  if (rank == NONE) {
    if (i == 0u) {
      arena[position_at(list, slot)] = NONE;
    }
    return;
  }
  let candidate = kept[h * lists[at + STRIDE] + rank];
  if (ACCRUE && i == 0u) {
    let acc = accumulated_at(list, slot);
    let had = select(0.0, bitcast<f32>(arena[acc]), rank < lists[at + HELD]);
    arena[acc] = bitcast<u32>(begun(h, candidate, had));
  }
  if (rank < lists[at + HELD]) {
    return;
  }
  let t = candidate - lists[at + WERE];
  let position = session[POS] - session[FROM] + t;
  let k = (t * p.kv_heads + h) * p.dim;
  let v = session[VALUES_AT] + k + 2u * i;
  write2(key_at(list, slot), i, vec2<f32>(key(k, 2u * i, position), key(k, 2u * i + 1u, position)), KEY_F16);
  write2(value_at(list, slot), i, vec2<f32>(kv[v], kv[v + 1u]), VALUE_F16);
  if (i == 0u) {
    arena[position_at(list, slot)] = position;
  }
}

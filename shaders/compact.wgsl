// Moves a list's last tokens into its dead slots, so that the first LIVE slots are left and whole pages come free: the
// last token goes to the first dead slot, and so on.
//
// Shapes: stays, kept [kv_heads][CAPACITY], scratch: where to, and where from.
// Grid: one workgroup a KV head.
const ACCRUE: bool = false; // accumulated attention moves too

struct Params {
  layer: u32,
  kv_heads: u32,
  dim: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> session: array<u32>;
@group(0) @binding(2) var<storage, read_write> lists: array<u32>;
@group(0) @binding(3) var<storage, read_write> ranks: array<u32>;
@group(0) @binding(4) var<storage, read_write> stays: array<u32>;
@group(0) @binding(5) var<storage, read_write> kept: array<u32>;
@group(0) @binding(6) var<storage, read_write> arena: array<u32>;

//!include lib/session.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/beside.wgsl
//!include lib/lists.wgsl
//!include lib/ranks.wgsl
//!include lib/announce.wgsl
//!include lib/before.wgsl

@compute @workgroup_size(GROUP)
fn main(@builtin(local_invocation_id) local: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>) {
  let lane = local.x;
  let list = p.layer * p.kv_heads + group.x;
  let at = list * LIST;
  let row = row_of(group.x);
  let live = lists[at + LIVE];
  let slots = lists[at + SLOTS];
  let part = (slots + GROUP - 1u) / GROUP;
  let begin = min(lane * part, slots);
  let end = min(begin + part, slots);
  var holes = 0u;
  var late = 0u;
  for (var slot = begin; slot < end; slot++) {
    let dead = ranks[rank_at(list, slot)] == NONE;
    holes += select(0u, 1u, dead && slot < live);
    late += select(0u, 1u, !dead && slot >= live);
  }
  var to = before(lane, holes);
  var start = before(lane, late);
  let moves = all_lanes;
  for (var slot = begin; slot < end; slot++) {
    let dead = ranks[rank_at(list, slot)] == NONE;
    if (dead && slot < live) {
      stays[row + to] = slot;
      to++;
    }
    if (!dead && slot >= live) {
      kept[row + moves - 1u - start] = slot;
      start++;
    }
  }
  storageBarrier();
  workgroupBarrier();
  let key_words = select(p.dim, p.dim / 2u, KEY_F16);
  let value_words = select(p.dim, p.dim / 2u, VALUE_F16);
  let words = key_words + value_words;
  for (var i = lane; i < moves * words; i += GROUP) {
    let word = i % words;
    let target_slot = stays[row + i / words];
    let source = kept[row + i / words];
    if (word < key_words) {
      arena[key_at(list, target_slot) + word] = arena[key_at(list, source) + word];
    } else {
      arena[value_at(list, target_slot) + word - key_words] = arena[value_at(list, source) + word - key_words];
    }
  }
  for (var i = lane; i < moves; i += GROUP) {
    let target_slot = stays[row + i];
    let source = kept[row + i];
    arena[position_at(list, target_slot)] = arena[position_at(list, source)];
    arena[position_at(list, source)] = NONE;
    ranks[rank_at(list, target_slot)] = ranks[rank_at(list, source)];
    ranks[rank_at(list, source)] = NONE;
    if (ACCRUE) {
      arena[accumulated_at(list, target_slot)] = arena[accumulated_at(list, source)];
    }
  }
  if (lane == 0u) {
    lists[at + SLOTS] = live;
    announce(list, session[STEP], live);
  }
}

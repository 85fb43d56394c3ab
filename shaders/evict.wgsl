// Recipes, decode: which tokens leave a layer's lists now that a new one has joined, and the slot that the next one takes:
// the lowest that is free, or a fresh one. When FULL tokens are there, LIMIT stay: what never leaves and then what is worth
// most, of equals the older.
//
// Shapes: by_rank, stays [kv_heads][CAPACITY], scratch.
// Grid: one workgroup a KV head.
const ABSORB: bool = false;

struct Params {
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
  reduce: u32, // MEAN, MAX or SUM over the group, or LAYER: all heads of the layer, whose slots hold the same tokens
  pool: u32,   // 0, 1 mean or 2 largest of neighbours
  size: u32,   // so many
  after: u32,  // 1: after the reduction
  apart: u32,  // so many of the last tokens are no neighbours
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> session: array<u32>;
@group(0) @binding(3) var<storage, read_write> lists: array<u32>;
@group(0) @binding(4) var<storage, read_write> ranks: array<u32>;
@group(0) @binding(5) var<storage, read_write> stays: array<u32>;
@group(0) @binding(6) var<storage, read_write> by_rank: array<f32>;
@group(0) @binding(7) var<storage, read_write> arena: array<u32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lanes.wgsl
//!include lib/beside.wgsl
//!include lib/lists.wgsl
//!include lib/ranks.wgsl
//!include lib/announce.wgsl
//!include lib/protect.wgsl
//!include lib/absorb.wgsl
//!include lib/log.wgsl
//!include lib/worth_{worth}.wgsl

var<workgroup> next: atomic<u32>;
var<workgroup> gone: atomic<u32>; // so many are in the log

fn weight_of(i: u32) -> u32 {
  return select(0u, 1u, stays[row + i] == 0u);
}

@compute @workgroup_size(GROUP)
fn main(@builtin(local_invocation_id) local: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>) {
  let lane = local.x;
  let h = group.x;
  let list = p.layer * p.kv_heads + h;
  let at = list * LIST;
  let newest = session[ring_at(list)];
  let slots = session[ring_at(list) + 1u];
  let going = session[HALT] == 0u;
  let n = lists[at + LIVE] + 1u;
  row = row_of(h);
  let limit = select(n, min(n, lists[at + LIMIT]), n >= lists[at + FULL]);
  if (lane == 0u) {
    if (going) {
      ranks[rank_at(list, newest)] = n - 1u;
    }
    atomicStore(&next, slots);
    atomicStore(&gone, 0u);
  }
  sync();
  own(lane, n, 1u);
  weigh(lane, h, slots, n);
  let want = protect(lane, list, n, n, 0u, slots, limit, lists[at + OLDEST], lists[at + NEWEST]);
  take(lane, want);
  let count = number(lane);
  sync();
  let logs = select(0u, session[LOG], going && count < n);
  if (ABSORB && going && count < n) {
    let fresh = lists[at + ABSORBED] == 0u;
    for (var i = lane; i < p.dim; i += GROUP) {
      var sum = vec2<f32>(0.0, 0.0);
      for (var slot = 0u; slot < slots; slot++) {
        let rank = ranks[rank_at(list, slot)];
        if (rank != NONE && stays[row + rank] == 0u) {
          sum += stored2(list, slot, i);
        }
      }
      add_to(sums_at(list) + 2u * i, sum, fresh);
    }
  }
  sync();
  for (var slot = lane; slot < slots; slot += GROUP) {
    var rank = ranks[rank_at(list, slot)];
    if (rank != NONE && going) {
      let was = rank;
      rank = stays[row + rank] - 1u; // NONE for 0
      ranks[rank_at(list, slot)] = rank;
      if (rank == NONE) {
        let entry = select(NONE, atomicAdd(&gone, 1u), logs > 0u);
        if (entry < logs) {
          lists[log_at(list) + 1u + 2u * entry] = arena[position_at(list, slot)];
          lists[log_at(list) + 2u + 2u * entry] = bitcast<u32>(by_rank[row + was]);
        }
        arena[position_at(list, slot)] = NONE;
      }
    }
    if (rank == NONE) {
      atomicMin(&next, slot);
    }
  }
  workgroupBarrier();
  if (lane == 0u && going) {
    lists[at + LIVE] = count;
    lists[at + SLOTS] = slots;
    announce(list, session[STEP] + 1u, atomicLoad(&next));
    if (logs > 0u) {
      lists[log_at(list)] = select(unordered(edge), 0x7fc00000u, want == 0u);
    }
    if (ABSORB && count < n) {
      count_absorbed(list, n - count);
    }
  }
}

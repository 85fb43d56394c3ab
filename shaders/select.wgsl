// Selection of a layer's prompt: which candidates stay, in the order of positions, and which slots they get. A list's
// candidates are its stored tokens by rank, and then the new rows. Chosen are what never leaves and then what is worth
// most, of equals the lower position. Stored tokens keep their slots; new ones take the slots that come free, the lowest
// first, and then fresh ones.
//
// Shapes: worth, stays, kept [kv_heads][STRIDE]. stays: 0 for what leaves, else 1 + rank among what stays. kept: the
// candidates that stay, ascending, and behind all rows how many they are [kv_heads]. ranks: what the slots will hold.
// Grid: one workgroup a KV head.
struct Params {
  layer: u32,
  kv_heads: u32,
  dim: u32,
  chunk: u32, // tokens of a chunk; 1 without chunks
  epsilon: f32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> session: array<u32>;
@group(0) @binding(2) var<storage, read> worth: array<f32>;
@group(0) @binding(3) var<storage, read_write> lists: array<u32>;
@group(0) @binding(4) var<storage, read_write> ranks: array<u32>;
@group(0) @binding(5) var<storage, read_write> stays: array<u32>;
@group(0) @binding(6) var<storage, read_write> kept: array<u32>;
@group(0) @binding(8) var<storage, read> arena: array<u32>;

//!include lib/session.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lists.wgsl
//!include lib/ranks.wgsl
//!include lib/announce.wgsl
//!include lib/protect.wgsl
//!include lib/choose_{rule}.wgsl

var<workgroup> masses: array<f32, GROUP>;
var<workgroup> next: atomic<u32>;

@compute @workgroup_size(GROUP)
fn main(@builtin(local_invocation_id) local: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>) {
  let lane = local.x;
  let list = p.layer * p.kv_heads + group.x;
  let at = list * LIST;
  let were = lists[at + LIVE];
  let n = were + lists[at + NEW];
  row = group.x * lists[at + STRIDE];
  own(lane, n, p.chunk);
  let limit = min(lists[at + LIMIT], n);
  let left = protect(lane, list, n, were, session[POS] - session[FROM], lists[at + SLOTS], limit, lists[at + OLDEST], lists[at + NEWEST]);
  choose(lane, list, n, left);
  let count = number(lane);
  var mass = 0.0;
  for (var i = begin; i < end; i++) {
    mass += worth[row + i];
    if (stays[row + i] != 0u) {
      kept[row + stays[row + i] - 1u] = i;
    }
  }
  masses[lane] = mass;

  // Stored tokens keep their slots.
  let slots = lists[at + SLOTS];
  let room = max(slots, count);
  if (lane == 0u) {
    atomicStore(&next, room);
  }
  sync();
  let part = (room + GROUP - 1u) / GROUP;
  let start = min(lane * part, room);
  let to = min(start + part, room);
  var live = 0u;
  for (var slot = start; slot < min(to, slots); slot++) {
    let rank = ranks[rank_at(list, slot)];
    if (rank != NONE) {
      let place = stays[row + rank] - 1u; // NONE for 0
      ranks[rank_at(list, slot)] = place;
      live += select(0u, 1u, place != NONE);
    }
  }
  // New ones take the others.
  let taken = before(lane, live);
  let held = all_lanes;
  var rank = held + start - taken;
  for (var slot = start; slot < to; slot++) {
    if (slot < slots && ranks[rank_at(list, slot)] != NONE) {
      continue;
    }
    ranks[rank_at(list, slot)] = select(NONE, rank, rank < count);
    if (rank >= count) {
      atomicMin(&next, slot);
    }
    rank++;
  }
  workgroupBarrier();
  if (lane == 0u) {
    for (var i = 1u; i < GROUP; i++) {
      mass += masses[i];
    }
    lists[at + LIVE] = count;
    lists[at + SLOTS] = room;
    lists[at + WERE] = were;
    lists[at + HAD] = slots;
    lists[at + HELD] = held;
    lists[at + MASS] = bitcast<u32>(mass);
    kept[p.kv_heads * lists[at + STRIDE] + group.x] = count;
    announce(list, session[STEP], atomicLoad(&next));
  }
}

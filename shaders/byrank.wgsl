// score.wgsl where positions are ranks (StreamingLLM, Xiao et al., 2023): keys are stored before RoPE and rotated here, the
// query is rotated from its position to its rank. The newest token is the last in rank, whether its rank is known already or
// not.
//
// Shapes: q [chunk rows][heads·dim], of which row QUERY, at position LAST; scores [heads][CAPACITY]. PAIRS = dim/2.
// Grid: x over SPLITS workgroups that stride over the slots, y over the heads.
const PAIRS: u32 = 1u;

struct Params {
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
  rot: u32,
  neox: u32,
  scale: f32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> q: array<f32>;
@group(0) @binding(3) var<storage, read> rope: array<f32>;
@group(0) @binding(4) var<storage, read> arena: array<u32>;
@group(0) @binding(5) var<storage, read> lists: array<u32>;
@group(0) @binding(6) var<storage, read> ranks: array<u32>;
@group(0) @binding(7) var<storage, read_write> scores: array<f32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lists.wgsl
//!include lib/ranks.wgsl
//!include lib/rotate.wgsl

var<private> query: array<vec2<f32>, PAIRS>;

// Cosine and sine of pair i at a position; of what is not rotated, those of no angle.
fn angle(i: u32, position: u32) -> vec2<f32> {
  if (i >= p.rot / 2u) {
    return vec2<f32>(1.0, 0.0);
  }
  let at = position * p.rot + 2u * i;
  return vec2<f32>(rope[at], rope[at + 1u]);
}

fn turned(v: vec2<f32>, by: vec2<f32>) -> vec2<f32> {
  return vec2<f32>(v.x * by.x - v.y * by.y, v.x * by.y + v.y * by.x);
}

// Channel c of the key at word at.
fn key1(at: u32, c: u32) -> f32 {
  if (KEY_F16) {
    return half_of(arena[at + c / 2u], c);
  }
  return bitcast<f32>(arena[at + c]);
}

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let h = id.y;
  let list = p.layer * p.kv_heads + h / (p.heads / p.kv_heads);
  let newest = session[ring_at(list)];
  var last = lists[list * LIST + LIVE]; // where it joins
  if (newest == NONE) {
    last -= 1u;
  } else if (ranks[rank_at(list, newest)] != NONE) {
    last = ranks[rank_at(list, newest)];
  }
  let at = (session[QUERY] * p.heads + h) * p.dim;
  for (var i = 0u; i < PAIRS; i++) {
    let c = pair_of(i);
    let back = angle(i, session[POS]) * vec2<f32>(1.0, -1.0);
    query[i] = turned(turned(vec2<f32>(q[at + c.x], q[at + c.y]), back), angle(i, last));
  }
  let count = session[ring_at(list) + 1u];
  for (var slot = id.x; slot < count; slot += groups.x * GROUP) {
    let rank = select(ranks[rank_at(list, slot)], last, slot == newest);
    var logit = LOWEST;
    if (rank != NONE) {
      let key = key_at(list, slot);
      var sum = 0.0;
      for (var i = 0u; i < PAIRS; i++) {
        let c = pair_of(i);
        sum += dot(query[i], turned(vec2<f32>(key1(key, c.x), key1(key, c.y)), angle(i, rank)));
      }
      logit = sum * p.scale;
    }
    scores[h * session[CAPACITY] + slot] = logit;
  }
}

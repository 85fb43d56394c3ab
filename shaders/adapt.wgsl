// AdaKV: how many of a layer's highest scores each KV head has, for the host to share the layer's budget by. What never
// leaves, where LIMIT stay, does not take part, but for kvpress' form.
//
// Shapes: worth, stays [kv_heads][STRIDE], stays as scratch; counts [kv_heads].
// Grid: one workgroup.
const HEADS: u32 = 64u; // the most KV heads

struct Params {
  layer: u32,
  kv_heads: u32,
  dim: u32,
  weigh: u32, // 1: a head's scores count times the part that its EACH highest have of their sum
  press: u32, // 1: as kvpress does, SAFE of each head come first, and of them what never leaves
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> worth: array<f32>;
@group(0) @binding(3) var<storage, read> lists: array<u32>;
@group(0) @binding(4) var<storage, read> ranks: array<u32>;
@group(0) @binding(5) var<storage, read_write> stays: array<u32>;
@group(0) @binding(6) var<storage, read_write> counts: array<u32>;
@group(0) @binding(7) var<storage, read> arena: array<u32>;

//!include lib/session.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lists.wgsl
//!include lib/ranks.wgsl
//!include lib/protect.wgsl

// Marks here: 1 for the highest, APART for what does not take part, and AHEAD for what is the highest whatever it is worth.
const APART: u32 = 2u;
const AHEAD: u32 = 3u;

var<workgroup> factors: array<f32, HEADS>;
var<workgroup> masses: array<vec3<f32>, GROUP>;
var<workgroup> highest: array<atomic<u32>, HEADS>;

fn word(h: u32, which: u32) -> u32 {
  return lists[(p.layer * p.kv_heads + h) * LIST + which];
}

fn candidates(h: u32) -> u32 {
  return word(h, LIVE) + word(h, NEW);
}

fn key_of(i: u32) -> u32 {
  if (stays[i] == AHEAD) {
    return 0xff800000u; // infinity's
  }
  return ordered(worth[i] * factors[i / word(0u, STRIDE)]);
}

fn weight_of(i: u32) -> u32 {
  return select(0u, 1u, stays[i] == 0u || stays[i] == AHEAD);
}

// The part that the EACH highest of a head's scores have of their sum. Its lanes have its candidates.
fn part_of_highest(lane: u32) -> f32 {
  let c = cut(lane, begin, end, word(0u, EACH));
  var mass = vec3<f32>(0.0, 0.0, 0.0); // above the cut, at it, and of all
  var ties = 0u;
  for (var i = begin; i < end; i++) {
    if (weight_of(i) != 0u) {
      let key = key_of(i);
      mass += worth[i] * vec3<f32>(select(0.0, 1.0, key > c.key), select(0.0, 1.0, key == c.key), 1.0);
      ties += select(0u, 1u, key == c.key);
    }
  }
  masses[lane] = mass;
  ties = before(lane, ties);
  mass = vec3<f32>(0.0, 0.0, 0.0);
  for (var i = 0u; i < GROUP; i++) {
    mass += masses[i];
  }
  if (mass.z <= 0.0) {
    return 1.0;
  }
  let at_cut = mass.y * f32(min(c.ties, all_lanes)) / f32(max(all_lanes, 1u));
  return (mass.x + at_cut) / mass.z;
}

@compute @workgroup_size(GROUP)
fn main(@builtin(local_invocation_id) local: vec3<u32>) {
  let lane = local.x;
  let stride = word(0u, STRIDE);
  let all = p.kv_heads * stride;
  for (var h = 0u; h < p.kv_heads; h++) {
    let n = candidates(h);
    row = h * stride;
    own(lane, n, 1u);
    _ = protect(lane, p.layer * p.kv_heads + h, n, word(h, LIVE), session[POS] - session[FROM], word(h, SLOTS),
      min(word(h, LIMIT), n), word(h, OLDEST), word(h, NEWEST));
    for (var i = begin; i < end; i++) {
      stays[row + i] *= select(APART, AHEAD, p.press != 0u);
    }
    for (var i = n + lane; i < stride; i += GROUP) {
      stays[row + i] = APART;
    }
  }
  row = 0u;
  for (var h = lane; h < HEADS; h += GROUP) {
    factors[h] = 1.0;
    atomicStore(&highest[h], 0u);
  }
  sync();
  var left = word(0u, TOTAL);
  for (var h = 0u; h < p.kv_heads; h++) {
    own(lane, candidates(h), 1u);
    begin += h * stride;
    end += h * stride;
    if (p.weigh != 0u) {
      let factor = part_of_highest(lane);
      workgroupBarrier();
      if (lane == 0u) {
        factors[h] = factor;
      }
    }
    if (p.press != 0u) {
      take(lane, min(word(0u, SAFE), left));
      var got = 0u;
      for (var i = begin; i < end; i++) {
        got += select(0u, 1u, stays[i] == 1u);
      }
      got = before(lane, got);
      left -= all_lanes;
    }
  }
  sync();
  own(lane, all, 1u);
  take(lane, left);
  for (var i = begin; i < end; i++) {
    if (stays[i] == 1u) {
      atomicAdd(&highest[i / stride], 1u);
    }
  }
  workgroupBarrier();
  for (var h = lane; h < p.kv_heads; h += GROUP) {
    counts[h] = atomicLoad(&highest[h]);
  }
}

// Chooses the next token from a row of logits, by the definition of package sample: repetition penalty, temperature,
// top-k, top-p, min-p, then a draw by SplitMix64. The probabilities of the result are the plain softmax's.
//
// All choices are one search. Tokens are ordered by score, largest first, of equal ones the first; the search finds the
// token where a running sum passes a target. Top-k sums ones, top-p and the draw sum weights (the draw without top-k and
// top-p in the order of ids). It is a radix search: a pass over the vocabulary sums by the next eight bits of the sort
// key, then the bin where the target lies is opened. Weights are integers, 2^31 for the likeliest, and sums have 64 bits,
// so that a sum does not depend on its order.
//
// Shapes: logits [vocab]; changed for recent tokens, and changed back.
// Grid: one workgroup.
const GROUP: u32 = 256u;
const ONE: f32 = 2147483648.0;

struct Params {
  vocab: u32,
  advance: u32, // 1 if the logits are those of the token at POS
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> session: array<u32>;
@group(0) @binding(2) var<storage, read_write> logits: array<f32>;

//!include lib/session.wgsl
//!include lib/wide.wgsl

var<workgroup> low: array<atomic<u32>, 256>;  // sums by bin
var<workgroup> high: array<atomic<u32>, 256>;
var<workgroup> best: atomic<u32>;     // of a round of the top five: sort key
var<workgroup> best_id: atomic<u32>;
var<workgroup> worst: atomic<u32>;    // largest sort key, 0xffffffff where a logit is not finite
var<workgroup> found: vec2<u32>;      // sort key and id that a search found
var<workgroup> rest: vec2<u32>;       // of the target of a search
var<workgroup> bound: vec2<u32>;      // the last token that is kept
var<workgroup> mass: vec2<u32>;       // weight of what is kept
var<workgroup> halted: u32;
var<workgroup> switches: u32;         // which settings are on
var<workgroup> scale: f32;            // 1/temperature
var<workgroup> top_ids: array<u32, 5>;
var<workgroup> top_probs: array<f32, 5>;

const GREEDY: u32 = 1u;
const BY_K: u32 = 2u;
const BY_P: u32 = 4u;

// A sort key: smaller for larger scores.
fn key_of(score: f32) -> u32 {
  let bits = bitcast<u32>(score);
  if (bits == 0x80000000u) {
    return 0x7fffffffu; // −0 is 0
  }
  return select(~bits & 0x7fffffffu, bits, (bits & 0x80000000u) != 0u);
}

fn score_of(key: u32) -> f32 {
  return bitcast<f32>(select(~key & 0x7fffffffu, key, (key & 0x80000000u) != 0u));
}

fn in_order(a: vec2<u32>, b: vec2<u32>) -> bool {
  return a.x < b.x || (a.x == b.x && a.y <= b.y);
}

// e^(x − peak), 2^31 for 1.
fn weight(x: f32, peak: f32, by: f32) -> u32 {
  return u32(exp((x - peak) * by) * ONE + 0.5);
}

fn clear(lane: u32) {
  atomicStore(&low[lane], 0u);
  atomicStore(&high[lane], 0u);
  workgroupBarrier();
}

fn add(to: u32, x: vec2<u32>) {
  let before = atomicAdd(&low[to], x.x);
  let carry = select(0u, 1u, before + x.x < before);
  if (x.y + carry > 0u) {
    atomicAdd(&high[to], x.y + carry);
  }
}

fn bin(i: u32) -> vec2<u32> {
  return vec2<u32>(atomicLoad(&low[i]), atomicLoad(&high[i]));
}

// The weight of all kept tokens that weigh at least least, into mass.
fn weigh_all(lane: u32, peak: f32, by: f32, least: u32) {
  clear(lane);
  var sum = vec2<u32>(0u, 0u);
  for (var i = lane; i < p.vocab; i += GROUP) {
    let w = weight(logits[i], peak, by);
    if (w >= least && in_order(vec2<u32>(key_of(logits[i]), i), bound)) {
      sum = add64(sum, vec2<u32>(w, 0u));
    }
  }
  add(0u, sum);
  workgroupBarrier();
  if (lane == 0u) {
    mass = bin(0u);
  }
  workgroupBarrier();
}

// Finds the first kept token where the running sum passes rest: from digit 0 on in the order of scores, from digit 4 on
// in that of ids. by is 0 to sum ones.
fn search(lane: u32, from_digit: u32, peak: f32, by: f32, least: u32) {
  if (lane == 0u) {
    found = vec2<u32>(0u, 0u);
  }
  for (var digit = from_digit; digit < 7u; digit++) {
    clear(lane);
    let shift = select(48u - 8u * digit, 24u - 8u * digit, digit < 4u) & 31u;
    for (var i = lane; i < p.vocab; i += GROUP) {
      let at = vec2<u32>(key_of(logits[i]), i);
      var here = in_order(at, bound);
      var digits = at.x;
      var known = found.x;
      if (digit >= 4u) {
        here = here && (from_digit >= 4u || at.x == found.x);
        digits = at.y;
        known = found.y;
        // Digit 4 is the first of three.
        here = here && (digit == 4u || ((digits ^ known) >> (56u - 8u * digit)) == 0u);
      } else {
        here = here && (digit == 0u || ((digits ^ known) >> (32u - 8u * digit)) == 0u);
      }
      if (here) {
        let w = select(weight(logits[i], peak, by), 1u, by == 0.0);
        if (w >= least) {
          add((digits >> shift) & 255u, vec2<u32>(w, 0u));
        }
      }
    }
    workgroupBarrier();
    if (lane == 0u) {
      var last = 0u;
      for (var b = 0u; b < 256u; b++) {
        let w = bin(b);
        if (w.x == 0u && w.y == 0u) {
          continue;
        }
        last = b;
        if (less64(rest, w)) {
          break;
        }
        rest = sub64(rest, w);
      }
      if (digit < 4u) {
        found.x |= last << shift;
      } else {
        found.y |= last << shift;
      }
    }
    workgroupBarrier();
  }
}

// The five likeliest tokens and their shares; the status is not 0 where the logits are of no use.
fn find_top(lane: u32) -> u32 {
  var before = vec2<u32>(0u, NONE); // nothing is in order before
  for (var n = 0u; n < 5u; n++) {
    if (lane == 0u) {
      atomicStore(&best, NONE);
      atomicStore(&best_id, NONE);
      atomicStore(&worst, 0u);
    }
    workgroupBarrier();
    var mine = vec2<u32>(NONE, NONE);
    var bad = 0u;
    for (var i = lane; i < p.vocab; i += GROUP) {
      let finite = (bitcast<u32>(logits[i]) & 0x7f800000u) != 0x7f800000u;
      let at = vec2<u32>(key_of(logits[i]), i);
      bad = max(bad, select(NONE, at.x, finite));
      if ((n == 0u || !in_order(at, before)) && in_order(at, mine)) {
        mine = at;
      }
    }
    atomicMax(&worst, bad);
    atomicMin(&best, mine.x);
    workgroupBarrier();
    if (mine.x == atomicLoad(&best)) {
      atomicMin(&best_id, mine.y);
    }
    workgroupBarrier();
    before = vec2<u32>(atomicLoad(&best), atomicLoad(&best_id));
    if (lane == 0u) {
      top_ids[n] = before.y;
      top_probs[n] = score_of(before.x);
      if (n == 0u) {
        bound = vec2<u32>(NONE, NONE);
        let flat = atomicLoad(&worst) == before.x || atomicLoad(&worst) == NONE;
        halted = select(0u, 1u, flat);
      }
    }
    workgroupBarrier();
  }
  return workgroupUniformLoad(&halted);
}

// Applies the repetition penalty to the logits of recent tokens, once each; returns the logit as it was.
fn penalise(id: u32) -> f32 {
  var was = 0.0;
  if (id != NONE) {
    was = logits[id];
    let by = bitcast<f32>(session[REPEAT]);
    logits[id] = clamp(select(was * by, was / by, was > 0.0), -3.4028234e38, 3.4028234e38);
  }
  storageBarrier();
  return was;
}

// The token whose logit this thread penalises.
fn repeated(lane: u32) -> u32 {
  let by = bitcast<f32>(session[REPEAT]);
  if (lane >= RECENT_COUNT || by == 0.0 || by == 1.0) {
    return NONE;
  }
  let id = session[RECENT + lane];
  for (var i = 0u; i < lane; i++) {
    if (session[RECENT + i] == id) {
      return NONE;
    }
  }
  return select(NONE, id, id < p.vocab);
}

// The next number of SplitMix64 (Steele, Lea and Flood, 2014).
fn random() -> vec2<u32> {
  let state = add64(vec2<u32>(session[RANDOM], session[RANDOM + 1u]), vec2<u32>(0x7f4a7c15u, 0x9e3779b9u));
  session[RANDOM] = state.x;
  session[RANDOM + 1u] = state.y;
  var z = mul64(fold64(state, 30u), vec2<u32>(0x1ce4e5b9u, 0xbf58476du));
  z = mul64(fold64(z, 27u), vec2<u32>(0x133111ebu, 0x94d049bbu));
  return fold64(z, 31u);
}

// Ends the answer. Steps that come after it leave the logits, too.
fn halt() {
  session[HALT] = 1u;
  session[LOGIT_ROWS] = 0u;
}

@compute @workgroup_size(GROUP)
fn main(@builtin(local_invocation_id) local: vec3<u32>) {
  let lane = local.x;
  if (lane == 0u) {
    halted = session[HALT];
  }
  if (workgroupUniformLoad(&halted) != 0u) {
    if (lane == 0u) {
      session[RESULT + 1u] = 2u;
      session[RESULT + 2u] = session[STEP];
      session[STEP] += 1u;
    }
    return;
  }
  if (find_top(lane) != 0u) {
    if (lane == 0u) {
      halt();
      session[RESULT + 1u] = 1u;
      session[RESULT + 2u] = session[STEP];
      session[STEP] += 1u;
    }
    return;
  }
  let peak = top_probs[0];
  weigh_all(lane, peak, 1.0, 0u);
  let total = f32(mass.y) * 4294967296.0 + f32(mass.x);
  workgroupBarrier();
  if (lane < 5u) {
    top_probs[lane] = exp(top_probs[lane] - peak) * ONE / total;
  }

  if (lane == 0u) {
    let top_p = bitcast<f32>(session[TOP_P]);
    switches = select(0u, GREEDY, bitcast<f32>(session[TEMPERATURE]) == 0.0);
    switches |= select(0u, BY_K, session[TOP_K] > 0u && session[TOP_K] < p.vocab);
    switches |= select(0u, BY_P, top_p > 0.0 && top_p < 1.0);
    scale = 1.0 / bitcast<f32>(session[TEMPERATURE]);
  }
  let on = workgroupUniformLoad(&switches);
  let by = workgroupUniformLoad(&scale);
  let mine = repeated(lane);
  storageBarrier();
  let was = penalise(mine);
  workgroupBarrier();

  // The largest score: also the greedy choice.
  if (lane == 0u) {
    rest = vec2<u32>(0u, 0u);
  }
  search(lane, 0u, 0.0, 0.0, 0u);
  if ((on & GREEDY) == 0u) {
    let largest = score_of(found.x);
    let least = u32(bitcast<f32>(session[MIN_P]) * ONE + 0.5);
    workgroupBarrier();
    if ((on & BY_K) != 0u) {
      if (lane == 0u) {
        rest = vec2<u32>(session[TOP_K] - 1u, 0u);
      }
      search(lane, 0u, 0.0, 0.0, 0u);
      if (lane == 0u) {
        bound = found;
      }
      workgroupBarrier();
    }
    if ((on & BY_P) != 0u) {
      weigh_all(lane, largest, by, 0u);
      if (lane == 0u) {
        let part = u32(bitcast<f32>(session[TOP_P]) * 4294967296.0);
        let low_part = wide(mass.x, part);
        rest = add64(wide(mass.y, part), vec2<u32>(low_part.y, 0u));
        if (low_part.x == 0u) {
          rest = sub64(rest, vec2<u32>(1u, 0u)); // the sum that reaches the share is enough
        }
      }
      search(lane, 0u, largest, by, 0u);
      if (lane == 0u) {
        bound = found;
      }
      workgroupBarrier();
    }
    weigh_all(lane, largest, by, least);
    if (lane == 0u) {
      rest = mul64_high(mass, random());
    }
    search(lane, select(4u, 0u, (on & (BY_K | BY_P)) != 0u), largest, by, least);
  }

  if (mine != NONE) {
    logits[mine] = was;
  }
  storageBarrier();
  if (lane == 0u) {
    var id = found.y;
    let forced = session[FORCED + session[STEP] % FORCED_COUNT];
    if (forced != NONE) {
      id = forced;
      session[FORCED + session[STEP] % FORCED_COUNT] = NONE;
    }
    session[RESULT] = id;
    session[RESULT + 1u] = 0u;
    session[RESULT + 2u] = session[STEP];
    session[RESULT + 3u] = bitcast<u32>(exp(logits[id] - peak) * ONE / total);
    for (var n = 0u; n < 5u; n++) {
      session[RESULT + 4u + n] = top_ids[n];
      session[RESULT + 9u + n] = bitcast<u32>(select(0.0, top_probs[n], top_ids[n] != NONE));
    }
    for (var n = 0u; n < STOP_COUNT; n++) {
      if (session[STOPS + n] == id) {
        halt();
      }
    }
    session[RECENT + session[CHOSEN] % RECENT_COUNT] = id;
    session[CHOSEN] += 1u;
    session[IDS] = id;
    session[POS] += p.advance;
    session[STEP] += 1u;
  }
}

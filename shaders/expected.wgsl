// Recipes: logits of the attention that the queries of the next positions are expected to give (Expected Attention, Devoto
// et al., 2025): of normal distribution N(μ, Σ), and turned by R, the mean rotation of those positions, they give a key
// Rμ·k/√d + ½·kᵀRΣRᵀk/d. Here it is the key that is turned back: that takes no other μ and Σ than those that were summed.
//
// Shapes: spread as in spread.wgsl; turn [rot/2][2]: R; rows [heads][STRIDE].
// Grid: x, y over candidates and heads.
const DIM: u32 = 2u;

struct Params {
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
  scale: f32, // 1/√dim
  rot: u32,
  neox: u32,
  sinks: u32, // positions that take no part: they never leave, and would take most of it
  covariance: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(4) var<storage, read> kv: array<f32>;
@group(0) @binding(5) var<storage, read> arena: array<u32>;
@group(0) @binding(7) var<storage, read_write> rows: array<f32>;
@group(0) @binding(13) var<storage, read> spread: array<f32>;
@group(0) @binding(14) var<storage, read> turn: array<f32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lanes.wgsl
//!include lib/candidates.wgsl

var<private> key: array<f32, DIM>;

// Turns back the two channels of pair i.
fn turn_back(i: u32, a: u32, b: u32) {
  let x = key[a];
  key[a] = x * turn[2u * i] + key[b] * turn[2u * i + 1u];
  key[b] = key[b] * turn[2u * i] - x * turn[2u * i + 1u];
}

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let n = thread(id, groups);
  let s = n / tokens[STRIDE];
  let j = n % tokens[STRIDE];
  if (s >= tokens[SCORED]) {
    return;
  }
  let head = scored_head(s);
  let h = kv_head(head);
  if (j >= candidates(h) || position_of(h, min(j, candidates(h) - 1u)) < p.sinks) {
    rows[n] = INVALID;
    return;
  }
  let place = key_of(h, j);
  for (var c = 0u; c < DIM / 2u; c++) {
    let x = key_pair(place, c);
    key[2u * c] = x.x;
    key[2u * c + 1u] = x.y;
  }
  for (var i = 0u; i < p.rot / 2u; i++) {
    if (p.neox == 1u) {
      turn_back(i, i, i + p.rot / 2u);
    } else {
      turn_back(i, 2u * i, 2u * i + 1u);
    }
  }
  let at = head * DIM * (2u + p.covariance * DIM);
  let seen = max(f32(tokens[SEEN]), 1.0);
  var first = 0.0;
  var sums = 0.0;
  var products = 0.0;
  for (var c = 0u; c < DIM; c++) {
    first += key[c] * spread[at + c];
    sums += key[c] * spread[at + DIM + c];
    if (p.covariance == 1u) {
      var image = 0.0;
      for (var d = 0u; d < DIM; d++) {
        image += key[d] * spread[at + (2u + c) * DIM + d];
      }
      products += key[c] * image;
    }
  }
  let mean = sums / seen;
  var logit = (first + mean) * p.scale;
  if (p.covariance == 1u) {
    logit += 0.5 * p.scale * p.scale * (products / seen - mean * mean);
  }
  rows[n] = logit;
}

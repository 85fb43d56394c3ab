// Recipes: what each candidate's value would add to the layer's output, ‖W_o·v‖₁, the mean over the query heads that read
// it (CriticalKV, Feng et al., 2025).
//
// Shapes: W [rows][cols], cols = heads·dim, of which each head has dim columns; weights [kv_heads][STRIDE].
// Grid: x, y over tiles of TILE candidates and KV heads, LANES threads each, which take every LANES-th row of W.
const LANES: u32 = 1u; // threads that share a tile: 1 or GROUP
const TILE: u32 = 8u;  // candidates that share a pass over W

struct Params {
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
  rows: u32,
  cols: u32,
  codes_at: u32,
  scales_at: u32,
  share: u32, // 1: KV heads whose candidates are the same have the mean of theirs
  more: u32,  // 1: W is not all of the projection, and others of its rows came before
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(3) var<storage, read> codes: array<u32>;
@group(0) @binding(4) var<storage, read> kv: array<f32>;
@group(0) @binding(5) var<storage, read> arena: array<u32>;
@group(0) @binding(6) var<storage, read> scales: array<u32>;
@group(0) @binding(7) var<storage, read_write> weights: array<f32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lanes.wgsl
//!include lib/candidates.wgsl
//!include lib/sharers.wgsl
//!include lib/weights_{layout}.wgsl

var<workgroup> partial: array<f32, GROUP>;
var<private> places: array<vec2<u32>, TILE>; // of the values
var<private> lengths: array<f32, TILE>;

// Adds to the lengths what one head's columns of row r give.
fn add_row(r: u32, head: u32) {
  var products: array<f32, TILE>;
  let begin = head * p.dim;
  for (var k = begin & ~3u; k < begin + p.dim; k += 4u) { // weights come in fours, heads in twos
    let w = weights4(r, k);
    for (var t = 0u; t < TILE; t++) {
      if (k >= begin) {
        products[t] += dot(w.xy, value_pair(places[t], (k - begin) / 2u));
      }
      if (k + 2u < begin + p.dim) {
        products[t] += dot(w.zw, value_pair(places[t], (k + 2u - begin) / 2u));
      }
    }
  }
  for (var t = 0u; t < TILE; t++) {
    lengths[t] += abs(products[t]);
  }
}

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let n = thread(id, groups);
  let lane = n % LANES;
  let tiles = (tokens[STRIDE] + TILE - 1u) / TILE;
  let h = n / LANES / tiles;
  let first = n / LANES % tiles * TILE;
  let heads = sharers(min(h, p.kv_heads - 1u));
  let size = p.heads / p.kv_heads;
  // Of heads that share, the first one works for all.
  let past = select(heads.y, heads.x, h > heads.x);
  for (var g = heads.x; g < past; g++) {
    for (var t = 0u; t < TILE; t++) {
      places[t] = value_of(g, min(first + t, candidates(g) - 1u));
    }
    for (var head = g * size; head < (g + 1u) * size; head++) {
      for (var r = lane; r < p.rows; r += LANES) {
        add_row(r, head);
      }
    }
  }
  let by = 1.0 / f32(max(1u, (past - heads.x) * size));
  for (var t = 0u; t < TILE; t++) {
    var length = lengths[t];
    if (LANES > 1u) {
      partial[id.x % GROUP] = length;
      workgroupBarrier();
      length = 0.0;
      for (var i = 0u; i < LANES; i++) {
        length += partial[i];
      }
      workgroupBarrier();
    }
    if (lane == 0u && first + t < tokens[STRIDE]) {
      for (var g = h; g < select(heads.y, h, past == heads.x); g++) {
        let place = g * tokens[STRIDE] + first + t;
        weights[place] = length * by + select(0.0, weights[place], p.more == 1u);
      }
    }
  }
}

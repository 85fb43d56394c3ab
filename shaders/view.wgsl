// Views, on demand: attention rows as codes, log10 of the probability from −4 to 0 as 0…255. A workgroup fills one row of
// cells, each the largest of POOL neighbouring slots, and of the queries that share the row. It goes over the keys twice:
// for the largest logit and the sum of weights (the online softmax of Milakov and Gimelshein, 2018), then for the codes.
//
// Shapes: q [chunk rows][heads·dim]; cells are bytes, four a word, and grow only; sums [heads][4] f32 in the same buffer.
// Grid: x over rows of cells: over the heads for one query, over queries for one head.
struct Params {
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
  scale: f32,
  head: u32,  // the first
  many: u32,  // 1: over the heads
  row: u32,   // first chunk row
  rows: u32,
  pos: u32,   // position of that row
  ahead: u32, // rows of the turn between the first of all cells and that row
  pool: u32,
  at: u32,     // word of the first cell
  stride: u32, // words from row to row
  sums: u32,   // word of the sums, or NONE
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> q: array<f32>;
@group(0) @binding(3) var<storage, read> arena: array<u32>;
@group(0) @binding(4) var<storage, read_write> cells: array<u32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lanes.wgsl

const SINK: u32 = 4u;   // first tokens that count as the sink
const LOCAL: u32 = 32u; // last tokens that count as local

var<workgroup> tops: array<f32, GROUP>;
var<workgroup> parts: array<vec3<f32>, GROUP>;

fn logit_of(list: u32, slot: u32, query: u32, last: u32) -> f32 {
  if (arena[position_at(list, slot)] > last) {
    return LOWEST;
  }
  let key = key_at(list, slot);
  var sum = 0.0;
  for (var i = 0u; i < p.dim / 2u; i++) {
    sum += dot(vec2<f32>(q[query + 2u * i], q[query + 2u * i + 1u]), key2(key, i));
  }
  return sum * p.scale;
}

@compute @workgroup_size(GROUP)
fn main(@builtin(local_invocation_id) local: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>) {
  let lane = local.x;
  let h = p.head + group.x * p.many;
  let list = p.layer * p.kv_heads + h / (p.heads / p.kv_heads);
  let count = session[ring_at(list) + 1u];
  let line = p.ahead / p.pool + group.x;
  var first = 0u;
  var end = p.rows;
  if (p.many == 0u) {
    first = max(line * p.pool, p.ahead) - p.ahead;
    end = min((line + 1u) * p.pool - p.ahead, p.rows);
  }
  for (var row = first; row < end; row++) {
    let query = ((p.row + row) * p.heads + h) * p.dim;
    let last = p.pos + row;
    var top = LOWEST;
    var sum = 0.0;
    for (var slot = lane; slot < count; slot += GROUP) {
      let logit = logit_of(list, slot, query, last);
      let most = max(top, logit);
      sum = sum * exp(top - most) + exp(logit - most); // a slot that does not count adds 0 once another has been seen
      top = most;
    }
    workgroupBarrier(); // the row before has read its sums
    tops[lane] = top;
    parts[lane].x = sum;
    workgroupBarrier();
    top = LOWEST;
    for (var i = 0u; i < GROUP; i++) {
      top = max(top, tops[i]);
    }
    sum = 0.0;
    for (var i = 0u; i < GROUP; i++) {
      sum += parts[i].x * exp(tops[i] - top);
    }
    let shift = top + log(sum);
    var seen = vec3<f32>(0.0, 0.0, 0.0); // sink, local, entropy
    for (var word = lane; word * 4u * p.pool < count; word += GROUP) {
      let at = p.at + line * p.stride + word;
      var cell = cells[at];
      for (var i = 0u; i < 4u * p.pool; i++) {
        let slot = word * 4u * p.pool + i;
        if (slot >= count) {
          break;
        }
        let logit = logit_of(list, slot, query, last);
        if (logit > LOWEST) {
          let share = logit - shift; // natural logarithm of the probability
          let code = u32(clamp(floor(255.0 * (1.0 + share * 0.10857362) + 0.5), 0.0, 255.0)); // 1/(4·ln 10)
          let bits = 8u * (i / p.pool);
          cell = (cell & ~(255u << bits)) | (max((cell >> bits) & 255u, code) << bits);
          let prob = exp(share);
          let pos = arena[position_at(list, slot)];
          seen.z -= prob * share;
          if (pos < SINK) {
            seen.x += prob;
          } else if (pos + LOCAL > last) {
            seen.y += prob;
          }
        }
      }
      cells[at] = cell;
    }
    if (p.sums != NONE) {
      workgroupBarrier(); // all have read the parts
      parts[lane] = seen;
      workgroupBarrier();
      if (lane == 0u) {
        var all = vec3<f32>(0.0, 0.0, 0.0);
        for (var i = 0u; i < GROUP; i++) {
          all += parts[i];
        }
        let at = p.sums + 4u * group.x;
        cells[at] = bitcast<u32>(all.x);
        cells[at + 1u] = bitcast<u32>(all.y);
        cells[at + 2u] = bitcast<u32>(all.z);
        cells[at + 3u] = bitcast<u32>(1.0 / sum);
      }
    }
  }
}

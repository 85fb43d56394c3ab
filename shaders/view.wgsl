// Views, on demand: attention rows as codes, log10 of the probability from −4 to 0 as 0…255. A workgroup fills one row of
// cells, each the largest of POOL neighbouring positions, and of the queries that share the row. It goes over the slots
// twice: for the largest logit and the sum of weights (the online softmax of Milakov and Gimelshein, 2018), then for the
// codes. Logits are of keys, or are there already.
//
// Shapes: cells are bytes, four a word, and grow only; sums [heads][4] f32 in the same buffer.
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
@group(0) @binding(3) var<storage, read> arena: array<u32>;
@group(0) @binding(4) var<storage, read_write> cells: array<atomic<u32>>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lanes.wgsl
//!include lib/view_{from}.wgsl

const SINK: u32 = 4u;   // first tokens that count as the sink
const LOCAL: u32 = 32u; // last tokens that count as local

var<workgroup> tops: array<f32, GROUP>;
var<workgroup> own: array<vec3<f32>, GROUP>;

// Raises the cell of a position in a row of cells to a code.
fn raise(line: u32, position: u32, code: u32) {
  let cell = position / p.pool;
  let at = p.at + line * p.stride + cell / 4u;
  let bits = 8u * (cell % 4u);
  var old = atomicLoad(&cells[at]);
  while (((old >> bits) & 255u) < code) {
    let swap = atomicCompareExchangeWeak(&cells[at], old, (old & ~(255u << bits)) | (code << bits));
    if (swap.exchanged) {
      break;
    }
    old = swap.old_value;
  }
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
    let last = p.pos + row;
    var top = LOWEST;
    var sum = 0.0;
    for (var slot = lane; slot < count; slot += GROUP) {
      let logit = logit_of(list, slot, h, p.row + row, last);
      let most = max(top, logit);
      sum = sum * exp(top - most) + exp(logit - most); // a slot that does not count adds 0 once another has been seen
      top = most;
    }
    workgroupBarrier(); // the row before has read its sums
    tops[lane] = top;
    own[lane].x = sum;
    workgroupBarrier();
    top = LOWEST;
    for (var i = 0u; i < GROUP; i++) {
      top = max(top, tops[i]);
    }
    sum = 0.0;
    for (var i = 0u; i < GROUP; i++) {
      sum += own[i].x * exp(tops[i] - top);
    }
    sum = total(h, sum);
    let shift = top + log(sum);
    var seen = vec3<f32>(0.0, 0.0, 0.0); // sink, local, entropy
    for (var slot = lane; slot < count; slot += GROUP) {
      let logit = logit_of(list, slot, h, p.row + row, last);
      if (logit <= LOWEST) {
        continue;
      }
      let share = logit - shift; // natural logarithm of the probability
      let position = arena[position_at(list, slot)];
      raise(line, position, u32(clamp(floor(255.0 * (1.0 + share * 0.10857362) + 0.5), 0.0, 255.0))); // 1/(4·ln 10)
      let prob = exp(share);
      seen.z -= prob * share;
      if (position < SINK) {
        seen.x += prob;
      } else if (position + LOCAL > last) {
        seen.y += prob;
      }
    }
    if (p.sums != NONE) {
      workgroupBarrier(); // all have read the parts
      own[lane] = seen;
      workgroupBarrier();
      if (lane == 0u) {
        var all = vec3<f32>(0.0, 0.0, 0.0);
        for (var i = 0u; i < GROUP; i++) {
          all += own[i];
        }
        let at = p.sums + 4u * group.x;
        atomicStore(&cells[at], bitcast<u32>(all.x));
        atomicStore(&cells[at + 1u], bitcast<u32>(all.y));
        atomicStore(&cells[at + 2u], bitcast<u32>(all.z));
        atomicStore(&cells[at + 3u], bitcast<u32>(1.0 / sum));
      }
    }
  }
}

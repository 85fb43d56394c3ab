// Recipes, decode: which pages of bounds a query reads (Quest, Tang et al., 2024): that of the newest token, and those whose
// keys could have the largest product with it, Σ max(q·least, q·greatest); of equals the first.
//
// Shapes: q [chunk rows][heads·dim], of which row QUERY; most, marks [heads][pages], pages = ⌈CAPACITY/BOUND⌉.
// Grid: a workgroup for each head, whose threads stride over the pages.
struct Params {
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
  bound: u32, // slots of a page
  read: u32,  // pages to read, the newest token's among them
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(3) var<storage, read> q: array<f32>;
@group(0) @binding(5) var<storage, read> arena: array<u32>;
@group(0) @binding(15) var<storage, read_write> most: array<f32>;
@group(0) @binding(16) var<storage, read_write> marks: array<u32>;

//!include lib/session.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/beside.wgsl

@compute @workgroup_size(GROUP)
fn main(@builtin(local_invocation_id) local: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>) {
  let h = group.x;
  let list = p.layer * p.kv_heads + h / (p.heads / p.kv_heads);
  let query = (session[QUERY] * p.heads + h) * p.dim;
  let pages = (session[ring_at(list) + 1u] + p.bound - 1u) / p.bound;
  let newest = session[ring_at(list)] / p.bound;
  let row = h * ((session[CAPACITY] + p.bound - 1u) / p.bound);
  for (var page = local.x; page < pages; page += GROUP) {
    let at = bounds_at(list, page);
    var sum = 0.0;
    for (var c = 0u; c < p.dim; c++) {
      let x = q[query + c];
      sum += max(x * bitcast<f32>(arena[at + c]), x * bitcast<f32>(arena[at + p.dim + c]));
    }
    most[row + page] = sum;
  }
  storageBarrier();
  for (var page = local.x; page < pages; page += GROUP) {
    var rank = 1u; // the newest token's page comes first
    for (var other = 0u; other < pages; other++) {
      let better = most[row + other] > most[row + page] || (most[row + other] == most[row + page] && other < page);
      rank += select(0u, 1u, better && other != newest);
    }
    marks[row + page] = select(0u, 1u, page == newest || rank < p.read);
  }
}

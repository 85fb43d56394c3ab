// Embedding: X[from + t] = row id of the table, for the ids of the run.
//
// Shapes: table [rows][cols], X [prompt rows][cols]. The table may be one part of a larger one, from row first on: a
// thread whose id lies in another part does nothing.
// Grid: one thread for four channels of one row, x over both.
struct Params {
  rows: u32,
  cols: u32,
  codes_at: u32,  // of row 0 in codes: words, or halves where weights are halves
  scales_at: u32, // of row 0 in scales: words, or halves where scales are
  first: u32,     // of the whole table
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> codes: array<u32>;
@group(0) @binding(3) var<storage, read> scales: array<u32>;
@group(0) @binding(4) var<storage, read_write> x: array<f32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/weights_{layout}.wgsl

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let quads = (p.cols + 3u) / 4u;
  let i = thread(id, groups);
  let t = i / quads;
  let k = (i % quads) * 4u;
  if (t >= session[ROWS]) {
    return;
  }
  let row = session[IDS + t] - p.first; // wraps round below first
  if (row >= p.rows) {
    return;
  }
  let w = weights4(row, k);
  let at = (session[FROM] + t) * p.cols + k;
  for (var c = 0u; c < min(4u, p.cols - k); c++) {
    x[at + c] = select(select(w.x, w.y, c == 1u), select(w.z, w.w, c == 3u), c >= 2u);
  }
}

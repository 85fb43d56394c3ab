// The product of one weight row and TILE input rows by LANES neighbouring threads: they read neighbouring weights, which
// is what a GPU's memory wants, and add up through workgroup memory. Every thread of the workgroup must call it.
const TILE: u32 = 1u;   // input rows
const LANES: u32 = 16u; // threads that share a weight row

var<private> sums: array<f32, TILE>; // in the first lane of each row

var<workgroup> partial: array<vec2<f32>, GROUP>;

// Sets sums[i] to the product of weight row r and input row t0 + i.
fn product(r: u32, t0: u32, lane: u32) {
  var acc: array<f32, TILE>;
  var squares: array<f32, TILE>;
  for (var k = lane % LANES * 4u; k < p.cols; k += 4u * LANES) {
    let inside = vec4<bool>(true, k + 1u < p.cols, k + 2u < p.cols, k + 3u < p.cols);
    let nothing = vec4<f32>(0.0, 0.0, 0.0, 0.0);
    let w = select(nothing, prepare(weights4(r, k), k), inside);
    for (var i = 0u; i < TILE; i++) {
      let x = select(nothing, input4(t0 + i, k), inside);
      acc[i] += dot(w, x);
      squares[i] += dot(x, x);
    }
  }
  for (var i = 0u; i < TILE; i++) {
    partial[lane] = vec2<f32>(acc[i], squares[i]);
    workgroupBarrier();
    for (var n = LANES / 2u; n > 0u; n /= 2u) {
      if (lane % LANES < n) {
        partial[lane] += partial[lane + n];
      }
      workgroupBarrier();
    }
    sums[i] = finish(partial[lane].x, partial[lane].y);
    workgroupBarrier();
  }
}

// The product of one weight row and TILE input rows by one thread, without a barrier: for software adapters, and the
// plain form that product_lanes.wgsl is held to.
const TILE: u32 = 1u;  // input rows
const LANES: u32 = 1u; // threads that share a weight row

var<private> sums: array<f32, TILE>;

// Sets sums[i] to the product of weight row r and input row t0 + i.
fn product(r: u32, t0: u32, lane: u32) {
  var acc: array<f32, TILE>;
  var squares: array<f32, TILE>;
  for (var k = 0u; k < p.cols; k += 4u) {
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
    sums[i] = finish(acc[i], squares[i]);
  }
}

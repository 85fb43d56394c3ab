// The product of lib/product_lanes.wgsl with subgroups: all threads of the workgroup share its weight rows, so that each
// input is read once for all of them, and add up within their subgroups before they meet in workgroup memory.
//
// Shapes: as the kernel says; sums[i] is set in the first of each row's LANES threads.
// Grid: the kernel's, LANES threads for each weight row. Every thread of the workgroup must call product.
// Idea: nothing here knows how large a subgroup is, or which threads are in it. A thread's number among those of its
// subgroup and how many they are come from sums over ones, so subgroups of 4 to 128 threads serve alike, also half full.
enable subgroups;

const TILE: u32 = 1u;   // input rows
const LANES: u32 = 16u; // threads for each weight row
const TEAMS: u32 = 4u;  // weight rows of a workgroup, GROUP / LANES

var<private> sums: array<f32, TILE>; // in the first lane of each row

var<workgroup> row_of: array<u32, TEAMS>;
var<workgroup> partial: array<vec4<f32>, TILE * GROUP>;
var<workgroup> partial_squares: array<f32, TILE * GROUP>;

// Sets sums[i] to the product of weight row r and input row t0 + i.
fn product(r: u32, t0: u32, lane: u32) {
  if (lane % LANES == 0u) {
    row_of[lane / LANES] = r;
  }
  workgroupBarrier();
  var acc: array<vec4<f32>, TILE>;
  var squares: array<f32, TILE>;
  for (var k = lane * 4u; k < p.cols; k += 4u * GROUP) {
    let inside = vec4<bool>(true, k + 1u < p.cols, k + 2u < p.cols, k + 3u < p.cols);
    let nothing = vec4<f32>(0.0, 0.0, 0.0, 0.0);
    let w0 = select(nothing, prepare(weights4(row_of[0], k), k), inside);
    let w1 = select(nothing, prepare(weights4(row_of[1], k), k), inside);
    let w2 = select(nothing, prepare(weights4(row_of[2], k), k), inside);
    let w3 = select(nothing, prepare(weights4(row_of[3], k), k), inside);
    for (var i = 0u; i < TILE; i++) {
      let x = select(nothing, input4(t0 + i, k), inside);
      acc[i] += vec4<f32>(dot(w0, x), dot(w1, x), dot(w2, x), dot(w3, x));
      squares[i] += dot(x, x);
    }
  }
  let rank = subgroupExclusiveAdd(1u);
  let size = subgroupAdd(1u);
  // Each subgroup's first thread writes its sum, the others write zeros: whose numbers are whose, nobody needs to know.
  for (var i = 0u; i < TILE; i++) {
    let sum = subgroupAdd(acc[i]);
    let square = subgroupAdd(squares[i]);
    partial[i * GROUP + lane] = select(vec4<f32>(0.0, 0.0, 0.0, 0.0), sum, rank == 0u);
    partial_squares[i * GROUP + lane] = select(0.0, square, rank == 0u);
  }
  workgroupBarrier();
  for (var i = 0u; i < TILE; i++) {
    var sum = vec4<f32>(0.0, 0.0, 0.0, 0.0);
    var square = 0.0;
    for (var n = rank; n < GROUP; n += size) {
      sum += partial[i * GROUP + n];
      square += partial_squares[i * GROUP + n];
    }
    let all = subgroupAdd(sum);
    sums[i] = finish(all[lane / LANES], subgroupAdd(square));
  }
  workgroupBarrier();
}

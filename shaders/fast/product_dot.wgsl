// The product of lib/product_lanes.wgsl in integers: each 32 columns of an input row become 32 signed bytes and a scale,
// and dot4I8Packed multiplies them with the packed weights, four at a time. It rounds the input to 1/254 of a group's
// largest number.
//
// Shapes: as the kernel says, with cols a multiple of 32; sums[i] is set in the first of each row's LANES threads.
// Grid: the kernel's, LANES threads for each weight row. Every thread of the workgroup must call product.
// Idea: the threads first round as many groups as there are threads, one each, into workgroup memory, where all weight
// rows of the workgroup use them. A norm's weights go to the input here: the matrix is not unpacked.
requires packed_4x8_integer_dot_product;

//!include fast/group_{layout}.wgsl

const TILE: u32 = 1u;  // input rows
const LANES: u32 = 4u; // threads that share a weight row

var<private> sums: array<f32, TILE>; // in the first lane of each row

const STAGE: u32 = GROUP / TILE;                     // groups of each input row that are rounded at once
var<workgroup> bytes: array<vec4<u32>, 2 * GROUP>;   // [TILE][STAGE][2]
var<workgroup> scale_of: array<vec2<f32>, GROUP>;    // [TILE][STAGE]: the scale, and the group's sum
var<workgroup> square_of: array<f32, GROUP>;         // [TILE][STAGE]
var<workgroup> partial: array<f32, TILE * GROUP>;

// Rounds group g of input row t to place i, and returns the sum of its squares.
fn round_group(t: u32, g: u32, i: u32) -> f32 {
  var x: array<vec4<f32>, 8>;
  var most = 0.0;
  var square = 0.0;
  for (var j = 0u; j < 8u; j++) {
    let k = 32u * g + 4u * j;
    let v = input4(t, k);
    square += dot(v, v);
    x[j] = prepare(v, k);
    let size = abs(x[j]);
    most = max(most, max(max(size.x, size.y), max(size.z, size.w)));
  }
  most = max(most, 1e-30); // below, 127/most would overflow
  var words: array<u32, 8>;
  var sum = 0;
  for (var j = 0u; j < 8u; j++) {
    words[j] = pack4xI8(vec4<i32>(round(x[j] * (127.0 / most))));
    sum += dot4I8Packed(words[j], 0x01010101u);
  }
  bytes[2u * i] = vec4<u32>(words[0], words[1], words[2], words[3]);
  bytes[2u * i + 1u] = vec4<u32>(words[4], words[5], words[6], words[7]);
  scale_of[i] = vec2<f32>(1.0, f32(sum)) * (most / 127.0);
  return square;
}

fn dot16(a: vec4<u32>, b: vec4<u32>) -> i32 {
  return dot4I8Packed(a.x, b.x) + dot4I8Packed(a.y, b.y) + dot4I8Packed(a.z, b.z) + dot4I8Packed(a.w, b.w);
}

// Sets sums[i] to the product of weight row r and input row t0 + i.
fn product(r: u32, t0: u32, lane: u32) {
  var acc: array<f32, TILE>;
  var square = 0.0;
  let groups = p.cols / 32u;
  for (var first = 0u; first < groups; first += STAGE) {
    if (first + lane % STAGE < groups) {
      square += round_group(t0 + lane / STAGE, first + lane % STAGE, lane);
    }
    workgroupBarrier();
    for (var g = lane % LANES; g < min(STAGE, groups - first); g += LANES) {
      let w = group_of(r, first + g);
      for (var t = 0u; t < TILE; t++) {
        let at = t * STAGE + g;
        let whole = dot16(w.low, bytes[2u * at]) + dot16(w.high, bytes[2u * at + 1u]);
        acc[t] += w.scale * scale_of[at].x * f32(whole) + w.minimum * scale_of[at].y;
      }
    }
    workgroupBarrier();
  }
  for (var t = 0u; t < TILE; t++) {
    partial[lane * TILE + t] = acc[t];
  }
  square_of[lane] = square;
  workgroupBarrier();
  if (lane % LANES == 0u) {
    for (var t = 0u; t < TILE; t++) {
      var sum = 0.0;
      for (var n = 0u; n < LANES; n++) {
        sum += partial[(lane + n) * TILE + t];
      }
      var squares = 0.0;
      for (var n = 0u; n < STAGE; n++) {
        squares += square_of[t * STAGE + n];
      }
      sums[t] = finish(sum, squares);
    }
  }
  workgroupBarrier();
}

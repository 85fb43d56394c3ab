// The logarithm of a row's sum of exponentials, of which each of LANES threads has summed a part.
const LANES: u32 = 16u;

var<workgroup> tops: array<f32, GROUP>;
var<workgroup> sums: array<f32, GROUP>;

fn whole(top: f32, sum: f32, lane: u32) -> f32 {
  tops[lane] = top;
  sums[lane] = sum;
  workgroupBarrier();
  let first = lane - lane % LANES;
  var most = LOWEST;
  for (var i = 0u; i < LANES; i++) {
    most = max(most, tops[first + i]);
  }
  var all = 0.0;
  for (var i = 0u; i < LANES; i++) {
    all += sums[first + i] * exp(tops[first + i] - most);
  }
  return most + log(all);
}

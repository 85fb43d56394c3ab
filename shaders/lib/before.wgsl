// Sums over the lanes of a workgroup.
var<workgroup> tally: array<u32, GROUP>;
var<private> all_lanes: u32;

// The sum of x over the lanes before; over all of them it goes to all_lanes.
fn before(lane: u32, x: u32) -> u32 {
  tally[lane] = x;
  workgroupBarrier();
  var sum = 0u;
  all_lanes = 0u;
  for (var i = 0u; i < GROUP; i++) {
    sum += select(0u, tally[i], i < lane);
    all_lanes += tally[i];
  }
  workgroupBarrier();
  return sum;
}

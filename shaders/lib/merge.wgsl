// Attention by LANES neighbouring threads for a head of a row: each has summed some of the keys under a largest logit of
// its own. They agree on one, then add up a few pairs of channels at a time through workgroup memory.
const LANES: u32 = 16u; // threads that share a head of a row
const BLOCK: u32 = 8u;  // pairs at a time, at most LANES
const BLOCKS: u32 = 512u; // GROUP · BLOCK

var<workgroup> tops: array<f32, GROUP>;
var<workgroup> weights: array<f32, GROUP>;
var<workgroup> block: array<vec2<f32>, BLOCKS>;

fn write_row(at: u32, row: u32, lane: u32) {
  tops[lane] = top;
  workgroupBarrier();
  let first = lane - lane % LANES;
  var most = LOWEST;
  for (var i = 0u; i < LANES; i++) {
    most = max(most, tops[first + i]);
  }
  let shrink = exp(top - most);
  weights[lane] = sum * shrink;
  workgroupBarrier();
  var all = 0.0;
  for (var i = 0u; i < LANES; i++) {
    all += weights[first + i];
  }
  if (lane == first) {
    lse[row] = most + log(all);
  }
  for (var pair = 0u; pair < PAIRS; pair += BLOCK) {
    for (var i = 0u; i < BLOCK; i++) {
      if (pair + i < PAIRS) {
        block[lane * BLOCK + i] = acc[pair + i] * shrink;
      }
    }
    workgroupBarrier();
    let mine = lane % LANES;
    if (mine < BLOCK && pair + mine < PAIRS) {
      var out = vec2<f32>(0.0, 0.0);
      for (var i = 0u; i < LANES; i++) {
        out += block[(first + i) * BLOCK + mine];
      }
      a[at + 2u * (pair + mine)] = out.x / all; // a row sees at least itself
      a[at + 2u * (pair + mine) + 1u] = out.y / all;
    }
    workgroupBarrier();
  }
}

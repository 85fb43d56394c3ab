// The largest logit of a row, found by the threads of a workgroup together.
var<workgroup> tops: array<f32, GROUP>;

fn top_of(row: u32, count: u32, lane: u32) -> f32 {
  var top = LOWEST;
  for (var slot = lane; slot < count; slot += GROUP) {
    top = max(top, scores[row + slot]);
  }
  tops[lane] = top;
  workgroupBarrier();
  for (var n = GROUP / 2u; n > 0u; n /= 2u) {
    if (lane < n) {
      tops[lane] = max(tops[lane], tops[lane + n]);
    }
    workgroupBarrier();
  }
  return tops[0];
}

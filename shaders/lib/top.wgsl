// The largest logit of a row, found by every thread for itself.
fn top_of(row: u32, count: u32, lane: u32) -> f32 {
  var top = LOWEST;
  for (var slot = 0u; slot < count; slot++) {
    top = max(top, scores[row + slot]);
  }
  return top;
}

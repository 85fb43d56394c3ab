// Adding to a list's sums.
//!include lib/sums.wgsl

fn add_to(at: u32, x: vec2<f32>, fresh: bool) {
  let old = bitcast<vec2<f32>>(vec2<u32>(arena[at], arena[at + 1u]));
  let sum = bitcast<vec2<u32>>(select(old, vec2<f32>(0.0, 0.0), fresh) + x);
  arena[at] = sum.x;
  arena[at + 1u] = sum.y;
}

// Pair i of a stored token's key, and then of its value.
fn stored2(list: u32, slot: u32, i: u32) -> vec2<f32> {
  if (i < p.dim / 2u) {
    return key2(key_at(list, slot), i);
  }
  return value2(value_at(list, slot), i - p.dim / 2u);
}

fn count_absorbed(list: u32, tokens: u32) {
  let count = lists[list * LIST + ABSORBED] + tokens;
  lists[list * LIST + ABSORBED] = count;
  arena[sums_at(list) + 2u * p.dim] = bitcast<u32>(f32(count));
}

// Reads channels 2i and 2i + 1 of the lane that begins at word at.
fn key2(at: u32, i: u32) -> vec2<f32> {
  if (KEY_F16) {
    return half2(arena[at + i]);
  }
  return bitcast<vec2<f32>>(vec2<u32>(arena[at + 2u * i], arena[at + 2u * i + 1u]));
}

fn value2(at: u32, i: u32) -> vec2<f32> {
  if (VALUE_F16) {
    return half2(arena[at + i]);
  }
  return bitcast<vec2<f32>>(vec2<u32>(arena[at + 2u * i], arena[at + 2u * i + 1u]));
}

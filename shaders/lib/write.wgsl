// Writes channels 2i and 2i + 1 of the lane that begins at word at.
fn write2(at: u32, i: u32, v: vec2<f32>, is_half: bool) {
  if (is_half) {
    arena[at + i] = to_half(v.x) | (to_half(v.y) << 16u);
  } else {
    arena[at + 2u * i] = bitcast<u32>(v.x);
    arena[at + 2u * i + 1u] = bitcast<u32>(v.y);
  }
}

// What left a list counts for nothing.
fn weight_left(h: u32, list: u32, top: f32) -> f32 {
  return 0.0;
}

fn value_left(list: u32, i: u32) -> vec2<f32> {
  return vec2<f32>(0.0, 0.0);
}

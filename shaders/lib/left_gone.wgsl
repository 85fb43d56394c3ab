// What left a list counts for nothing.
fn logit_left(list: u32, query: u32) -> f32 {
  return LOWEST;
}

fn value_left(list: u32, i: u32) -> vec2<f32> {
  return vec2<f32>(0.0, 0.0);
}

// A product with the input as it is.
fn prepare(w: vec4<f32>, k: u32) -> vec4<f32> {
  return w;
}

fn finish(sum: f32, squares: f32) -> f32 {
  return sum;
}

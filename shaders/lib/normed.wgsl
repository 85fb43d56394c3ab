// A product with the input's RMS norm (Zhang and Sennrich, 2019), in one pass: the norm's weights go to the matrix, and
// what the input is divided by is the same for all of it, so it divides the sum.
@group(0) @binding(5) var<storage, read> norm: array<f32>;

fn prepare(w: vec4<f32>, k: u32) -> vec4<f32> {
  return w * vec4<f32>(norm[k], norm[k + 1u], norm[k + 2u], norm[k + 3u]);
}

fn finish(sum: f32, squares: f32) -> f32 {
  return sum * inverseSqrt(squares / f32(p.cols) + p.eps);
}

// Four weights of row r from column k on, half floats. Past the end of a row they are others'. A row may begin in the
// middle of a word.
fn weights4(r: u32, k: u32) -> vec4<f32> {
  let i = p.codes_at + r * p.cols + k;
  let a = half2(codes[i >> 1u]);
  let b = half2(codes[(i >> 1u) + 1u]);
  if ((i & 1u) == 0u) {
    return vec4<f32>(a, b);
  }
  return vec4<f32>(a.y, b, half2(codes[(i >> 1u) + 2u]).x);
}

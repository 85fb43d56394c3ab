// Four weights of row r from column k on, a multiple of 4: 4-bit codes, weight = code·scale + minimum. Groups of 32 are
// four words; byte j holds column j in its low nibble and column j + 16 in its high one.
fn weights4(r: u32, k: u32) -> vec4<f32> {
  let group = (r * p.cols + k) / 32u;
  let word = codes[p.codes_at + group * 4u + (k & 15u) / 4u] >> ((k & 16u) / 4u);
  let scale = half2(scales[p.scales_at + group]);
  let code = (vec4<u32>(word, word, word, word) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(15u, 15u, 15u, 15u);
  return vec4<f32>(code) * scale.x + vec4<f32>(scale.y, scale.y, scale.y, scale.y);
}

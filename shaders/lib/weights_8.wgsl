// Four weights of row r from column k on, a multiple of 4: signed bytes, weight = code·scale, a half for 32 columns.
fn weights4(r: u32, k: u32) -> vec4<f32> {
  let i = r * p.cols + k;
  let word = bitcast<i32>(codes[p.codes_at + i / 4u]);
  let group = p.scales_at + i / 32u;
  let code = vec4<i32>(word << 24u, word << 16u, word << 8u, word) >> vec4<u32>(24u, 24u, 24u, 24u);
  return vec4<f32>(code) * half_of(scales[group >> 1u], group);
}

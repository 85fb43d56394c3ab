// Four weights of row r from column k on, f32. Past the end of a row they are others'.
fn weights4(r: u32, k: u32) -> vec4<f32> {
  let i = p.codes_at + r * p.cols + k;
  return bitcast<vec4<f32>>(vec4<u32>(codes[i], codes[i + 1u], codes[i + 2u], codes[i + 3u]));
}

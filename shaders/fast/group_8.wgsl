// Group g of row r, 32 columns, as bytes for dot4I8Packed: signed bytes, as they lie in lib/weights_8.wgsl. low holds
// columns 0 to 15, high the others; weight = code·scale + minimum.
struct Group {
  low: vec4<u32>,
  high: vec4<u32>,
  scale: f32,
  minimum: f32,
}

fn group_of(r: u32, g: u32) -> Group {
  let group = r * (p.cols / 32u) + g;
  let at = p.codes_at + group * 8u;
  let low = vec4<u32>(codes[at], codes[at + 1u], codes[at + 2u], codes[at + 3u]);
  let high = vec4<u32>(codes[at + 4u], codes[at + 5u], codes[at + 6u], codes[at + 7u]);
  let half = p.scales_at + group;
  return Group(low, high, half_of(scales[half >> 1u], half), 0.0);
}

// Group g of row r, 32 columns, as bytes for dot4I8Packed: 4-bit codes, as they lie in lib/weights_4.wgsl. low holds
// columns 0 to 15, high the others; weight = code·scale + minimum.
struct Group {
  low: vec4<u32>,
  high: vec4<u32>,
  scale: f32,
  minimum: f32,
}

fn group_of(r: u32, g: u32) -> Group {
  let group = r * (p.cols / 32u) + g;
  let at = p.codes_at + group * 4u;
  let words = vec4<u32>(codes[at], codes[at + 1u], codes[at + 2u], codes[at + 3u]);
  let both = half2(scales[p.scales_at + group]);
  let nibbles = vec4<u32>(0x0f0f0f0fu);
  return Group(words & nibbles, (words >> vec4<u32>(4u)) & nibbles, both.x, both.y);
}

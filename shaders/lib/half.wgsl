// Half floats, in integer arithmetic: unpack2x16float and pack2x16float may flush subnormals and round as they like,
// scales are often subnormal, and a page must hold the same bits on every machine.

// The two halves of a word, the low one first. Neither is infinite or NaN.
fn half2(word: u32) -> vec2<f32> {
  let bits = vec2<u32>(word & 0x7fffu, (word >> 16u) & 0x7fffu) << vec2<u32>(13u, 13u);
  // 112 = 127 − 15 is the difference of the exponents' biases. A subnormal gets a leading one, which is taken off again.
  let normal = bitcast<vec2<f32>>(bits + vec2<u32>(0x38000000u, 0x38000000u));
  let small = bitcast<vec2<f32>>(bits + vec2<u32>(0x38800000u, 0x38800000u)) - vec2<f32>(6.103515625e-5, 6.103515625e-5);
  let size = select(normal, small, bits < vec2<u32>(0x800000u, 0x800000u));
  return select(size, -size, vec2<bool>((word & 0x8000u) != 0u, (word & 0x80000000u) != 0u));
}

// One half of an array of halves.
fn half_of(word: u32, index: u32) -> f32 {
  let both = half2(word);
  return select(both.x, both.y, (index & 1u) == 1u);
}

// The nearest half, ties to even; what is too large becomes infinite.
fn to_half(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let sign = (bits >> 16u) & 0x8000u;
  let size = bits & 0x7fffffffu;
  if (size >= 0x477ff000u) { // halfway between the largest half and 2^16
    return sign | select(0x7c00u, 0x7e00u, size > 0x7f800000u);
  }
  if (size < 0x38800000u) { // below 2^-14: in [0.5, 1) floats step by 2^-24, as subnormal halves do
    return sign | (bitcast<u32>(bitcast<f32>(size) + 0.5) - 0x3f000000u);
  }
  return sign | ((size + 0xfffu + ((size >> 13u) & 1u) - 0x38000000u) >> 13u);
}

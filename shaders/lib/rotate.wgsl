// RoPE (Su et al., "RoFormer", 2021) of one pair of channels, from the host's table: WGSL's own sine is inaccurate at
// large angles. The table is [position][rot/2] of cosine and sine.
const TURN_KEYS: bool = true; // otherwise keys stay as they are (StreamingLLM)

// The two channels of pair i of a head: (2i, 2i + 1), or (i, i + rot/2) in NeoX's order. What is not rotated pairs up as
// neighbours.
fn pair_of(i: u32) -> vec2<u32> {
  if (p.neox != 0u && i < p.rot / 2u) {
    return vec2<u32>(i, i + p.rot / 2u);
  }
  return vec2<u32>(2u * i, 2u * i + 1u);
}

// Rotates pair i of head h at a position; behind the heads of queries come those of keys and of values, which stay as they
// are.
fn rotated(v: vec2<f32>, h: u32, i: u32, position: u32) -> vec2<f32> {
  if (h >= p.heads + select(0u, p.kv_heads, TURN_KEYS) || i >= p.rot / 2u) {
    return v;
  }
  let at = position * p.rot + 2u * i;
  let c = rope[at];
  let s = rope[at + 1u];
  return vec2<f32>(v.x * c - v.y * s, v.x * s + v.y * c);
}

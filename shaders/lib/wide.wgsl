// 64-bit numbers as two words, the low one first.
fn add64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}

fn sub64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}

fn less64(a: vec2<u32>, b: vec2<u32>) -> bool {
  return a.y < b.y || (a.y == b.y && a.x < b.x);
}

// The whole product of two words.
fn wide(a: u32, b: u32) -> vec2<u32> {
  let ll = (a & 0xffffu) * (b & 0xffffu);
  let lh = (a & 0xffffu) * (b >> 16u);
  let hl = (a >> 16u) * (b & 0xffffu);
  let middle = (ll >> 16u) + (lh & 0xffffu) + (hl & 0xffffu);
  return vec2<u32>((ll & 0xffffu) | (middle << 16u), (a >> 16u) * (b >> 16u) + (lh >> 16u) + (hl >> 16u) + (middle >> 16u));
}

fn mul64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = wide(a.x, b.x);
  return vec2<u32>(low.x, low.y + a.x * b.y + a.y * b.x);
}

// a·b div 2^64.
fn mul64_high(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let middle = add64(add64(vec2<u32>(wide(a.x, b.x).y, 0u), wide(a.x, b.y)), vec2<u32>(wide(a.y, b.x).x, 0u));
  return add64(wide(a.y, b.y), add64(vec2<u32>(middle.y, 0u), vec2<u32>(wide(a.y, b.x).y, 0u)));
}

// a xor (a shifted right by 0 < n < 32).
fn fold64(a: vec2<u32>, n: u32) -> vec2<u32> {
  return a ^ vec2<u32>((a.x >> n) | (a.y << (32u - n)), a.y >> n);
}

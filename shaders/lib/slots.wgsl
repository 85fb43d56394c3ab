// Recorded decode: keys and values go straight to the slot that the ring names, with the position; after the end of the
// answer nothing is written. A pair is one word of a half page, so pairs are neighbours here: not NeoX's order.
//!include lib/pages.wgsl
@group(0) @binding(8) var<storage, read_write> arena: array<u32>;

fn put(v: vec2<f32>, h: u32, i: u32, t: u32) {
  if (h < p.heads) {
    let at = h * p.dim + 2u * i;
    q[at] = v.x;
    q[at + 1u] = v.y;
    return;
  }
  if (session[HALT] != 0u) {
    return;
  }
  if (h < p.heads + p.kv_heads) {
    let list = p.layer * p.kv_heads + h - p.heads;
    let slot = session[ring_at(list)];
    if (i == 0u) {
      arena[position_at(list, slot)] = session[POS];
    }
    write2(key_at(list, slot), i, v, KEY_F16);
    return;
  }
  let list = p.layer * p.kv_heads + h - p.heads - p.kv_heads;
  write2(value_at(list, session[ring_at(list)]), i, v, VALUE_F16);
}

fn write2(at: u32, i: u32, v: vec2<f32>, is_half: bool) {
  if (is_half) {
    arena[at + i] = to_half(v.x) | (to_half(v.y) << 16u);
  } else {
    arena[at + 2u * i] = bitcast<u32>(v.x);
    arena[at + 2u * i + 1u] = bitcast<u32>(v.y);
  }
}

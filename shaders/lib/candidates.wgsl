// Where the candidates of a layer are: in pages, or in the rows that are not stored yet.
//!include lib/tokens.wgsl

fn list_of(h: u32) -> u32 {
  return p.layer * p.kv_heads + h;
}

fn slot_of(h: u32, j: u32) -> u32 {
  return tokens[tokens[ORDER] + h * tokens[ROOM] + j];
}

fn position_of(h: u32, j: u32) -> u32 {
  if (j < stored(h)) {
    return arena[position_at(list_of(h), slot_of(h, j))];
  }
  return session[POS] - session[FROM] + j - stored(h);
}

// Where a candidate's key is: a word of the arena, or, with 1 after it, a float of kv.
fn key_of(h: u32, j: u32) -> vec2<u32> {
  if (j < stored(h)) {
    return vec2<u32>(key_at(list_of(h), slot_of(h, j)), 0u);
  }
  return vec2<u32>(((j - stored(h)) * p.kv_heads + h) * p.dim, 1u);
}

fn value_of(h: u32, j: u32) -> vec2<u32> {
  if (j < stored(h)) {
    return vec2<u32>(value_at(list_of(h), slot_of(h, j)), 0u);
  }
  return vec2<u32>(session[VALUES_AT] + ((j - stored(h)) * p.kv_heads + h) * p.dim, 1u);
}

// Channels 2i and 2i + 1 of a key or a value.
fn key_pair(at: vec2<u32>, i: u32) -> vec2<f32> {
  if (at.y == 1u) {
    return vec2<f32>(kv[at.x + 2u * i], kv[at.x + 2u * i + 1u]);
  }
  return key2(at.x, i);
}

fn value_pair(at: vec2<u32>, i: u32) -> vec2<f32> {
  if (at.y == 1u) {
    return vec2<f32>(kv[at.x + 2u * i], kv[at.x + 2u * i + 1u]);
  }
  return value2(at.x, i);
}

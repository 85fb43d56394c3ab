// Logits of a query in q [chunk rows][heads·dim] over stored keys.
@group(0) @binding(2) var<storage, read> q: array<f32>;

fn logit_of(list: u32, slot: u32, h: u32, row: u32, last: u32) -> f32 {
  if (arena[position_at(list, slot)] > last) {
    return LOWEST;
  }
  let query = (row * p.heads + h) * p.dim;
  let key = key_at(list, slot);
  var sum = 0.0;
  for (var i = 0u; i < p.dim / 2u; i++) {
    sum += dot(vec2<f32>(q[query + 2u * i], q[query + 2u * i + 1u]), key2(key, i));
  }
  return sum * p.scale;
}

// All weights together, of which those of the slots are given.
fn total(h: u32, slots: f32) -> f32 {
  return slots;
}

// Logits of queries: the product of query i of scored head s and candidate j's key. The one of them that a thread goes on
// with is held, and a key unpacked once.
@group(0) @binding(3) var<storage, read> q: array<f32>;

const PAIRS: u32 = 1u; // dim/2

var<private> held: array<vec2<f32>, PAIRS>;

fn query_at(s: u32, i: u32) -> u32 {
  return ((tokens[FIRST] + i) % tokens[AROUND] * p.heads + scored_head(s)) * p.dim;
}

fn hold_query(s: u32, i: u32) {
  let query = query_at(s, i);
  for (var c = 0u; c < PAIRS; c++) {
    held[c] = vec2<f32>(q[query + 2u * c], q[query + 2u * c + 1u]) * p.scale;
  }
}

fn hold_key(h: u32, j: u32) {
  let key = key_of(h, j);
  for (var c = 0u; c < PAIRS; c++) {
    held[c] = key_pair(key, c) * p.scale;
  }
}

// The held query's logit.
fn logit_at(s: u32, j: u32) -> f32 {
  let key = key_of(kv_head(scored_head(s)), j);
  var sum = 0.0;
  for (var c = 0u; c < PAIRS; c++) {
    sum += dot(held[c], key_pair(key, c));
  }
  return sum;
}

// The held key's.
fn logit_by(s: u32, i: u32) -> f32 {
  let query = query_at(s, i);
  var sum = 0.0;
  for (var c = 0u; c < PAIRS; c++) {
    sum += dot(held[c], vec2<f32>(q[query + 2u * c], q[query + 2u * c + 1u]));
  }
  return sum;
}

// Logits of queries: the product of query i of scored head s and candidate j's key.
@group(0) @binding(3) var<storage, read> q: array<f32>;

fn query_at(s: u32, i: u32) -> u32 {
  return ((tokens[FIRST] + i) % tokens[AROUND] * p.heads + scored_head(s)) * p.dim;
}

fn logit_of(s: u32, i: u32, j: u32) -> f32 {
  let query = query_at(s, i);
  let key = key_of(kv_head(scored_head(s)), j);
  var sum = 0.0;
  for (var c = 0u; c < p.dim / 2u; c++) {
    sum += dot(vec2<f32>(q[query + 2u * c], q[query + 2u * c + 1u]), key_pair(key, c));
  }
  return sum * p.scale;
}

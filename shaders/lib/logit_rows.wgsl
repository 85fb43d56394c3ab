// Logits that are there already, one row a scored head.
@group(0) @binding(3) var<storage, read> rows: array<f32>;

fn hold_query(s: u32, i: u32) {
}

fn logit_at(s: u32, j: u32) -> f32 {
  return rows[s * tokens[STRIDE] + j];
}

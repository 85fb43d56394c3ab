// Accumulated attention begins with a candidate's share of what all of the KV head's are worth: a moving average, as if that
// were one token's attention.
@group(0) @binding(4) var<storage, read> worth: array<f32>; // [kv_heads][STRIDE]

fn begun(h: u32, candidate: u32, had: f32) -> f32 {
  let at = (p.layer * p.kv_heads + h) * LIST;
  let mass = bitcast<f32>(lists[at + MASS]);
  if (mass > 0.0) {
    return worth[h * lists[at + STRIDE] + candidate] / mass;
  }
  return 0.0;
}

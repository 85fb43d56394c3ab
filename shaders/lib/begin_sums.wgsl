// Accumulated attention goes on from what a token had with what all queries of the prompt gave it, the mean over its KV
// head's query heads, as decoded tokens add to it: whatever reduction chose the tokens.
@group(0) @binding(4) var<storage, read> rows: array<f32>; // [heads][STRIDE], as columns.wgsl left them

fn begun(h: u32, candidate: u32, had: f32) -> f32 {
  let stride = lists[(p.layer * p.kv_heads + h) * LIST + STRIDE];
  let size = p.heads / p.kv_heads;
  var sum = 0.0;
  for (var head = h * size; head < (h + 1u) * size; head++) {
    sum += rows[head * stride + candidate];
  }
  return sum / f32(size) + had;
}

// Tokens are worth the attention that they got so far; in one set for a layer, the mean of its KV heads'.
//!include lib/beside.wgsl
const LAYER: u32 = 3u; // the number is that of package policy

fn key_of(i: u32) -> u32 {
  return ordered(by_rank[row + i]);
}

fn weigh(lane: u32, h: u32, slots: u32, n: u32) {
  let first = select(h, 0u, p.reduce == LAYER);
  let end = select(h + 1u, p.kv_heads, p.reduce == LAYER);
  for (var slot = lane; slot < slots; slot += GROUP) {
    let rank = ranks[rank_at(p.layer * p.kv_heads + h, slot)];
    if (rank == NONE) {
      continue;
    }
    var sum = 0.0;
    for (var g = first; g < end; g++) {
      sum += bitcast<f32>(arena[accumulated_at(p.layer * p.kv_heads + g, slot)]);
    }
    by_rank[row + rank] = sum / f32(end - first);
  }
  sync();
}

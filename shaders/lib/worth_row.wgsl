// Tokens are worth the attention that the newest one gives them, from the logits and the sums of weights that score.wgsl and
// weigh.wgsl left (TOVA, Oren et al., 2024; CAKE, Qin et al., 2025): smoothed over neighbours by rank before or after the
// query heads' rows become one.
//!include lib/parts.wgsl
//!include lib/{top}.wgsl
@group(0) @binding(8) var<storage, read> scores: array<f32>; // [heads][CAPACITY]
@group(0) @binding(9) var<storage, read> parts: array<f32>;

// The numbers are those of package policy.
const MAX: u32 = 1u;
const SUM: u32 = 2u;
const LAYER: u32 = 3u;
const HIGHEST: u32 = 2u;

fn key_of(i: u32) -> u32 {
  return ordered(by_rank[row + i]);
}

// Entry i of by_rank with its neighbours.
fn smoothed(i: u32, n: u32) -> f32 {
  let neighbours = n - min(n, p.apart);
  var top = by_rank[row + i];
  if (p.pool == 0u || i >= neighbours) {
    return top;
  }
  let half = p.size / 2u;
  var sum = 0.0;
  for (var j = max(i, half) - half; j < min(neighbours, i + p.size - half); j++) {
    sum += by_rank[row + j];
    top = max(top, by_rank[row + j]);
  }
  return select(sum / f32(p.size), top, p.pool == HIGHEST);
}

// The lane's part of stays, which is scratch here, goes to by_rank.
fn settle() {
  sync();
  for (var i = begin; i < end; i++) {
    by_rank[row + i] = bitcast<f32>(stays[row + i]);
  }
  sync();
}

fn weigh(lane: u32, h: u32, slots: u32, n: u32) {
  let size = p.heads / p.kv_heads;
  let first = select(h * size, 0u, p.reduce == LAYER);
  let past = select(first + size, p.heads, p.reduce == LAYER);
  let by = select(1.0 / f32(past - first), 1.0, p.reduce == MAX || p.reduce == SUM);
  for (var head = first; head < past; head++) {
    let logits = head * session[CAPACITY];
    let top = top_of(logits, slots, lane);
    let weight = by * share(head);
    for (var slot = lane; slot < slots; slot += GROUP) {
      let rank = ranks[rank_at(p.layer * p.kv_heads + h, slot)];
      if (rank != NONE) {
        by_rank[row + rank] = weight * exp(scores[logits + slot] - top);
      }
    }
    sync();
    for (var i = begin; i < end; i++) {
      var x = by_rank[row + i];
      if (p.after == 0u) {
        x = smoothed(i, n);
      }
      let before = bitcast<f32>(select(stays[row + i], 0u, head == first));
      stays[row + i] = bitcast<u32>(select(before + x, max(before, x), p.reduce == MAX));
    }
    sync();
  }
  settle();
  if (p.after == 1u) {
    for (var i = begin; i < end; i++) {
      stays[row + i] = bitcast<u32>(smoothed(i, n));
    }
    settle();
  }
}

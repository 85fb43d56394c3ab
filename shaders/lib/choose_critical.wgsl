// Chooses some candidates by what they are worth, and the rest by (worth + epsilon)·‖W_o·v‖₁ (CriticalKV).
@group(0) @binding(7) var<storage, read> weights: array<f32>; // like worth

var<private> weighted: bool;

fn key_of(i: u32) -> u32 {
  if (weighted) {
    return ordered((worth[row + i] + p.epsilon) * weights[row + i]);
  }
  return ordered(worth[row + i]);
}

fn weight_of(i: u32) -> u32 {
  return select(0u, 1u, stays[row + i] == 0u);
}

fn choose(lane: u32, list: u32, n: u32, left: u32) {
  let lead = min(lists[list * LIST + LEAD], left);
  weighted = false;
  take(lane, lead);
  weighted = true;
  take(lane, left - lead);
}

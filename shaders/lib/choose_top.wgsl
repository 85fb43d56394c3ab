// Chooses the candidates that are worth most.
fn key_of(i: u32) -> u32 {
  return ordered(worth[row + i]);
}

fn weight_of(i: u32) -> u32 {
  return select(0u, 1u, stays[row + i] == 0u);
}

fn choose(lane: u32, list: u32, n: u32, left: u32) {
  take(lane, left);
}

// Tokens are worth nothing: windows.
fn key_of(i: u32) -> u32 {
  return 0u;
}

fn weigh(lane: u32, h: u32, slots: u32, n: u32) {
}

// Accumulated attention begins with nothing.
fn begun(h: u32, candidate: u32, had: f32) -> f32 {
  return 0.0;
}

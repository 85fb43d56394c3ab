fn silu(x: f32) -> f32 {
  return x / (1.0 + exp(-clamp(x, -80.0, 80.0))); // beyond, e^x overflows somewhere and changes nothing
}

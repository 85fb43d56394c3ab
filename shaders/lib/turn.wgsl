// Takes the rotation of a position off channel c of a head, whose other channel of the pair is at index partner_of(c).
fn partner_of(c: u32) -> u32 {
  if (p.neox == 0u) {
    return c ^ 1u;
  }
  return select(c - p.rot / 2u, c + p.rot / 2u, c < p.rot / 2u);
}

fn unturned(x: f32, partner: f32, c: u32, position: u32) -> f32 {
  let first = select(c < p.rot / 2u, (c & 1u) == 0u, p.neox == 0u);
  let pair = select(c % (p.rot / 2u), c / 2u, p.neox == 0u);
  let at = position * p.rot + 2u * pair;
  return x * rope[at] + select(-partner, partner, first) * rope[at + 1u];
}

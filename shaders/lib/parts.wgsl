// One channel of the attention output: the SPLITS parts of weigh.wgsl, added up.
const SPLITS: u32 = 1u;

// What to multiply the parts of head h with: 0 where no token counted.
fn share(h: u32) -> f32 {
  var sum = 0.0;
  for (var s = 0u; s < SPLITS; s++) {
    sum += parts[SPLITS * p.heads * p.dim + s * p.heads + h];
  }
  if (sum > 0.0) {
    return 1.0 / sum;
  }
  return 0.0;
}

fn total(c: u32) -> f32 {
  var acc = 0.0;
  for (var s = 0u; s < SPLITS; s++) {
    acc += parts[s * p.heads * p.dim + c];
  }
  return acc;
}

// The logits scores [heads][CAPACITY] that decoding has just used, whatever a plan made of them, and its sums of weights
// behind the parts of the values ([SPLITS][heads·dim], then [SPLITS][heads]): what stands for tokens that left has a share
// there.
const SPLITS: u32 = 1u;

@group(0) @binding(2) var<storage, read> scores: array<f32>;
@group(0) @binding(5) var<storage, read> parts: array<f32>;

fn logit_of(list: u32, slot: u32, h: u32, row: u32, last: u32) -> f32 {
  return scores[h * session[CAPACITY] + slot];
}

fn total(h: u32, slots: f32) -> f32 {
  var sum = 0.0;
  for (var i = 0u; i < SPLITS; i++) {
    sum += parts[SPLITS * p.heads * p.dim + i * p.heads + h];
  }
  return sum;
}

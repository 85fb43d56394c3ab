// The logarithm of a row's sum of exponentials, which one thread has summed: for software adapters.
const LANES: u32 = 1u;

fn whole(top: f32, sum: f32, lane: u32) -> f32 {
  return top + log(sum);
}

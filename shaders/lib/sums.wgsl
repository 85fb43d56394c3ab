// A list's sums: 2·dim + 1 f32 of the keys and values that left it, and their number (RazorAttention).
const SUMS_AT: u32 = 23u; // word of the session buffer: word of the table of sums, an offset in the arena for each list

fn sums_at(list: u32) -> u32 {
  return session[session[SUMS_AT] + list];
}

fn sum_of(list: u32, i: u32) -> f32 {
  return bitcast<f32>(arena[sums_at(list) + i]);
}

// Where a list's sums are in the arena.
const SUMS_AT: u32 = 23u; // word of the session buffer: word of the table of sums, an offset in the arena for each list

fn sums_at(list: u32) -> u32 {
  return session[session[SUMS_AT] + list];
}

// Where the rank of a slot is: [lists][CAPACITY].
fn rank_at(list: u32, slot: u32) -> u32 {
  return list * session[CAPACITY] + slot;
}

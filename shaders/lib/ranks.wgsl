// Rows of CAPACITY words, one for each slot of a list: ranks of all lists, and scratch of a layer's KV heads in decode.
fn rank_at(list: u32, slot: u32) -> u32 {
  return list * session[CAPACITY] + slot;
}

fn row_of(h: u32) -> u32 {
  return h * session[CAPACITY];
}

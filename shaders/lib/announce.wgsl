// Tells a step which slot the list's next token takes, and how many slots the list has with it.
fn announce(list: u32, step: u32, slot: u32) {
  let at = session[RING_AT] + ((step % RING) * session[LISTS] + list) * 2u;
  session[at] = slot;
  session[at + 1u] = max(lists[list * LIST + SLOTS], slot + 1u);
}

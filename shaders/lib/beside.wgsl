// What some recipes keep beside the keys and values of a list, in pages of the arena: accumulated attention, a float a
// slot, and for every BOUND slots the least and the greatest of their keys, [2][dim].
const SCORES_AT: u32 = 21u; // word of the session buffer: word of these page tables
const BOUNDS_AT: u32 = 22u;

fn accumulated_at(list: u32, slot: u32) -> u32 {
  return session[session[SCORES_AT] + (slot / POS_LANES) * session[LISTS] + list] + slot % POS_LANES;
}

fn bounds_at(list: u32, page: u32) -> u32 {
  return session[session[BOUNDS_AT] + page * session[LISTS] + list];
}

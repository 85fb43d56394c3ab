// Where the lanes of one list are in the arena, in words. list = layer · kv_heads + KV head.
const KEY_F16: bool = false;
const VALUE_F16: bool = false;

fn key_at(list: u32, slot: u32) -> u32 {
  let page = slot / session[PAGE_K];
  let words = select(p.dim, p.dim / 2u, KEY_F16);
  return session[session[KEYS_AT] + page * session[LISTS] + list] + (slot % session[PAGE_K]) * words;
}

fn value_at(list: u32, slot: u32) -> u32 {
  let page = slot / session[PAGE_V];
  let words = select(p.dim, p.dim / 2u, VALUE_F16);
  return session[session[VPAGES_AT] + page * session[LISTS] + list] + (slot % session[PAGE_V]) * words;
}

fn position_at(list: u32, slot: u32) -> u32 {
  return session[session[POSITIONS_AT] + (slot / POS_LANES) * session[LISTS] + list] + slot % POS_LANES;
}

// Where the ring keeps the slot that a list's next token takes; the word after it is the number of slots, that one
// included.
fn ring_at(list: u32) -> u32 {
  return session[RING_AT] + ((session[STEP] % RING) * session[LISTS] + list) * 2u;
}
